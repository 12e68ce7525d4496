# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Cases of check.sh: the system, and hostile hosts.
# shellcheck disable=SC2034,SC2154 # set and used by check.sh and tree.sh

case_system() {
	job="RANK=0 WORLD_SIZE=8 LOCAL_RANK=0 LOCAL_WORLD_SIZE=4"
	here=$(nic eth0 192.0.2.1/24)
	# No interface to other hosts; no route to the master; invalid forms of its address.
	# shellcheck disable=SC2086
	in_namespace : $job MASTER_ADDR=192.0.2.9 MASTER_PORT=29500
	finds no-way-out error "several hosts" lo "docker run --network=host"
	finds master-no-route error 192.0.2.9 "ip route get"
	# shellcheck disable=SC2086
	in_namespace "ip link add docker0 type bridge; ip link add v type veth peer name w
		ip link set v master docker0; ip link set v up; ip link set w up
		ip link set docker0 up; ip addr add 172.17.0.1/16 dev docker0
		until ip -br link show docker0 | grep ' UP ' >/dev/null; do sleep 0.01; done" \
		$job MASTER_ADDR=172.17.0.9
	finds no-way-out error docker0
	# shellcheck disable=SC2086
	in_namespace "$here" $job MASTER_ADDR=198.51.100.7 MASTER_PORT=29500
	finds_not no-way-out
	finds master-no-route error 198.51.100.7 "Network is unreachable"
	# shellcheck disable=SC2086
	in_namespace "$here" NODE_RANK=1 WORLD_SIZE=8 LOCAL_WORLD_SIZE=4 MASTER_ADDR=192.0.2.9 \
		MASTER_PORT=29500
	finds master-route ok "uses eth0"
	status_is 0
	for master in http://192.0.2.9 192.0.2.9:29500 head:29500 tcp://head/; do
		# shellcheck disable=SC2086
		in_namespace "$here" $job MASTER_ADDR=$master MASTER_PORT=29500
		finds master-form error "MASTER_ADDR=$master" "; expected a host name or an IP address" "MASTER_PORT=PORT"
		finds_not master-unresolved
	done
	# shellcheck disable=SC2086
	in_namespace "$here" $job MASTER_ADDR=fd00::1 MASTER_PORT=29500
	finds_not master-form
	# A host name that resolves to a loopback address on this host only.
	if unshare -u true 2>/dev/null; then
		eval "$here"
		# shellcheck disable=SC2086
		env -i PATH=/usr/bin:/bin:/sbin $job MASTER_ADDR=192.0.2.1 MASTER_PORT=29500 unshare -u \
			sh -c 'hostname localhost; exec "$1" check --json' -- "$tool" >"$work/json"
		finds hostname-loopback warn localhost GLOO_SOCKET_IFNAME
	fi
	# Shared memory, sysfs, files.
	check
	finds_not shm-small
	if unshare -m mount -t tmpfs -o size=64m tmpfs "$work" 2>/dev/null; then
		mkdir -p "$root/dev/shm"
		in_shm() {
			env -i PATH=/usr/bin:/bin:/sbin "$@" unshare -m sh -c \
				'mount -t tmpfs -o size=64m tmpfs "$1/dev/shm"; exec "$2" check --json --root "$1"' \
				-- "$root" "$tool" >"$work/json"
		}
		in_shm LOCAL_WORLD_SIZE=8
		finds shm-small warn "64 MiB" "--shm-size"
		in_shm
		finds_not shm-small
		rm -r "$root/dev"
	fi
	check NCCL_TOPO_FILE=/etc/topo.xml NCCL_GRAPH_FILE=/etc/graph.xml
	finds file-named-missing error NCCL_TOPO_FILE=/etc/topo.xml "also in /etc/nccl.conf"
	finds file-named-missing error NCCL_GRAPH_FILE=
	write /etc/topo.xml "<system/>"
	check NCCL_TOPO_FILE=/etc/topo.xml
	finds_not file-named-missing
	# NCCL opens a relative name in the working directory. That of another host is not known.
	check NCCL_TOPO_FILE=topo.xml NCCL_DEBUG_FILE=logs/x
	finds_not file-named-missing
	finds_not file-nowhere
	in_work() {
		(cd "$work" && env -i PATH=/usr/bin:/bin "$@" "$tool" check --json >"$work/json")
	}
	in_work NCCL_TOPO_FILE=topo.xml NCCL_DEBUG_FILE=logs/x
	finds file-named-missing error "NCCL_TOPO_FILE=topo.xml: there is no file $work/topo.xml"
	finds file-nowhere warn "no directory $work/logs"
	mkdir "$work/logs"
	echo "<system/>" >"$work/topo.xml"
	echo NCCL_ALGO=ring >"$work/my.conf"
	in_work NCCL_TOPO_FILE=topo.xml NCCL_DEBUG_FILE=logs/x NCCL_CONF_FILE=my.conf
	finds_not file-named-missing
	finds_not file-nowhere
	finds_not file-missing
	finds set ok "NCCL_ALGO=ring (in my.conf:1)"
	check NCCL_DEBUG_FILE=/var/log/nccl/%h.%p
	finds file-nowhere warn "no directory /var/log/nccl"
	mkdir -p "$root/var/log/nccl"
	check NCCL_DEBUG_FILE=/var/log/nccl/%h.%p
	finds_not file-nowhere
	check CUDA_VISIBLE_DEVICES=
	finds gpus-hidden error "empty is not unset"
	check CUDA_VISIBLE_DEVICES=0,1
	finds_not gpus-hidden
	check NCCL_MIN_NCHANNELS=16 NCCL_MAX_NCHANNELS=4
	finds least-above-most warn "NCCL_MIN_NCHANNELS=16 is above NCCL_MAX_NCHANNELS=4"
	check NCCL_MIN_NCHANNELS=4 NCCL_MAX_NCHANNELS=4
	finds_not least-above-most
	check NCCL_IB_HCA=mlx5_7
	finds hca-none note "(none)"
	rmdir "$root/sys/class"
	check
	finds sys-none error "not mounted"
	mkdir "$root/sys/class"
	# Plugins and copies of NCCL that the loader accepts or skips.
	mkdir -p "$root/opt/other" "$root/opt/dir/libnccl-net.so"
	plant "$plugin" /opt/lib/libnccl-net.so
	cp "$plugin" "$root/opt/other/libnccl-net.so"
	printf '\267' | dd of="$root/opt/other/libnccl-net.so" bs=1 seek=18 conv=notrunc 2>/dev/null
	if [ "$(uname -m)" = x86_64 ]; then
		check LD_LIBRARY_PATH=/opt/other:/opt/lib
		finds plugin-anynet ok /opt/lib/libnccl-net.so
		check NCCL_NET_PLUGIN=/opt/other/libnccl-net.so
		finds plugin-unusable warn "another processor"
	fi
	check LD_LIBRARY_PATH=/opt/dir:/opt/lib
	finds plugin-unusable warn /opt/dir/libnccl-net.so "is a directory"
	chmod 0 "$root/opt/lib/libnccl-net.so"
	if [ ! -r "$root/opt/lib/libnccl-net.so" ]; then
		check LD_LIBRARY_PATH=/opt/lib
		finds plugin-unreadable warn "cannot read it"
	fi
	plant "$fakes/libfake_nccl_2.19.3.so" /opt/nccl/libnccl.so.2
	check LD_PRELOAD=
	finds_not preloaded
	as="env LD_PRELOAD=/opt/nccl/libnccl.so.2"
	env -i PATH=/usr/bin:/bin LD_PRELOAD=/opt/nccl/libnccl.so.2 "$tool" check --json --root "$root" \
		>"$work/json" 2>/dev/null
	finds preloaded warn "NCCL 2.19.3" "unset LD_PRELOAD"
	as=
	# The version of the wheel that PyTorch requires.
	site=/opt/venv/lib/python3.11/site-packages
	plant "$fakes/libfake_nccl_2.19.3.so" $site/nvidia/nccl/lib/libnccl.so.2
	mkdir -p "$root$site/nvidia_nccl_cu12-2.19.3.dist-info"
	write $site/torch-2.4.0.dist-info/METADATA "Name: torch" \
		"Requires-Dist: nvidia-nccl-cu12 ==2.20.5 ; platform_system == \"Linux\""
	check VIRTUAL_ENV=/opt/venv
	finds wheel-not-asked warn "requires nvidia-nccl-cu12 2.20.5" "pip install nvidia-nccl-cu12==2.20.5"
	write $site/torch-2.4.0.dist-info/METADATA "Requires-Dist: nvidia-nccl-cu12 (==2.19.3)"
	check VIRTUAL_ENV=/opt/venv
	finds_not wheel-not-asked
	# By default only the releases on this host are checked; and selected areas.
	chmod 644 "$root/opt/lib/libnccl-net.so"
	options=
	check VIRTUAL_ENV=/opt/venv LD_LIBRARY_PATH=/opt/lib
	finds plugin-anynet ok "NCCL 2.19"
	[ "$(findings plugin-anynet | wc -l)" = 1 ] || fail "releases that are not here"
	options="--only settings"
	check NCCL_IB_TIMEOUT=99 LD_LIBRARY_PATH=/opt/lib
	finds bad-value warn
	[ "$(grep '"area"' "$work/json" | sort -u | wc -l)" = 1 ] || fail "other areas"
	options=--quiet
	check NCCL_IB_TIMEOUT=99
	finds bad-value warn
	grep -q '"level": "\(ok\|note\)"' "$work/json" && fail "not quiet"
	status_is 1
	"$tool" check --only nowhere 2>"$work/stderr" && fail "an area that is none"
	grep -q "not an area" "$work/stderr" || fail "not told"
}

case_hostile() {
	# Files that are larger than they seem, or change while they are read.
	plant "$plugin" /opt/lib/libnccl-net.so
	truncate -s 40G "$root/opt/lib/libnccl-net.so"
	check LD_LIBRARY_PATH=/opt/lib
	finds plugin-anynet ok /opt/lib/libnccl-net.so
	# Its symbol table claims 40 GB.
	section=$(readelf -SW "$plugin" | awk '$2 == ".dynsym" || $3 == ".dynsym" { gsub(/[][]/, ""); print $1 }')
	offset=$(readelf -h "$plugin" | awk '/Start of section headers/ { print $5 }')
	printf '\0\0\0\0\010\0\0\0' | dd of="$root/opt/lib/libnccl-net.so" bs=1 \
		seek=$((offset + 64 * section + 32)) conv=notrunc 2>/dev/null
	as="timeout 250"
	check LD_LIBRARY_PATH=/opt/lib
	finds plugin-unusable warn
	as=
	mkfifo "$root/opt/lib/libnccl-net-pipe.so"
	as="timeout 250"
	check LD_LIBRARY_PATH=/opt/lib NCCL_NET_PLUGIN=pipe
	[ "$status" -lt 3 ] || fail "a pipe"
	as=
	# Root loads no library from a directory that others may write to; it is only inspected.
	if [ "$(id -u)" = 0 ]; then
		for name in libnftables.so.1 libnvidia-ml.so.1 libibverbs.so.1 librdmacm.so.1 libcuda.so.1; do
			mkdir -p "$work/libraries/lib"
			cp "$fakes/libforeign.so" "$work/libraries/lib/$name"
		done
		foreign() {
			rm -f "$work/mark"
			check FOREIGN_MARK="$work/mark" "LD_LIBRARY_PATH=$1" "${@:2}"
		}
		lib=$work/libraries/lib
		foreign "$lib"
		[ -e "$work/mark" ] || fail "the library is never loaded"
		finds_not library-path-not-trusted
		for open in "$lib" "$work/libraries"; do
			chmod 777 "$open"
			foreign "/usr/lib:$lib"
			[ -e "$work/mark" ] && fail "root runs what others put into $lib"
			finds library-path-not-trusted note "$lib"
			# The environment is not trusted, nor the variable in it that the tool sets before its restart.
			foreign "$lib" ANYNET_CHECK_LIBRARY_PATH=/usr/lib
			[ -e "$work/mark" ] && fail "root believes the note"
			chmod 755 "$open"
		done
		ln -s "$lib" "$work/link"
		foreign "$work/link"
		[ -e "$work/mark" ] || fail "a link of root's"
		chmod 777 "$lib"
		foreign "$work/link"
		[ -e "$work/mark" ] && fail "a link to where others write"
		# The dynamic loader expands the name; a directory that does not exist yet.
		mkdir "$work/libraries/$(uname -m)"
		cp "$lib"/* "$work/libraries/$(uname -m)"
		chmod 777 "$work/libraries/$(uname -m)"
		for open in "$work/libraries/\$PLATFORM" "$work/libraries/\${PLATFORM}" "/tmp/none.$$/lib"; do
			foreign "$open"
			[ -e "$work/mark" ] && fail "root runs what others put into $open"
			finds library-path-not-trusted note "$open"
		done
		foreign "lib:"
		finds library-path-not-trusted note lib
	fi
}

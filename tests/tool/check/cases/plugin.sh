# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Cases of check.sh: plugins, filters, settings and files.
# shellcheck disable=SC2034,SC2154 # set and used by check.sh and tree.sh

case_plugin() {
	# For each range of releases: the file and the exported symbol that NCCL loads, or why it loads none.
	check
	finds plugin-none note "2.12 – 2.32" "libnccl-net.so" harmless
	check NCCL_NET_PLUGIN=anynet
	finds plugin-not-found warn "libnccl-net-anynet.so" "LD_LIBRARY_PATH"
	status_is 1

	plant "$plugin" /opt/lib/libnccl-net.so
	ln -s libnccl-net.so "$root/opt/lib/libnccl-net-anynet.so"
	check LD_LIBRARY_PATH=/opt/lib
	finds plugin-anynet ok "2.12 – 2.32 load /opt/lib/libnccl-net.so" "anynet 0." "v5 – v12"
	finds_not plugin-not-found
	check LD_LIBRARY_PATH=/opt/lib NCCL_NET_PLUGIN=anynet
	finds plugin-anynet ok "2.12 – 2.32 load /opt/lib/libnccl-net-anynet.so"
	finds plugin-name-kept ok "2.28.3 – 2.29.7"
	finds_not plugin-name-lost
	finds_not plugin-several
	# The file of the packages has another SONAME, so NCCL does not find it again by the usual name, unless that is
	# anynet as well.
	plant "$build/plugin/packaged/libnccl-net.so" /opt/packaged/libnccl-net-anynet.so
	check LD_LIBRARY_PATH=/opt/packaged NCCL_NET_PLUGIN=anynet
	finds plugin-name-lost note "2.28.3 – 2.29.7" NCCL_NET_PLUGIN_REF_COUNT=1
	check LD_LIBRARY_PATH=/opt/packaged:/opt/lib NCCL_NET_PLUGIN=/opt/packaged/libnccl-net-anynet.so
	finds plugin-name-kept ok
	finds_not plugin-name-lost
	check LD_LIBRARY_PATH=/opt/packaged NCCL_NET_PLUGIN=anynet NCCL_NET_PLUGIN_REF_COUNT=1
	finds_not plugin-name-lost

	# NCCL supports a path since 2.21, a list since 2.27, and "none" since 2.28.
	check NCCL_NET_PLUGIN=/opt/lib/libnccl-net.so
	finds plugin-not-found warn "2.13 – 2.20" "NCCL_NET_PLUGIN=anynet"
	finds plugin-name-kept ok
	finds plugin-anynet ok "2.21 – 2.32"
	check LD_LIBRARY_PATH=/opt/lib NCCL_NET_PLUGIN=nothing,anynet
	finds plugin-anynet ok "2.27 – 2.32"
	finds plugin-not-found warn "2.21 – 2.26"
	check LD_LIBRARY_PATH=/opt/lib NCCL_NET_PLUGIN=none
	finds plugin-off note "2.28 – 2.32"
	check LD_LIBRARY_PATH=/opt/lib NCCL_NET_PLUGIN=
	finds plugin-off warn "2.27 – 2.32" "empty is not unset"
	finds plugin-anynet ok "2.12 – 2.26"
	check LD_LIBRARY_PATH=/opt/lib NCCL_NET_PLUGIN=static
	finds plugin-static warn "2.22 – 2.32" "program itself"

	# Another plugin that is found first, or one that cannot be loaded.
	plant "$fakes/libfake_plugin.so" /opt/other/libnccl-net.so
	check LD_LIBRARY_PATH=/opt/other:/opt/lib
	finds plugin-other warn "/opt/other/libnccl-net.so" "found before /opt/lib/libnccl-net.so" \
		"put /opt/lib first"
	finds plugin-several note /opt/lib/libnccl-net /opt/other/libnccl-net.so
	check LD_LIBRARY_PATH=/opt/other
	finds plugin-unusable warn "2.13 – 2.19" "no ncclNetPlugin symbol for them"
	plant "$fakes/libfake_needy.so" /opt/other/libnccl-net.so
	check LD_LIBRARY_PATH=/opt/other
	finds plugin-unusable warn "needs libnccl.so.2, which is not found"
	write /opt/other/libnccl-net.so "no library"
	check LD_LIBRARY_PATH=/opt/other
	finds plugin-unusable warn "not an ELF file"
	: >"$root/opt/other/libnccl-net.so"
	check LD_LIBRARY_PATH=/opt/other
	finds plugin-unusable warn "not an ELF file"

	# A libc that is too old for the plugin, as in a container; and this host's own.
	cp "$root/lib64/libc.so.6" "$work/libc"
	plant "$fakes/libfake_libc.so" /lib64/libc.so.6
	check LD_LIBRARY_PATH=/opt/lib
	finds plugin-unusable warn "needs version GLIBC_2." "of libc.so.6, which /lib64/libc.so.6 does not have" \
		"built for this system"
	status_is 1
	plant "$(ldd "$plugin" | awk '$1 == "libc.so.6" { print $3 }')" /lib64/libc.so.6
	check LD_LIBRARY_PATH=/opt/lib
	finds plugin-anynet ok "2.12 – 2.32 load"
	finds_not plugin-unusable
	cp "$work/libc" "$root/lib64/libc.so.6"

	# Names that would affect a terminal, or a reader of the JSON.
	plant "$fakes/libfake_plugin.so" /opt/lib/$'libnccl-net-\033[2J\377.so'
	check LD_LIBRARY_PATH=/opt/lib NCCL_SOMETHING=$'\033[2J\377'
	finds plugin-several note 'libnccl-net-\\x1b[2J\\xff.so'
	LC_ALL=C grep -q $'[\001-\010\013-\037]' "$work/json" && fail "control characters"
	iconv -f UTF-8 -t UTF-16 "$work/json" >"$work/wide" || fail "not UTF-8"
	# Text output; and an invalid command line is an error.
	env -i "$tool" check --root "$root" >"$work/json" || fail "status $?"
	grep -q "^0 errors, 0 warnings" "$work/json" || fail "no summary"
	env -i "$tool" check --root /nowhere 2>"$work/json" && fail "a root that is not there"
	grep -q "/nowhere is not a directory" "$work/json" || fail "no reason"
	env -i "$tool" check --nosuch 2>"$work/json"
	[ $? = 3 ] || fail "a wrong option is no error"
	rm "$root/opt/lib/libnccl-net-"$'\033'*

	# If the host has an NCCL, other releases do not count.
	plant "$fakes/libfake_nccl_2.28.9.so" /usr/local/nccl2/lib/libnccl.so.2
	check LD_LIBRARY_PATH=/opt/packaged NCCL_NET_PLUGIN=anynet
	finds plugin-name-lost warn "issue 1978"
	check LD_LIBRARY_PATH=/opt/lib NCCL_NET_PLUGIN=anynet
	status_is 0
	check NCCL_NET_PLUGIN=/opt/lib/libnccl-net.so NCCL_NET_PLUGIN_REF_COUNT=1
	finds plugin-not-found note "2.12 – 2.20"
	status_is 0
	plant "$fakes/libfake_plugin.so" /opt/other/libnccl-net.so
	check LD_LIBRARY_PATH=/opt/other
	finds plugin-init-crash warn "2.28.3 – 2.29.3" "2.29.7 or newer" "is v8"
	plant "$fakes/libfake_nccl_2.30.7.so" /usr/local/nccl2/lib/libnccl.so.2
	check LD_LIBRARY_PATH=/opt/other
	finds_not plugin-init-crash
	rm -r "$root/usr/local/nccl2"
	check LD_LIBRARY_PATH=/opt/other
	finds plugin-init-crash note "/opt/other/libnccl-net.so"
	check LD_LIBRARY_PATH=/opt/lib
	finds_not plugin-init-crash
}

case_filter() {
	# An empty NCCL_NET.
	check NCCL_NET=
	finds net-empty error "not the same as unset" "unset NCCL_NET" ncclInvalidUsage
	status_is 2
	plant "$plugin" /opt/lib/libnccl-net.so
	check NCCL_NET= LD_LIBRARY_PATH=/opt/lib
	finds net-empty warn "anynet accepts that name" "unset NCCL_NET"
	check LD_LIBRARY_PATH=/opt/lib
	finds_not net-empty
	status_is 0
	check NCCL_NET=anynet
	finds net-not-loaded error "unset NCCL_NET"
	check NCCL_NET=ucx LD_LIBRARY_PATH=/opt/lib
	finds net-unknown error "NCCL_NET=ucx" "IB, Socket or anynet"
	check NCCL_NET=Socket LD_LIBRARY_PATH=/opt/lib
	finds_not net-unknown
}

case_settings() {
	check NCCL_SOCKET_IFNAMES=eth0 ANYNET_TRANSPOR=tcp TORCH_NCCL_BLOKING_WAIT=1
	finds unknown-name warn NCCL_SOCKET_IFNAMES "export NCCL_SOCKET_IFNAME=eth0"
	finds unknown-name warn ANYNET_TRANSPOR= "export ANYNET_TRANSPORT=tcp"
	finds unknown-name warn "export TORCH_NCCL_BLOCKING_WAIT=1"
	# A value that is to restrict something, and does not.
	check ANYNET_ALLOW=everybody
	finds bad-value error "ANYNET_ALLOW=everybody" "anynet uses none instead"
	status_is 2
	# Never overwrite a secret that the other hosts have.
	write /etc/secret 0123456789abcdef0123456789abcdef
	chmod 644 "$root/etc/secret"
	check ANYNET_SECRET_FILE=/etc/secret
	finds secret error "has mode 0644" "chmod 600 /etc/secret"
	write /etc/secret short
	check ANYNET_SECRET_FILE=/etc/secret
	finds secret error "copy the file of the other hosts" "base64 >/etc/secret"
	check NCCL_PSK=secret-of-the-job NCCL_PSKS=secret-of-the-job
	finds set ok "NCCL_PSK=(not shown)"
	grep -q secret-of-the-job "$work/json" && fail "a key is shown"
	check NCCL_QUANTUM_FLUX=1
	finds unknown-name note NCCL_QUANTUM_FLUX
	status_is 0
	check NCCL_P2P_DISABLE=true NCCL_IB_TIMEOUT=99 NCCL_ALGO=rings NCCL_SOCKET_FAMILY=ipv4 \
		ANYNET_PORT_RANGE=9-1
	finds bad-value warn "NCCL_P2P_DISABLE=true" "0 or 1"
	finds bad-value warn "NCCL_IB_TIMEOUT=99" "from 0 to 31"
	finds bad-value warn "NCCL_ALGO=rings" "ring, tree"
	finds bad-value warn "NCCL_SOCKET_FAMILY=ipv4" "AF_INET or AF_INET6"
	finds bad-value warn "ANYNET_PORT_RANGE=9-1" "lo-hi"
	check NCCL_DEBUG=info NCCL_ALGO='ring;allreduce:^tree' NCCL_DEBUG_SUBSYS=^NET,INIT \
		NCCL_IB_GID_INDEX=-1 NCCL_VERSION=2.19.3 NCCL_NET_GDR_LEVEL=PHB ANYNET_IO_THREADS=2
	finds set ok "NCCL_IB_GID_INDEX=-1" "since NCCL 2.3.5" "anynet supports it"
	finds_not bad-value
	finds_not unknown-name
	status_is 0
	check NCCL_IB_CUDA_SUPPORT=1 NCCL_BLOCKING_WAIT=1 NCCL_IB_HCA=
	finds removed warn NCCL_IB_CUDA_SUPPORT=1 "NCCL 2.4.0" "unset NCCL_IB_CUDA_SUPPORT"
	finds renamed note TORCH_NCCL_BLOCKING_WAIT
	finds empty note NCCL_IB_HCA
	# More sockets than NCCL permits.
	check NCCL_SOCKET_NTHREADS=16 NCCL_NSOCKS_PERTHREAD=8
	finds too-many-sockets warn "128 sockets" "at most 64"
	check NCCL_SOCKET_NTHREADS=4 NCCL_NSOCKS_PERTHREAD=4
	finds_not too-many-sockets
	check NCCL_SOCKET_NTHREADS=4611686018427387904 NCCL_NSOCKS_PERTHREAD=16
	finds_not too-many-sockets
	check ANYNET_TCP_EAGER=1m
	finds adjusted warn "half of ANYNET_TCP_REPLAY"
	check NCCL_NET=IB NCCL_IB_DISABLE=1
	finds ib-asked-and-disabled error ncclInvalidUsage "unset one"
	plant "$plugin" /opt/lib/libnccl-net.so
	check NCCL_NET=IB NCCL_IB_DISABLE=1 LD_LIBRARY_PATH=/opt/lib
	finds ib-asked-and-disabled warn "uses TCP"
	# Settings for which the NCCL of this host is too old.
	plant "$fakes/libfake_nccl_2.19.3.so" /usr/local/nccl2/lib/libnccl.so.2
	check NCCL_IB_OOO_RQ=1 NCCL_SOCKET_RETRY_CNT=9
	finds too-new warn "NCCL_IB_OOO_RQ=1" "2.30.3 and newer"
	check NCCL_SOCKET_RCVBUF=65536
	finds too-new note "anynet supports it"
	plant "$fakes/libfake_nccl_2.30.7.so" /usr/local/cuda-13.0/lib/libnccl.so.2
	check NCCL_IB_OOO_RQ=1
	finds partly-too-new note "2.30.3 and newer, but not by NCCL 2.19.3 on this host"
	write /sys/class/infiniband/mlx5_0/node_guid 1
	check NCCL_IB_HCA=mlx4
	finds hca-none warn mlx5_0
	check NCCL_IB_HCA==mlx5_0:1
	finds_not hca-none
}

case_files() {
	write /etc/nccl.conf "# a comment" "" "NCCL_P2P_DISABLE=true" "NCCL_SOCKET_IFNAME = eth0" \
		"NCCL_SHM_DISABLE" 'NCCL_IB_HCA="mlx5_0"' "PATH=/tmp" "NCCL_ALGO=ring"
	printf 'NCCL_IB_TC=106\r\n' >>"$root/etc/nccl.conf"
	check NCCL_ALGO=tree
	finds bad-value warn "NCCL_P2P_DISABLE=true (in /etc/nccl.conf:3)"
	finds file-line warn "/etc/nccl.conf:4" "blanks become part of the name"
	finds file-line warn "/etc/nccl.conf:5" "no '='"
	finds file-line warn "/etc/nccl.conf:6" quotes
	finds file-line warn "/etc/nccl.conf:9" "carriage return"
	finds file-foreign note "/etc/nccl.conf:7 sets PATH"
	finds file-overruled note "/etc/nccl.conf:8 sets NCCL_ALGO"
	finds set ok "NCCL_ALGO=tree"
	# A line with an error does not show a key, wherever NCCL would look for it.
	write /etc/nccl.conf 'NCCL_PSK="key-of-the-job"' "NCCL_PSK: key-of-the-job" "NCCL_PSK = key-of-the-job" \
		"NCCL_PSK,key-of-the-job" "NCCL_PSK:key-of-the-job="
	check
	finds file-line warn "/etc/nccl.conf:1: NCCL_PSK=(not shown)" quotes
	finds file-line warn "/etc/nccl.conf:2: NCCL_PSK (the rest is not shown)" "no '='"
	finds file-line warn "/etc/nccl.conf:3: NCCL_PSK (the rest is not shown)=(not shown)" "blanks become part of the name"
	finds file-line warn "/etc/nccl.conf:4: NCCL_PSK (the rest is not shown)" "no '='"
	finds file-foreign note "/etc/nccl.conf:5 sets NCCL_PSK (the rest is not shown)"
	grep -q key-of-the-job "$work/json" && fail "a key is shown"
	check NCCL_CONF_FILE='~/nccl.conf'
	finds file-missing warn "does not expand ~"
	# Files of another user must not make this process load a library.
	write /site/nccl.conf "NCCL_IBVERBS_LIB=$fakes/libfake_plugin.so" "NCCL_NET=IB"
	check NCCL_CONF_FILE=/site/nccl.conf
	finds set ok "NCCL_NET=IB (in /site/nccl.conf:2)"
	grep -q libfake_plugin.so <<<"$(findings not-usable)" && fail "a library was opened"
	write /site/nccl.conf "NCCL_NET="
	check NCCL_CONF_FILE=/site/nccl.conf
	finds net-empty error "unset NCCL_NET"
	head -c 100000 /dev/urandom >"$root/etc/nccl.conf"
	check
	[ "$status" -le 1 ] || fail "status $status after a file of noise"
}

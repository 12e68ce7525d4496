#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What `anynet check` finds: check.sh CASE BUILD_DIR. Each case plants a failure in a file tree, the
# environment or a network namespace, and looks for its cause and its remedy, by the finding's id.
# Exit 77 = skipped.
set -uo pipefail

# This host's own interfaces are kept out of it, where that can be.
if [ -z "${CHECK_APART-}" ]; then
	for user in "" -r; do
		# shellcheck disable=SC2086
		unshare -n $user true 2>/dev/null && CHECK_APART=1 exec unshare -n $user "$0" "$@"
	done
else
	PATH=$PATH:/sbin:/usr/sbin ip link set lo up
fi

case=${1:?} build=${2:?}
tool=$build/tools/anynet
plugin=$build/libnccl-net.so
fakes=$build/tests/fakes/files
work=$(mktemp -d)
root=$work/root
trap 'rm -rf "$work"' EXIT

# shellcheck source=tests/tool/check/tree.sh
. "$(dirname "$0")/tree.sh"

case $case in
plugin)
	# Row 5: which file, which table, or why not, for each range of releases.
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
	# The packages' file has another name of its own, so it is not found again by the usual one,
	# unless that is anynet, too.
	plant "$build/plugin/packaged/libnccl-net.so" /opt/packaged/libnccl-net-anynet.so
	check LD_LIBRARY_PATH=/opt/packaged NCCL_NET_PLUGIN=anynet
	finds plugin-name-lost note "2.28.3 – 2.29.7" NCCL_NET_PLUGIN_REF_COUNT=1
	check LD_LIBRARY_PATH=/opt/packaged:/opt/lib NCCL_NET_PLUGIN=/opt/packaged/libnccl-net-anynet.so
	finds plugin-name-kept ok
	finds_not plugin-name-lost
	check LD_LIBRARY_PATH=/opt/packaged NCCL_NET_PLUGIN=anynet NCCL_NET_PLUGIN_REF_COUNT=1
	finds_not plugin-name-lost

	# A path works from 2.21 on, a list from 2.27 on, "none" from 2.28 on.
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
	finds plugin-static warn "program itself"

	# Another plugin in the way, or one that cannot be loaded.
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

	# Names that would do something to a terminal, or to who reads the JSON.
	plant "$fakes/libfake_plugin.so" /opt/lib/$'libnccl-net-\033[2J\377.so'
	check LD_LIBRARY_PATH=/opt/lib NCCL_SOMETHING=$'\033[2J\377'
	finds plugin-several note 'libnccl-net-\\x1b[2J\\xff.so'
	LC_ALL=C grep -q $'[\001-\010\013-\037]' "$work/json" && fail "control characters"
	iconv -f UTF-8 -t UTF-16 "$work/json" >"$work/wide" || fail "not UTF-8"
	# As text; and a command line that is not understood is an error.
	env -i "$tool" check --root "$root" >"$work/json" || fail "status $?"
	grep -q "^0 errors, 0 warnings" "$work/json" || fail "no summary"
	env -i "$tool" check --root /nowhere 2>"$work/json" && fail "a root that is not there"
	grep -q "/nowhere is not a directory" "$work/json" || fail "no reason"
	env -i "$tool" check --nosuch 2>"$work/json"
	[ $? = 3 ] || fail "a wrong option is no error"
	rm "$root/opt/lib/libnccl-net-"$'\033'*

	# With an NCCL on the host the others do not count.
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
	;;
filter)
	# Row 2: an empty NCCL_NET.
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
	;;
settings)
	check NCCL_SOCKET_IFNAMES=eth0 ANYNET_TRANSPOR=tcp TORCH_NCCL_BLOKING_WAIT=1
	finds unknown-name warn NCCL_SOCKET_IFNAMES "export NCCL_SOCKET_IFNAME=eth0"
	finds unknown-name warn ANYNET_TRANSPOR= "export ANYNET_TRANSPORT=tcp"
	finds unknown-name warn "export TORCH_NCCL_BLOCKING_WAIT=1"
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
	# Row 7: more sockets than NCCL takes.
	check NCCL_SOCKET_NTHREADS=16 NCCL_NSOCKS_PERTHREAD=8
	finds too-many-sockets warn "128 sockets" "at most 64"
	check NCCL_SOCKET_NTHREADS=4 NCCL_NSOCKS_PERTHREAD=4
	finds_not too-many-sockets
	check ANYNET_TCP_EAGER=1m
	finds adjusted warn "half of ANYNET_TCP_REPLAY"
	check NCCL_NET=IB NCCL_IB_DISABLE=1
	finds ib-asked-and-disabled error ncclInvalidUsage "unset one"
	plant "$plugin" /opt/lib/libnccl-net.so
	check NCCL_NET=IB NCCL_IB_DISABLE=1 LD_LIBRARY_PATH=/opt/lib
	finds ib-asked-and-disabled warn "uses TCP"
	# Settings that the NCCL of this host is too old for.
	plant "$fakes/libfake_nccl_2.19.3.so" /usr/local/nccl2/lib/libnccl.so.2
	check NCCL_IB_OOO_RQ=1 NCCL_SOCKET_RETRY_CNT=9
	finds too-new warn "NCCL_IB_OOO_RQ=1" "2.30.3 and newer"
	check NCCL_SOCKET_RCVBUF=65536
	finds too-new note "anynet supports it"
	write /sys/class/infiniband/mlx5_0/node_guid 1
	check NCCL_IB_HCA=mlx4
	finds hca-none warn mlx5_0
	check NCCL_IB_HCA==mlx5_0:1
	finds_not hca-none
	;;
files)
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
	check NCCL_CONF_FILE='~/nccl.conf'
	finds file-missing warn "does not expand ~"
	# A tree of somebody else's does not make this process load anything.
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
	;;
interfaces)
	two=$(nic eth1 192.0.2.1/24; nic eth10 198.51.100.1/24)
	in_namespace "$two"
	status_is 0
	# Row 7: interfaces that do not exist, prefixes that match too much, only lo or a bridge.
	in_namespace "$two" NCCL_SOCKET_IFNAME=eth0
	finds ifname-none error "NCCL_SOCKET_IFNAME=eth0" "no socket interface found" "eth1, eth10"
	status_is 2
	in_namespace "$two" ANYNET_SOCKET_IFNAME=eth0
	finds ifname-none warn "ignores it"
	in_namespace "$two" NCCL_SOCKET_IFNAME=eth1
	finds ifname-prefix warn "eth1, eth10" "NCCL_SOCKET_IFNAME==eth1"
	in_namespace "$two" NCCL_SOCKET_IFNAME==eth1
	finds_not ifname-prefix
	status_is 0
	in_namespace "$two" NCCL_SOCKET_IFNAME=lo
	finds ifname-loopback warn "only lo" "eth1, eth10"
	in_namespace "$two ip link add docker0 type bridge; ip link set peer_eth1 master docker0
		ip link set docker0 up; ip addr add 172.17.0.1/16 dev docker0" \
		NCCL_SOCKET_IFNAME=docker0
	finds ifname-local warn "only docker0" "eth1"
	in_namespace "$two" GLOO_SOCKET_IFNAME=eth0 TP_SOCKET_IFNAME=eth1
	finds ifname-none error "GLOO_SOCKET_IFNAME=eth0" "eth1, eth10"
	in_namespace "$two" GLOO_SOCKET_IFNAME=eth1,eth10
	finds_not ifname-none
	in_namespace "$two" NCCL_SOCKET_FAMILY=AF_INET6
	finds family-none warn "IPv6"
	;;
nccl)
	check
	finds nccl-none note libnccl.so
	# Rows 3 and 10: every copy, and which one wins, without importing anything.
	site=/opt/venv/lib/python3.11/site-packages
	plant "$fakes/libfake_nccl_2.17.1.so" /usr/lib64/libnccl.so.2
	plant "$fakes/libfake_nccl_2.19.3.so" $site/nvidia/nccl/lib/libnccl.so.2
	mkdir -p "$root$site/nvidia_nccl_cu12-2.19.3.dist-info"
	write $site/torch/version.py "__version__ = '2.2.0+cu121'" "debug = False" \
		"cuda: Optional[str] = '12.1'"
	plant "$fakes/libfake_torch_runpath.so" $site/torch/lib/libtorch_cuda.so
	check VIRTUAL_ENV=/opt/venv
	finds nccl-copy ok "2.17.1 for CUDA 12.0 in /usr/lib64/libnccl.so.2" "loader"
	finds nccl-copy ok "2.19.3 for CUDA 12.3 in $site/nvidia/nccl/lib/libnccl.so.2"
	finds user-loads ok "PyTorch 2.2.0+cu121" "loads NCCL 2.19.3" "$site/nvidia/nccl/lib"
	finds default-differs note PyTorch
	status_is 0
	# An old copy in LD_LIBRARY_PATH gets in front of RUNPATH, but not of RPATH.
	plant "$fakes/libfake_nccl_2.14.3.so" /usr/local/nccl2/lib/libnccl.so.2
	check VIRTUAL_ENV=/opt/venv LD_LIBRARY_PATH=/usr/local/nccl2/lib
	finds user-displaced warn "loads NCCL 2.14.3 for CUDA 11.7 from /usr/local/nccl2/lib" \
		"instead of 2.19.3" "family 0" "remove /usr/local/nccl2/lib from LD_LIBRARY_PATH"
	finds cuda-mixed warn "for CUDA 12.1" "for CUDA 11.7" nvidia-nccl-cu12
	plant "$fakes/libfake_torch_rpath.so" $site/torch/lib/libtorch_cuda.so
	check VIRTUAL_ENV=/opt/venv LD_LIBRARY_PATH=/usr/local/nccl2/lib
	finds user-loads ok "loads NCCL 2.19.3"
	finds_not user-displaced
	status_is 0
	# The remedy, applied.
	check VIRTUAL_ENV=/opt/venv
	finds_not cuda-mixed
	# Wheels for two CUDAs side by side.
	mkdir -p "$root$site/nvidia_nccl_cu11-2.14.3.dist-info"
	check VIRTUAL_ENV=/opt/venv
	finds wheels-mixed warn "nvidia-nccl-cu11 2.14.3, nvidia-nccl-cu12 2.19.3" "2.19.3 for CUDA" \
		"pip uninstall"
	rmdir "$root$site"/nvidia_nccl_cu1*
	mkdir "$root$site/nvidia_nccl_cu12-2.20.5.dist-info"
	check VIRTUAL_ENV=/opt/venv
	finds wheel-overwritten warn "nvidia-nccl-cu12 2.20.5" "NCCL 2.19.3" "nvidia-nccl-cu12==2.20.5"
	# Row 1's setting: CuPy with an NCCL of its own.
	rmdir "$root$site"/nvidia_nccl_cu1*
	mkdir "$root$site/cupy_cuda11x-13.4.0.dist-info"
	write $site/cupy/.data/_wheel.json '{ "cuda": "11.x", "nccl": { "version": "2.15.1",' \
		'"filenames": ["libnccl.so.2"] } }'
	plant "$fakes/libfake_cupy.so" $site/cupy_backends/cuda/libs/nccl.cpython-311.so
	check VIRTUAL_ENV=/opt/venv
	finds user-loads ok "CuPy 13.4.0" "loads NCCL 2.17.1" /usr/lib64/libnccl.so.2
	finds users-differ warn "PyTorch and CuPy" "one release of NCCL for both"
	plant "$fakes/libfake_nccl_2.15.1.so" /cuda_lib/11.x/nccl/2.15.1/lib/libnccl.so.2
	check VIRTUAL_ENV=/opt/venv CUPY_CUDA_LIB_PATH=/cuda_lib
	finds user-loads ok "CuPy 13.4.0" "loads NCCL 2.15.1 for CUDA 11.8" /cuda_lib/11.x
	# An environment that conda made somewhere, and that is not the active one.
	conda=/scratch/envs/old/lib/python3.10/site-packages
	home=$(getent passwd "$(id -u)" | cut -d: -f6)
	plant "$fakes/libfake_nccl_2.14.3.so" $conda/nvidia/nccl/lib/libnccl.so.2
	check VIRTUAL_ENV=/opt/venv
	grep -q $conda "$work/json" && fail "found by itself"
	write "$home/.conda/environments.txt" "" relative/path /not/there /scratch/envs/old
	check VIRTUAL_ENV=/opt/venv
	finds nccl-copy ok "2.14.3 for CUDA 11.7 in $conda/nvidia/nccl/lib/libnccl.so.2"
	rm -r "$root/scratch" "$root$home"
	# PyTorch that finds none; odd files.
	rm -r "$root/usr/lib64" "$root$site/nvidia" "$root$site"/cupy*
	check VIRTUAL_ENV=/opt/venv
	finds user-finds-none warn PyTorch "12.1" nvidia-nccl-cu12
	write /usr/lib64/libnccl.so.2 "no library"
	check VIRTUAL_ENV=/opt/venv
	finds nccl-unreadable note "not an ELF file"
	rm "$root/usr/lib64/libnccl.so.2"
	ln -s libnccl.so.2 "$root/usr/lib64/libnccl.so.2"
	mkfifo "$root/usr/lib64/libnccl.so"
	check VIRTUAL_ENV=/opt/venv
	finds user-finds-none warn PyTorch
	;;
launcher)
	# Jobs of several hosts need a way out.
	PATH=$PATH:/sbin:/usr/sbin
	if ! eval "$(nic eth0 192.0.2.1/24)" 2>/dev/null; then
		echo "SKIP this process may not make a network namespace"
		exit 77
	fi
	check
	finds launcher-none note "torchrun, Slurm or MPI"
	# Row 4: a world of 4 on a 2 x 4 cluster.
	address="MASTER_ADDR=192.0.2.9 MASTER_PORT=29500"
	# shellcheck disable=SC2086
	check RANK=7 WORLD_SIZE=4 LOCAL_RANK=3 LOCAL_WORLD_SIZE=4 NODE_RANK=1 $address
	finds rank-too-large error "RANK=7 with WORLD_SIZE=4" "Invalid rank requested : 7/4"
	finds world-too-small error "WORLD_SIZE=4" "export WORLD_SIZE=8"
	status_is 2
	# shellcheck disable=SC2086
	check RANK=7 WORLD_SIZE=8 LOCAL_RANK=3 LOCAL_WORLD_SIZE=4 NODE_RANK=1 $address
	finds layout ok "rank 7 of 8"
	finds_not rank-too-large
	finds_not world-too-small
	status_is 0
	# Lightning sets the rest by itself.
	check NODE_RANK=1 WORLD_SIZE=4 LOCAL_WORLD_SIZE=4
	finds world-too-small error "export WORLD_SIZE=8"
	check RANK=3 WORLD_SIZE=8 LOCAL_RANK=3 LOCAL_WORLD_SIZE=4 NODE_RANK=1
	finds rank-layout warn "RANK=3" "result in 7"
	finds incomplete warn "MASTER_ADDR, MASTER_PORT"
	# Names and words with a slip in them; what torchrun and others set besides is none.
	check RANK=0 WORLD_SIZE=1 MASTER_PROT=29500 MASTER_ADDRESS=192.0.2.9
	finds unknown-name warn "MASTER_PROT=29500" "export MASTER_PORT=29500; unset MASTER_PROT"
	finds unknown-name warn "MASTER_ADDR is meant" "export MASTER_ADDR=192.0.2.9"
	check GLOO_SOCKET_IFNAMES=eth0 WORLDSIZE=8 local_rank=1 TORCH_DISTRIBUTED_DEBUG=FULL
	finds unknown-name warn GLOO_SOCKET_IFNAMES= "GLOO_SOCKET_IFNAME is meant"
	finds unknown-name warn "export WORLD_SIZE=8"
	finds unknown-name warn "export LOCAL_RANK=1"
	finds bad-value warn "TORCH_DISTRIBUTED_DEBUG=FULL" "OFF|INFO|DETAIL"
	# shellcheck disable=SC2086
	check RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 LOCAL_WORLD_SIZE=1 GROUP_RANK=0 GROUP_WORLD_SIZE=1 \
		ROLE_RANK=0 ROLE_NAME=default ROLE_WORLD_SIZE=1 TORCHELASTIC_RUN_ID=none \
		TORCH_DISTRIBUTED_DEBUG=detail CUDA_DEVICE_ORDER=PCI_BUS_ID GLOBAL_RANK=0 \
		WORLDSIZE=1 HYDRA_LOCAL_RANK=0 SLURM_LOCALID=0 NODE_NAME=n CUDA_MODULE_LOADING=LAZY \
		$address
	finds_not unknown-name
	finds_not bad-value
	check LOCAL_RANK=4 LOCAL_WORLD_SIZE=4
	finds local-rank-too-large error "LOCAL_RANK=4"
	check RANK=one WORLD_SIZE=-2 SLURM_NTASKS=99999999999999999999
	finds no-number error "RANK=one"
	finds no-number error "WORLD_SIZE=-2"
	finds no-number error "SLURM_NTASKS=9999"
	check SLURM_PROCID=5 SLURM_NTASKS=8 WORLD_SIZE=4
	finds launchers-differ warn "WORLD_SIZE=4" "Slurm has started 8" 'WORLD_SIZE=$SLURM_NTASKS'
	# shellcheck disable=SC2086
	check OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 RANK=2 WORLD_SIZE=8 $address
	finds launchers-differ warn "RANK=2" "OMPI_COMM_WORLD_RANK=5"
	# Ranks dealt out in turn, by those who know: Slurm, and torchrun on unequal hosts.
	check SLURM_PROCID=1 SLURM_NTASKS=4 SLURM_NODEID=1 SLURM_NTASKS_PER_NODE=4 SLURM_LOCALID=0 \
		SLURM_NNODES=2
	status_is 0
	# shellcheck disable=SC2086
	check RANK=8 WORLD_SIZE=9 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 GROUP_RANK=1 GROUP_WORLD_SIZE=2 \
		TORCHELASTIC_RUN_ID=none $address
	status_is 0
	check SLURM_PROCID=5 SLURM_NTASKS=8 SLURM_NODEID=1 SLURM_NTASKS_PER_NODE=4 SLURM_LOCALID=1 \
		SLURM_NNODES=2
	finds layout ok "Slurm: rank 5 of 8"
	status_is 0
	;;
master)
	job="RANK=0 WORLD_SIZE=8 LOCAL_RANK=0 LOCAL_WORLD_SIZE=4"
	here=$(nic eth0 192.0.2.1/24)
	# shellcheck disable=SC2086
	in_namespace "$here" $job MASTER_ADDR=127.0.0.1 MASTER_PORT=29500
	finds master-loopback error "several hosts" "address of rank 0's host"
	# shellcheck disable=SC2086
	in_namespace "$here" $job MASTER_ADDR=192.0.2.1 MASTER_PORT=29500
	finds master ok "this host"
	finds port ok "29500 is free"
	status_is 0
	# shellcheck disable=SC2086
	in_namespace "$here" $job MASTER_ADDR=192.0.2.2 MASTER_PORT=29500
	finds master-elsewhere warn "not an address of this host"
	in_namespace "$here" NODE_RANK=1 WORLD_SIZE=8 LOCAL_WORLD_SIZE=4 MASTER_ADDR=192.0.2.1 \
		MASTER_PORT=29500
	finds master-here warn "host 1 of the job"
	# shellcheck disable=SC2086
	in_namespace "$here" $job MASTER_ADDR=192.0.2.1 MASTER_PORT=70000
	finds port-invalid error "MASTER_PORT=70000"
	# shellcheck disable=SC2086
	in_namespace "$here" $job MASTER_ADDR=no-such-host.invalid MASTER_PORT=29500
	finds master-unresolved error no-such-host.invalid "IP address"
	# Row 6: somebody else has the port.
	# shellcheck disable=SC2086
	in_namespace "$here
		$build/tests/tool/check/listener 192.0.2.1 >'$work/port' & listener=\$!
		until [ -s '$work/port' ]; do kill -0 \$listener; done
		trap 'kill \$listener' EXIT
		set -- MASTER_PORT=\$(cat '$work/port') \"\$@\"" $job MASTER_ADDR=192.0.2.1
	finds port-taken warn "already" "address already in use" "ss -ltnp"
	;;
network)
	in_namespace "$(nic eth0 192.0.2.1/24)"
	finds interface ok "eth0 veth" "192.0.2.1: used for TCP"
	finds interface-unused note "lo loopback"
	finds nccls-choice ok "without a plugin: eth0"
	status_is 0
	# A bridge for containers beside the NIC: NCCL takes both, and goes over the first.
	bridge="ip link add br-1 type bridge; ip link set peer_eth0 master br-1
		ip link set br-1 up; ip addr add 172.18.0.1/16 dev br-1"
	in_namespace "$(nic eth0 192.0.2.1/24) $bridge"
	finds nccl-takes-bridge warn br-1 "NCCL_SOCKET_IFNAME=^docker,lo,virbr,br-"
	in_namespace "$(nic eth0 192.0.2.1/24) $bridge" "NCCL_SOCKET_IFNAME=^docker,lo,virbr,br-,veth"
	finds_not nccl-takes-bridge
	finds nccls-choice ok "without a plugin: eth0"
	# A list of what not to take lets in what NCCL leaves out by itself: lo, as the first one.
	in_namespace "$(nic eth0 192.0.2.1/24)" NCCL_SOCKET_IFNAME=^docker0
	finds ifname-lets-in warn "NCCL_SOCKET_IFNAME=^docker0" "not reach other hosts: lo" \
		"export NCCL_SOCKET_IFNAME=^docker0,lo"
	status_is 1
	in_namespace "$(nic eth0 192.0.2.1/24)" NCCL_SOCKET_IFNAME=^docker0,lo
	finds_not ifname-lets-in
	finds nccls-choice ok "without a plugin: eth0"
	status_is 0
	in_namespace "$(nic eth0 192.0.2.1/24) $bridge" NCCL_SOCKET_IFNAME=^=docker0,lo
	finds ifname-lets-in warn "not reach other hosts: br-1" "over all its interfaces" "^=docker0,lo,br-1"
	in_namespace "$(nic eth0 192.0.2.1/24) $bridge" NCCL_SOCKET_IFNAME=^docker0
	finds ifname-lets-in warn "export NCCL_SOCKET_IFNAME=^docker0,lo,br-1 or"
	plant "$plugin" /opt/lib/libnccl-net.so
	in_namespace "$(nic eth0 192.0.2.1/24) $bridge" NCCL_SOCKET_IFNAME=^=docker0,lo \
		LD_LIBRARY_PATH=/opt/lib
	finds_not ifname-lets-in
	# Two NICs in one subnet: the kernel sends by one of them; the remedy, applied.
	pair="$(nic eth0 192.0.2.1/24; nic eth1 192.0.2.2/24)"
	in_namespace "$pair"
	finds same-subnet warn "packets that eth1 sends from 192.0.2.2 leave through eth0" "eth0 carries the traffic"
	[ "$(findings same-subnet | wc -l)" = 1 ] || fail "eth0 leaves by itself"
	[ -z "$(findings same-subnet | grep "time out")" ] || fail "rp_filter"
	fix=$(findings same-subnet | grep -o "ip rule .*; ip route [^;]*")
	in_namespace "$pair $fix"
	finds_not same-subnet
	status_is 0
	in_namespace "$(nic eth0 "2001:db8::1/64 nodad"; nic eth1 "2001:db8::2/64 nodad")" NCCL_SOCKET_FAMILY=AF_INET6
	[ "$(findings same-subnet | grep -c "ip -6 route add 2001:db8::/64 dev eth")" = 1 ] || fail "IPv6"
	in_namespace "$(nic eth0 192.0.2.1/24; nic eth1 192.0.3.2/24)"
	finds_not same-subnet
	write /proc/sys/net/ipv4/conf/all/rp_filter 0
	write /proc/sys/net/ipv4/conf/eth1/rp_filter 1
	in_namespace "$pair"
	finds same-subnet warn "connections to it time out"
	write /proc/sys/net/ipv4/conf/eth1/rp_filter 2
	in_namespace "ip link set lo down"
	finds nccls-choice warn none
	write /proc/sys/net/ipv4/tcp_rmem "4096 131072 6291456"
	write /proc/sys/net/ipv4/tcp_wmem "4096 16384 65536"
	write /proc/sys/net/core/somaxconn 16
	write /proc/sys/net/ipv4/ip_local_port_range "50000 50099"
	write /proc/net/ip_tables_names filter
	check ANYNET_PORT_RANGE=50000-50003 LOCAL_WORLD_SIZE=8
	finds window ok tcp_rmem 6291456
	finds window warn "tcp_wmem" 65536 "sysctl -w net.ipv4.tcp_wmem="
	finds somaxconn warn 16 "somaxconn=4096"
	finds ports-few warn "100 ports"
	finds port-range-shared note 50000-50003
	finds port-range-small warn "4 ports for 8 processes"
	finds firewall note "must accept ANYNET_PORT_RANGE and MASTER_PORT"
	write /proc/sys/net/ipv4/ip_local_port_range "32768 60999"
	write /proc/sys/net/core/somaxconn 4096
	write /proc/sys/net/ipv4/tcp_wmem "4096 131072 6291456"
	check
	for id in somaxconn ports-few port-range-shared port-range-small; do finds_not $id; done
	status_is 0
	(ulimit -n 256 && check && finds descriptors-few warn 256 "ulimit -n") || fail "descriptors"
	write /proc/sys/net/ipv4/tcp_wmem "a" "%s%n"
	write /proc/sys/net/core/somaxconn ""
	check
	status_is 0
	;;
firewall)
	# Row 6: the packet filter does not let the others in; with the fix applied it does.
	apart="unshare -n"
	$apart true 2>/dev/null || apart+=" -r"
	PATH=$PATH:/sbin:/usr/sbin $apart nft list ruleset >"$work/why" 2>&1 || {
		echo "SKIP nft does not list rules in a namespace: $(cat "$work/why")"
		exit 77
	}
	nic=$(nic eth0 192.0.2.1/24)
	rules() {
		echo "$nic nft -f - <<-'END'
			table inet filter {
				set known { type inet_service; elements = { 22, 80 }; }
				chain service { tcp dport { 22, 80, 1000-2000 } accept; ip saddr 198.51.100.0/24 accept; }
				chain input {
					type filter hook input priority 0; policy drop;
					iifname lo accept
					ct state established,related accept
					ct state vmap { invalid : drop, established : accept }
					meta l4proto { icmp, udp } accept
					tcp dport @known counter accept
					$1
				}
			}
		END"
	}
	write /proc/sys/net/ipv4/ip_local_port_range "32768 60999"
	master="MASTER_ADDR=192.0.2.1 MASTER_PORT=29500"
	in_namespace "$(rules "tcp dport 29500 accept")" $master
	finds firewall-closed warn "drops connections to ports 32768 to 60999 by eth0: chain inet filter input" "time out"
	status_is 1
	fix=$(findings firewall-closed | grep -o "nft insert rule [^(]* accept")
	in_namespace "$(rules "tcp dport 29500 accept")
		$fix" $master
	finds_not firewall-closed
	finds_not firewall-some
	status_is 0
	in_namespace "$(rules "tcp dport 32768-60999 accept")" $master
	finds firewall-closed warn "connections to port 29500" "rank 0 listens on MASTER_PORT"
	in_namespace "$(rules "tcp dport 32768-60999 accept; tcp dport 20000-20001 reject with tcp reset; tcp dport != 5 accept")" \
		$master ANYNET_PORT_RANGE=20000-20003
	finds firewall-closed warn "refuses connections to some of the ports 20000 to 20003"
	in_namespace "$(rules "iifname { \"eth*\" } goto service")" $master
	finds firewall-some note "to ports 32768 to 60999 by eth0, perhaps by address (chain inet filter input)"
	finds_not firewall-closed
	in_namespace "$(rules "tcp dport vmap { 29500 : accept, 32768-60999 : jump service }")" $master
	finds firewall-some note "ports 32768 to 60999"
	# What other headers, families and hooks have does not count.
	in_namespace "$nic nft -f - <<-'END'
		table ip6 six { chain input { type filter hook input priority 0; policy drop; }; }
		table ip four { chain forward { type filter hook forward priority 0; policy drop; }
			chain input { type filter hook input priority 0; policy accept; udp dport 0-65535 drop
				ip protocol udp drop; iifname lo drop; ct state invalid drop; }; }
		table inet both { chain input { type filter hook input priority 5; ip6 saddr ::1 drop; }; }
	END" $master
	finds_not firewall-closed
	finds_not firewall-some
	status_is 0
	;;
ib)
	# Row 1: NCCL_NET=IB where there is none.
	here=$(nic eth0 192.0.2.1/24)
	in_namespace "$here" NCCL_NET=IB
	if [ -n "$(findings usable)" ]; then
		echo "SKIP this host has InfiniBand or RoCE"
		exit 77
	fi
	finds asked-without error "NCCL_NET=IB" "libibverbs" "Failed to open libibverbs.so[.1]" \
		ncclInvalidUsage "over TCP on eth0 192.0.2.1" "unset NCCL_NET"
	status_is 2
	in_namespace "$here"
	finds_not asked-without
	status_is 0
	plant "$plugin" /opt/lib/libnccl-net.so
	in_namespace "$here" NCCL_NET=IB LD_LIBRARY_PATH=/opt/lib
	finds asked-without warn "anynet uses TCP on eth0 192.0.2.1"
	status_is 1

	port=/sys/class/infiniband/mlx5_0/ports/1
	write $port/state "4: ACTIVE"
	write $port/link_layer Ethernet
	write $port/rate "100 Gb/sec (4X EDR)"
	write $port/gids/0 fe80:0000:0000:0000:0202:c9ff:fe00:0001
	write $port/gids/3 0000:0000:0000:0000:0000:ffff:c000:0201
	write $port/gids/4 0000:0000:0000:0000:0000:0000:0000:0000
	write $port/counters/symbol_error 3
	write /sys/class/infiniband/mlx5_0/ports/2/state "1: DOWN"
	write /dev/infiniband/uverbs0 x
	unlimited=$(ulimit -l unlimited 2>/dev/null && echo yes)
	[ -z "$unlimited" ] || ulimit -l unlimited
	check
	finds port ok "mlx5_0:1 is active, Ethernet, 100 Gb/sec"
	finds port-down note "mlx5_0:2" "DOWN"
	for id in gids-none gid-empty counters uverbs-missing; do finds_not $id; done
	[ -z "$unlimited" ] || status_is 0
	check NCCL_IB_GID_INDEX=4
	finds gid-empty error "NCCL_IB_GID_INDEX=4" mlx5_0:1 "unset NCCL_IB_GID_INDEX"
	check NCCL_IB_GID_INDEX=3
	finds_not gid-empty
	# InfiniBand without a subnet manager, and on one lane.
	other=/sys/class/infiniband/mlx5_0/ports/2
	write $other/link_layer InfiniBand
	write $other/state "2: INIT"
	check
	finds port-no-manager warn "mlx5_0:2 has a link" "2: INIT" opensm
	write $other/state "4: ACTIVE"
	write $other/rate "100 Gb/sec (2X HDR)"
	check
	finds_not port-no-manager
	finds_not port-narrow
	write $other/rate "25 Gb/sec (1X EDR)"
	check
	finds port-narrow warn "mlx5_0:2 runs on one lane: 25 Gb/sec" cable
	write $other/state "1: DOWN"
	# A GID that leads nowhere, or that only some hear: by the user's word, or an old NCCL's.
	check NCCL_IB_GID_INDEX=0
	finds gid-local warn "NCCL_IB_GID_INDEX=0" "link-local at mlx5_0:1" "unset NCCL_IB_GID_INDEX"
	write $port/gids/2 0000:0000:0000:0000:0000:ffff:c000:0201
	write $port/gid_attrs/types/2 "IB/RoCE v1"
	write $port/gid_attrs/types/3 "RoCE v2"
	write $port/gids/10 2001:0db8:0000:0000:0000:0000:0000:0001
	check NCCL_IB_GID_INDEX=2
	finds gid-v1 warn "NCCL_IB_GID_INDEX=2" "RoCE v1 at mlx5_0:1" "unset NCCL_IB_GID_INDEX"
	check NCCL_IB_GID_INDEX=3
	for id in gid-v1 gid-local gid-empty; do finds_not $id; done
	plant "$fakes/libfake_nccl_2.19.3.so" /usr/local/nccl2/lib/libnccl.so.2
	check
	finds gid-local warn "older than 2.21 uses GID 0" "export NCCL_IB_GID_INDEX=3"
	check NCCL_IB_GID_INDEX=3
	finds_not gid-local
	check LD_LIBRARY_PATH=/opt/lib
	finds_not gid-local
	plant "$fakes/libfake_nccl_2.28.9.so" /usr/local/nccl2/lib/libnccl.so.2
	check
	finds_not gid-local
	# The interface that the packets leave by.
	write $port/gid_attrs/ndevs/3 rdma0
	write /sys/class/net/rdma0/mtu 1500
	check
	finds roce-mtu note "mlx5_0:1 uses rdma0" "MTU of 1500" "ip link set rdma0 mtu 9000"
	write /sys/class/net/rdma0/mtu 9000
	check
	finds_not roce-mtu
	finds_not gids-local
	mv "$root$port/gids/3" "$work/gid"
	rm "$root$port/gids/2" "$root$port/gids/10"
	check
	finds gids-local warn "mlx5_0:1 has only link-local GIDs" "NCCL_IB_HCA=^=mlx5_0:1"
	check NCCL_IB_HCA=^=mlx5_0:1
	finds port-left-out note mlx5_0:1
	finds_not gids-local
	mv "$work/gid" "$root$port/gids/3"
	write $port/counters/symbol_error 65535
	write $port/counters/link_downed 99
	check
	finds counters warn "symbol_error 65535, link_downed 99" "cable" "error 12"
	write $port/gids/0 0000:0000:0000:0000:0000:0000:0000:0000
	write $port/gids/3 0000:0000:0000:0000:0000:0000:0000:0000
	check
	finds gids-none warn mlx5_0:1 "IP address"
	check NCCL_IB_DISABLE=1
	finds_not gids-none
	# One of two devices is not for this user, or not given to this container.
	for i in 0 1; do write /sys/class/infiniband_verbs/uverbs$i/ibdev mlx5_$i; done
	check
	finds uverbs-missing warn "no /dev/infiniband/uverbs1"
	write /dev/infiniband/uverbs1 x
	check
	finds_not uverbs-missing
	finds_not uverbs-denied
	chmod 000 "$root/dev/infiniband/uverbs1"
	# Root opens all files, and locks what it likes: it has to give that up.
	[ "$(id -u)" != 0 ] || as="setpriv --bounding-set -dac_override,-dac_read_search,-ipc_lock"
	# shellcheck disable=SC2086
	$as true || { echo "SKIP root cannot give up capabilities here"; exit 77; }
	check
	finds uverbs-denied warn "/dev/infiniband/uverbs1 (mlx5_1)" "Permission denied" \
		"chmod 666 /dev/infiniband/uverbs1"
	chmod 666 "$root/dev/infiniband/uverbs1"
	check
	finds_not uverbs-denied
	(ulimit -l 64 && check && finds memlock warn "64 KiB" "ulimit -l unlimited") || fail "memlock"
	# The limit is none for the host's root.
	caps=$(awk '/^CapEff/ { print $2 }' /proc/self/status)
	if grep -q 4294967295 /proc/self/uid_map && ((0x$caps >> 14 & 1)); then
		(as= && ulimit -l 64 && check && finds_not memlock) || fail "memlock, for root"
	fi
	(ulimit -l 64 && check NCCL_IB_DISABLE=1 && finds_not memlock) || fail "memlock, though disabled"
	rm -r "${root:?}/dev" "$root/sys/class/infiniband_verbs"
	check
	finds uverbs-missing warn "no /dev/infiniband/uverbs*" "--device=/dev/infiniband"
	;;
gpu)
	# Row 9: driver and CUDA, memory, errors.
	check
	[ -z "$(findings gpu)" ] || { echo "SKIP this host has a GPU"; exit 77; }
	finds nvml-none note libnvidia-ml.so.1
	status_is 0
	mkdir "$work/nvml"
	cp "$fakes/libfake_nvml.so" "$work/nvml/libnvidia-ml.so.1"
	nvml=LD_LIBRARY_PATH=$work/nvml
	check "$nvml"
	finds gpu ok "GPU 0 NVIDIA A10G" "70.0 of 80.0 GiB free"
	finds cuda ok "CUDA up to 12.2"
	status_is 0
	check "$nvml" FAKE_NVML="0 1 3"
	finds memory-full warn "1.0 of 80.0 GiB" "unhandled cuda error" nvidia-smi
	finds ecc warn "3 uncorrected"
	check "$nvml" FAKE_NVML=18
	finds driver-mismatch error "version mismatch" "reboot the host"
	site=/opt/venv/lib/python3.11/site-packages
	write $site/torch/version.py "__version__ = '2.4.0+cu121'" "cuda: Optional[str] = '12.1'"
	write /proc/driver/nvidia/version \
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.223.02  Sat Oct  7 15:39:11 UTC 2023"
	check VIRTUAL_ENV=/opt/venv
	finds driver-old error "PyTorch 2.4.0+cu121" "525.60.13 or newer; this host has 470.223.02"
	# CUDA's runtime, for programs that bring none: one that this driver can run will do.
	write /usr/lib64/libcudart.so.12.1.105 x
	ln -s libcudart.so.12.1.105 "$root/usr/lib64/libcudart.so.12"
	check
	finds runtime-new warn "CUDA runtime 12.1.105 in /usr/lib64" "needs driver 525.60.13" \
		"this host has 470.223.02" "install a newer driver"
	write /usr/lib64/libcudart.so.11.8.89 x
	ln -s libcudart.so.11.8.89 "$root/usr/lib64/libcudart.so.11.0"
	check
	finds runtime ok "11.8.89 in /usr/lib64/libcudart.so.11.8.89"
	finds runtime-new note 12.1.105
	status_is 0
	write /usr/local/cuda-12.1/compat/libcuda.so.1 x
	check VIRTUAL_ENV=/opt/venv LD_LIBRARY_PATH=/usr/local/cuda-12.1/compat
	finds driver-compat note /usr/local/cuda-12.1/compat/libcuda.so.1
	status_is 0
	write /proc/driver/nvidia/version \
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.104.05  Release Build"
	check VIRTUAL_ENV=/opt/venv
	finds driver ok 535.104.05
	finds_not driver-old
	finds runtime ok 12.1.105
	finds_not runtime-new
	write /dev/kmsg "6,1,2,-;NVRM: Xid (PCI:0000:3b:00): 13, pid=7, name=python" \
		"6,1,3,-;NVRM: Xid (PCI:0000:3d:00): 79, pid='<unknown>', GPU has fallen off the bus." \
		"6,1,4,-;NVRM: Xid (PCI:" "NVRM: Xid (PCI:0000): x"
	check
	finds xid warn "2 Xid errors" "79 on 0000:3d:00" "fallen off the bus"
	rm "$root/dev/kmsg"

	# A switch with a GPU and a NIC below it, and a NIC at another root.
	switch=/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0
	device $switch/0000:3c:00.0/0000:3d:00.0 0x10de 0x030200 0
	device $switch/0000:3c:01.0/0000:3e:00.0 0x15b3 0x020700 0
	device /sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0 0x15b3 0x020700 1
	for i in 0:$switch/0000:3c:01.0/0000:3e:00.0 \
		1:/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0; do
		mkdir -p "$root/sys/class/infiniband/mlx5_${i%%:*}"
		ln -s "${i#*:}" "$root/sys/class/infiniband/mlx5_${i%%:*}/device"
	done
	write /dev/infiniband/uverbs0 x
	check
	finds way ok "0000:3d:00.0 – mlx5_0: PIX" "by dma-buf"
	finds way ok "0000:3d:00.0 – mlx5_1: SYS" "not used at this distance (NCCL_NET_GDR_LEVEL)"
	finds_not acs
	finds_not direct-none
	check NCCL_NET_GDR_LEVEL=sys
	finds way ok "mlx5_1: SYS, GPUDirect RDMA by dma-buf"
	check NCCL_NET_GDR_LEVEL=LOC
	finds way ok "mlx5_0: PIX" "not used at this distance (NCCL_NET_GDR_LEVEL=LOC)"
	check NCCL_NET_GDR_LEVEL=1
	finds way ok "mlx5_0: PIX, GPUDirect RDMA by dma-buf"
	# Whoever is not root reads 64 bytes of a bridge's configuration.
	finds acs-unknown note "only root"
	for i in 0 1; do head -c 256 /dev/zero >"$root$switch/0000:3c:0$i.0/config"; done
	head -c 256 /dev/zero >"$root$switch/config"
	check
	finds_not acs-unknown
	# Why GPU memory is not reached: the modules, the kernel, a setting.
	check NCCL_DMABUF_ENABLE=0
	finds direct-none note "NCCL_DMABUF_ENABLE=0" "main memory" "modprobe nvidia-peermem"
	mkdir -p "$root/sys/module/nvidia_peermem"
	check NCCL_DMABUF_ENABLE=0
	finds way ok "mlx5_0: PIX" "by nvidia_peermem"
	finds_not direct-none
	rmdir "$root/sys/module/nvidia_peermem"
	write /proc/sys/kernel/osrelease 5.4.0-150-generic
	check
	finds direct-none note "Linux 5.12"
	write /proc/sys/kernel/osrelease 6.1.0-18-amd64
	check
	finds_not direct-none
	finds_not iommu
	# ACS at the NIC's port of the switch, and an IOMMU that translates.
	{
		head -c 256 /dev/zero
		printf '\001\000\002\020' # another capability, the next one at 0x100
		head -c 28 /dev/zero
	} >"$root$switch/0000:3c:01.0/config"
	check
	finds_not acs
	{
		head -c 256 /dev/zero
		printf '\001\000\002\021' # … at 0x110
		head -c 12 /dev/zero
		printf '\015\000\001\000\377\000\035\000'
	} >"$root$switch/0000:3c:01.0/config"
	write $switch/0000:3c:00.0/0000:3d:00.0/iommu_group/type DMA-FQ
	check
	finds acs warn "ACS at 0000:3c:01.0" "setpci -s 0000:3c:01.0"
	mv "$root$switch/0000:3c:01.0/config" "$root$switch/0000:3c:00.0/config"
	check
	finds acs warn "ACS at 0000:3c:00.0 " "setpci -s 0000:3c:00.0"
	finds iommu warn 0000:3d:00.0 "iommu=pt"
	rm "$root/proc/driver/nvidia/version"
	check
	finds driver-none warn 0000:3d:00.0 "modprobe nvidia"
	finds way ok mlx5_0 "not used: no NVIDIA driver"
	write /proc/driver/nvidia/version "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  x"
	check
	finds direct-none note "open kernel modules"
	;;
report)
	# What is sent to us: what a row of the table of adapters needs, and nobody's names or secrets.
	switch=/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0
	nic=$switch/0000:3c:01.0/0000:3e:00.0
	device $switch/0000:3c:00.0/0000:3d:00.0 0x10de 0x030200 0
	device $nic 0x15b3 0x020700 0
	write $nic/device 0x1021
	write $nic/current_link_speed "32.0 GT/s PCIe"
	write $nic/iommu_group/type identity
	mkdir -p "$root/sys/bus/pci/drivers/mlx5_core" "$root/sys/class/infiniband/fake0"
	ln -s /sys/bus/pci/drivers/mlx5_core "$root$nic/driver"
	ln -s $nic "$root/sys/class/infiniband/fake0/device"
	adapter=/sys/class/infiniband/fake0
	write $adapter/fw_ver 28.39.1002
	write $adapter/board_id MT_0000000838
	write $adapter/node_guid b8ce:f603:0001:0203
	write $adapter/node_desc "gpu07 mlx5_0"
	port=$adapter/ports/1
	write $port/link_layer Ethernet
	write $port/rate "400 Gb/sec (4X NDR)"
	write $port/gids/0 fe80:0000:0000:0000:bace:f6ff:fe01:0203
	write $port/gids/3 0000:0000:0000:0000:0000:ffff:0a01:0203
	write $port/gids/4 0000:0000:0000:0000:0000:0000:0000:0000
	write $port/gid_attrs/types/3 "RoCE v2"
	write /proc/cmdline "root=UUID=12345678 iommu=pt intel_iommu=on password=letmein"
	write /proc/sys/kernel/osrelease 6.8.0-45-generic
	write /etc/os-release 'PRETTY_NAME="Some Linux 1"'
	write /sys/module/mlx5_ib/version 24.10
	write /etc/hosts "10.1.2.3 gpu07"
	plant "$fakes/libfake_nccl_2.28.9.so" /usr/lib64/libnccl.so.2
	report() {
		env -i PATH=/usr/bin:/bin USER=alice API_TOKEN=hunter22 NCCL_MINE=swordfish HF_KEY=openseame \
			ANYNET_SECRET_FILE=/home/alice/secret NCCL_COMM_ID=10.1.2.3:5000 MASTER_ADDR=gpu07 \
			NCCL_SOCKET_IFNAME=^docker0 ANYNET_IBVERBS_LIB="$build/tests/fakes/verbs/libibverbs.so.1" \
			FAKE_VERBS="device fake0 inline=256; port layer=eth gid=0,127.0.0.1,v2,lo" \
			"$tool" check --root "$root" --report "$@" >"$work/stdout" 2>"$work/stderr"
		status=$?
		[ -s "$work/stderr" ] && { cat "$work/stderr"; fail "something on stderr"; }
	}
	# has TEXT...: in the file, blanks and line ends aside
	has() {
		local text
		for text; do
			tr -d ' \n' <"$work/json" | grep -qF -- "${text// /}" || fail "no '$text' in the report"
		done
	}
	(umask 0 && true >"$work/json")
	report "$work/json"
	[ -s "$work/stdout" ] || fail "no findings are printed beside it"
	[ "$(stat -c %a "$work/json")" = 600 ] || fail "others may read it"
	python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$work/json" 2>/dev/null ||
		! command -v python3 >/dev/null || fail "it is not JSON"
	has '"name": "fake0"' '"firmware": "28.39.1002"' '"board": "MT_0000000838"' '"driver": "mlx5_core"' \
		'"device": "0x1021"' '"current_link_speed": "32.0 GT/s PCIe"' '"iommu": "identity"' \
		'"virtual_function": false' '"link_layer": "Ethernet"' '"rate": "400 Gb/sec (4X NDR)"' \
		'{"index": 0, "address": "link-local"}' '{"index": 3, "address": "IPv4", "type": "RoCE v2"}' \
		'"max_inline": 256' '"max_sge": 16' '"transport": "IB"' \
		'"gpu": "0000:3d:00.0", "adapter": "fake0", "distance": "PIX"' '"acs": "not readable"' \
		'"release": "6.8.0-45-generic"' '"distribution": "Some Linux 1"' '"iommu=pt", "intel_iommu=on"' \
		'"mlx5_ib": {"version": "24.10"}' '"version": "2.28.9"' \
		'"network": "IB", "name": "fake0", "used": true' '"NCCL_SOCKET_IFNAME": "^docker0"' \
		'"NCCL_MINE": "[left out]"' '"ANYNET_SECRET_FILE": "[left out]"' '"id": "' '"gpu_memory": "'
	for secret in hunter22 swordfish openseame letmein alice /home/alice/secret gpu07 10.1.2.3 b8ce:f603 \
		bace:f6ff 0a01:0203 12345678 "$(uname -n)"; do
		grep -wqF -- "$secret" "$work/json" && fail "'$secret' is in the report"
	done
	report "$work/json" --keep-names
	has '"NCCL_COMM_ID": "10.1.2.3:5000"'
	for secret in hunter22 swordfish openseame letmein; do
		grep -qF -- "$secret" "$work/json" && fail "'$secret' is in the report, with names"
	done
	report -
	cp "$work/stdout" "$work/json"
	has '{"report": 1'
	env -i PATH=/usr/bin:/bin "$tool" check --root "$root" --report /nowhere/x >/dev/null 2>"$work/stderr"
	[ $? = 3 ] || fail "a file that cannot be written is no error"
	grep -q "/nowhere/x cannot be written: No such file" "$work/stderr" || fail "nor is it named"
	;;
system)
	job="RANK=0 WORLD_SIZE=8 LOCAL_RANK=0 LOCAL_WORLD_SIZE=4"
	here=$(nic eth0 192.0.2.1/24)
	# Nothing leads to the other hosts; no route to the master; what it is not.
	# shellcheck disable=SC2086
	in_namespace : $job MASTER_ADDR=192.0.2.9 MASTER_PORT=29500
	finds no-way-out error "several hosts" lo "docker run --network=host"
	finds master-no-route error 192.0.2.9 "ip route get"
	# shellcheck disable=SC2086
	in_namespace "ip link add docker0 type bridge; ip link add v type veth peer name w
		ip link set v master docker0; ip link set v up; ip link set w up
		ip link set docker0 up; ip addr add 172.17.0.1/16 dev docker0
		until ip -br link show docker0 | grep ' UP ' >/dev/null; do :; done" \
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
		finds master-form error "$master" "MASTER_PORT=PORT"
		finds_not master-unresolved
	done
	# shellcheck disable=SC2086
	in_namespace "$here" $job MASTER_ADDR=fd00::1 MASTER_PORT=29500
	finds_not master-form
	# A name that is this host's own for itself only.
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
	# Plugins and copies of NCCL that the loader takes or leaves.
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
	# The wheel that PyTorch asks for.
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
	# Of this host's releases by default, and areas.
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
	;;
hostile)
	# Files that are larger than they look, or change while they are read.
	plant "$plugin" /opt/lib/libnccl-net.so
	truncate -s 40G "$root/opt/lib/libnccl-net.so"
	check LD_LIBRARY_PATH=/opt/lib
	finds plugin-anynet ok /opt/lib/libnccl-net.so
	# Its table of symbols has 40 GB.
	section=$(readelf -SW "$plugin" | awk '$2 == ".dynsym" || $3 == ".dynsym" { gsub(/[][]/, ""); print $1 }')
	offset=$(readelf -h "$plugin" | awk '/Start of section headers/ { print $5 }')
	printf '\0\0\0\0\010\0\0\0' | dd of="$root/opt/lib/libnccl-net.so" bs=1 \
		seek=$((offset + 64 * section + 32)) conv=notrunc 2>/dev/null
	as="timeout 60"
	check LD_LIBRARY_PATH=/opt/lib
	finds plugin-unusable warn
	as=
	mkfifo "$root/opt/lib/libnccl-net-pipe.so"
	as="timeout 60"
	check LD_LIBRARY_PATH=/opt/lib NCCL_NET_PLUGIN=pipe
	[ "$status" -lt 3 ] || fail "a pipe"
	as=
	# Root runs nothing from a directory that others may write to; it is looked at all the same.
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
			# Whoever has made the environment may have made the note of the first start, too.
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
		foreign "lib:"
		finds library-path-not-trusted note lib
	fi
	;;
clean)
	# No false alarm: a host with a NIC, the plugin, one NCCL, PyTorch, a job that is set up well,
	# and 20 interfaces and 5 Pythons, which take no time to speak of.
	plant "$plugin" /usr/lib64/libnccl-net.so
	for i in 1 2 3 4 5; do
		site=/opt/conda/envs/env$i/lib/python3.1$i/site-packages
		plant "$fakes/libfake_nccl_2.30.7.so" $site/nvidia/nccl/lib/libnccl.so.2
		plant "$fakes/libfake_torch_rpath.so" $site/torch/lib/libtorch_cuda.so
		write $site/torch/version.py "__version__ = '2.11.0+cu130'" \
			"cuda: Optional[str] = '13.0'"
		mkdir "$root$site/nvidia_nccl_cu13-2.30.7.dist-info"
	done
	interfaces=$(nic eth0 192.0.2.1/24)
	for i in 1 2 3 4 5 6 7 8 9 10; do
		interfaces+="ip link add name v$i type veth peer name w$i;"
	done
	in_namespace "$interfaces" NCCL_DEBUG=INFO NCCL_SOCKET_IFNAME=eth0 NCCL_IB_TIMEOUT=22 \
		RANK=0 WORLD_SIZE=8 LOCAL_RANK=0 LOCAL_WORLD_SIZE=4 GROUP_RANK=0 GROUP_WORLD_SIZE=2 \
		MASTER_ADDR=192.0.2.1 MASTER_PORT=29500 CONDA_PREFIX=/opt/conda/envs/env1 \
		NCCL_NET=IB NCCL_IB_DISABLE=0 ANYNET_IO_THREADS=2 NCCL_VERSION=2.30.7
	if [ -z "$(findings usable)" ]; then
		# The one thing that is not as asked: there is no InfiniBand.
		finds asked-without warn "uses TCP on eth0"
		in_namespace "$interfaces" NCCL_DEBUG=INFO NCCL_SOCKET_IFNAME=eth0 \
			CONDA_PREFIX=/opt/conda/envs/env1
	fi
	status_is 0
	[ "$(findings user-loads | wc -l)" = 5 ] || fail "not all Pythons are found"
	for verdict in warning error; do
		grep -q "\"level\": \"$verdict\"" "$work/json" && fail "a $verdict on a clean host"
	done
	in_namespace "$interfaces"
	status_is 0
	# The same with RoCE and a GPU beside each other, as they should be.
	port=/sys/class/infiniband/mlx5_0/ports/1
	write $port/state "4: ACTIVE"
	write $port/link_layer Ethernet
	write $port/rate "400 Gb/sec (4X NDR)"
	for i in 0:fe80:0000:0000:0000:0202:c9ff:fe00:0001:v1 1:fe80:0000:0000:0000:0202:c9ff:fe00:0001:v2 \
		2:0000:0000:0000:0000:0000:ffff:c633:6401:v1 3:0000:0000:0000:0000:0000:ffff:c633:6401:v2; do
		write "$port/gids/${i%%:*}" "$(cut -d: -f2-9 <<<"$i")"
		write "$port/gid_attrs/types/${i%%:*}" "RoCE ${i##*:}"
		write "$port/gid_attrs/ndevs/${i%%:*}" rdma0
	done
	write /sys/class/net/rdma0/mtu 9000
	write $port/counters/symbol_error 0
	write /sys/class/infiniband_verbs/uverbs0/ibdev mlx5_0
	write /dev/infiniband/uverbs0 x
	switch=/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0
	device $switch/0000:3c:00.0/0000:3d:00.0 0x10de 0x030200 0
	device $switch/0000:3c:01.0/0000:3e:00.0 0x15b3 0x020700 0
	ln -s $switch/0000:3c:01.0/0000:3e:00.0 "$root/sys/class/infiniband/mlx5_0/device"
	for i in "" /0000:3c:00.0 /0000:3c:01.0; do head -c 4096 /dev/zero >"$root$switch$i/config"; done
	write $switch/0000:3c:00.0/0000:3d:00.0/iommu_group/type identity
	write /proc/driver/nvidia/version \
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build"
	write /proc/sys/kernel/osrelease 6.8.0-45-generic
	write /usr/lib64/libcudart.so.13.0.96 x
	ln -s libcudart.so.13.0.96 "$root/usr/lib64/libcudart.so.13"
	in_namespace "$interfaces" NCCL_IB_HCA=mlx5_0 CONDA_PREFIX=/opt/conda/envs/env1
	finds port ok mlx5_0:1
	finds way ok "PIX, GPUDirect RDMA by dma-buf"
	finds runtime ok 13.0.96
	# What a process may pin is this host's.
	if [ -z "$(findings memlock)" ]; then status_is 0; fi
	bad=$(grep -B3 -E '"level": "(warning|error)"' "$work/json" | grep '"id"' | grep -v memlock)
	[ -z "$bad" ] || fail "alarms on a clean host: $bad"
	rm -r "${root:?}"/{usr,opt,sys,proc,dev}
	mkdir -p "$root/sys/class"
	in_namespace "$interfaces"
	status_is 0
	;;
*)
	echo "no case $case"
	exit 1
	;;
esac
exit 0

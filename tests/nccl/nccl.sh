#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The real NCCL over the plugin, on GPUs in software: nccl.sh CASE BUILD_DIR. Loopback only; exit 77 =
# skipped. bench/real has the program, and does the same on a real GPU.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/said.sh
. "$here/../said.sh"

case=${1:?} build=${2:?}
libs=$("$here/prepare.sh" --offline) || {
	echo "$libs"
	exit 77
}
plugin=$build/libnccl-net.so
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# Supported by the kernels in software. Without a GPU there is nothing to tune.
export NCCL_ALGO=Ring NCCL_PROTO=LL,Simple LD_LIBRARY_PATH=$libs
export NCCL_SOCKET_IFNAME=lo ANYNET_TRANSPORT=tcp
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 # NCCL's own
unset NCCL_NET NCCL_DEBUG ANYNET_PORT_RANGE

bench() {
	"$build/bench/real/real_bench" --nccl "$libs/libnccl.so.2" --cudart "$libs/libcudart.so.13" \
		--logs "$out" --limit 60 -w 1 "$@"
}

sizes=all_reduce,all_gather,reduce_scatter,broadcast,alltoall,sendrecv
scenes=groups,splits,comms,registered,reinit,abort
case $case in
# The GPU in software alone.
runtime)
	expect 0 "" "$here/../fakes/nccl/runtime.sh" "${CUDA_HOME:-/usr/local/cuda}/include" "$out/libs" check
	;;
# NCCL's own net: a failure here is not the plugin's.
builtin)
	expect 0 "all results are right" bench -N "NCCL_NET=Socket builtin" -r 3 -e 4M -f 32 -n 2 -t $sizes
	said '^# NET/Socket carried all '
	;;
sizes)
	for ranks in 2 4; do
		expect 0 "all results are right" bench -N "$plugin" -r $ranks -e 16M -f 8 -n 3 -t $sizes
		said "^# NET/anynet carried all [1-9][0-9]* channel ends of $ranks ranks; net API v11 of "
	done
	;;
scenes)
	expect 0 "all results are right" bench -N "$plugin" -r 4 -e 16M -t $scenes
	for scene in ${scenes//,/ }; do
		said "^# $scene +[^S]"
	done
	;;
eight)
	expect 0 "all results are right" bench -N "$plugin" -r 8 -e 1M -f 64 -n 2 -t $sizes,groups,splits
	;;
# Through a shim of NCCL for older tables.
v[0-9]*)
	expect 0 "all results are right" bench -N "$build/tests/nccl/$case/libnccl-net.so" --api "${case#v}" -r 3 \
		-e 4M -f 32 -n 3 -t $sizes,groups,splits,abort
	said "^# NET/anynet carried all .*; net API $case of "
	;;
# NCCL ends the job here, with its own nets.
ib)
	expect 0 "all results are right" bench -N "NCCL_NET=IB $plugin" -r 2 -e 1M -f 32 -n 3 -t $sizes,$scenes
	said '^# NET/IB carried all '
	;;
cut)
	expect 0 "all results are right" bench -N "$plugin" -r 2 -b 64K -e 4M -f 8 -n 60 --cut 20 \
		-t all_reduce,alltoall,sendrecv
	said '^# [1-9][0-9]* connections of the plugin were shut meanwhile'
	;;
# Over queue pairs of soft-RoCE, which need their own kernel.
guest)
	"$here/../guest/guest.sh" --offline --limit 280 -- "$here/../guest/nccl.sh" "$build" "$libs" || exit
	;;
gpu)
	net="ANYNET_TCP_CUDA=1 NCCL_NET_GDR_LEVEL=SYS NCCL_NET_GDR_READ=1 $plugin"
	for ranks in 2 4; do
		expect 0 "all results are right" bench -N "$net" -r $ranks -e 16M -f 8 -n 3 -t $sizes
		said ', [1-9][0-9]* of them with buffers in GPU memory; net API v11 of '
	done
	# Directly from and to the user's memory.
	for ranks in 2 3 4; do
		expect 0 "all results are right" bench -N "$net" -r $ranks -e 64M -t registered
		said ' in GPU memory, and user buffers registered with it [1-9][0-9]* times; net API v11 of '
	done
	expect 0 "all results are right" bench -N "ANYNET_CHECKSUM=1 $net" -r 2 -b 64K -e 4M -f 8 -n 60 --cut 20 \
		-t all_reduce,alltoall,sendrecv
	said '^# [1-9][0-9]* connections of the plugin were shut meanwhile'
	;;
# GPUDirect on a device that has not reported support: a topology file overrides it.
topology)
	expect 0 "all results are right" bench -N "NCCL_TOPO_DUMP_FILE=$out/host.xml $plugin" -r 2 -e 8 -n 1 \
		-t all_reduce
	sed -E 's/(<net .*)gdr="0"/\1gdr="1"/; s/ (host_hash|rank)="[^"]*"//' "$out/host.xml" >"$out/gdr.xml"
	expect 0 "all results are right" bench -r 3 -e 4M -f 32 -n 3 -t $sizes,registered \
		-N "NCCL_TOPO_FILE=$out/gdr.xml NCCL_NET_GDR_LEVEL=SYS NCCL_NET_GDR_READ=1 $plugin"
	said ' in GPU memory, and user buffers registered with it [1-9][0-9]* times; net API v11 of '
	;;
killed)
	expect 0 "all results are right" bench -N "$plugin" -r 3 -t killed
	said '^# killed +[12] of the 2 others had an error of their own'
	;;
*) fail "no case $case" ;;
esac

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Queue pairs beside NCCL's own IB transport, on the kernel's software RDMA, in one boot of the guest:
# emulated processors, so that only ratios mean anything. Runs in the guest:
#
#   tests/guest/guest.sh --limit 1500 -- bench/ib.sh BUILD_DIR [ROUNDS [OPTION OF NET_BENCH...]]
#
# libnccl.so.2 is looked for as net_bench does it; without one only the plugin is measured.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:?usage: bench/ib.sh BUILD_DIR [ROUNDS [OPTION...]]}
rounds=${2:-5}

# shellcheck source=tests/guest/rxe.sh
. tests/guest/rxe.sh
rxe_make

# Soft-RoCE takes 7 retries for ever. One end on each device, so that packets cross the wire.
common="NCCL_IB_HCA=rxe NCCL_IB_RETRY_CNT=6 NCCL_IB_TIMEOUT=14"
nets=(--net "$common $build/libnccl-net.so" --net "$common nccl:IB")
if ! "$build/tools/anynet" perf --net nccl:Socket -r 1 -b 8 -e 8 -n 1 >/dev/null 2>&1; then
	echo "bench: no usable libnccl.so.2 is found: NCCL's IB net is left out"
	nets=("${nets[@]:0:2}")
fi
options=(--dev 0,1 --ifname eth --rounds "$rounds" "${@:3}" "${nets[@]}")
"$build/bench/net_bench" lat -s 8,4K "${options[@]}"
"$build/bench/net_bench" bw -c 1 --ways 1 -s 64K,512K --window 1500 "${options[@]}"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The real NCCL over queue pairs of the kernel's software RDMA, and a port that is gone for a while. Runs in
# the guest, by tests/nccl/nccl.sh:
#
#   tests/guest/guest.sh -- tests/guest/nccl.sh BUILD_DIR LIBRARIES
#
# LIBRARIES is what tests/nccl/prepare.sh prints.
set -Eeuo pipefail
trap 'echo "nccl: $BASH_COMMAND (line $LINENO) failed"' ERR
cd "$(dirname "$0")/../.."
build=${1:?usage: tests/guest/nccl.sh BUILD_DIR LIBRARIES} libs=${2:?}

# shellcheck source=tests/guest/rxe.sh
. tests/guest/rxe.sh
rxe_make 1

packets() {
	cat /sys/class/infiniband/rxe*/ports/1/hw_counters/sent_pkts | awk '{ n += $1 } END { print n }'
}

# bench ARGUMENT...: 2 ranks
bench() {
	"$build/bench/real/real_bench" --nccl "$libs/libnccl.so.2" --cudart "$libs/libcudart.so.13" \
		--logs /run --limit 100 -N "ANYNET_TRANSPORT=auto $build/libnccl-net.so" "$@" >/run/said 2>&1
}

# As in nccl.sh. Soft-RoCE treats 7 retries as infinite.
export NCCL_ALGO=Ring NCCL_PROTO=LL,Simple LD_LIBRARY_PATH=$libs
export NCCL_IB_HCA=rxe NCCL_SOCKET_IFNAME=eth NCCL_IB_RETRY_CNT=6 NCCL_IB_TIMEOUT=14

# judge WHAT STATUS PACKETS
judge() {
	echo "nccl: $1: $(tail -n 1 /run/said), $3 packets by queue pairs"
	if [ "$2" != 0 ] || [ "$3" -le 100 ]; then
		cat /run/said /run/net0-*.log
		exit 1
	fi
}

before=$(packets) status=0
bench -e 256K -f 32 -n 3 -t all_reduce,all_gather,reduce_scatter,broadcast,alltoall,sendrecv,groups || status=$?
judge collectives "$status" $(($(packets) - before))

# Both ends of the wire lose their carrier during a transfer. TCP does not, because it stays within this host.
before=$(packets) status=0
bench -b 64K -e 64K -n 1000 -t all_reduce &
while [ $(($(packets) - before)) -lt 500 ]; do
	kill -0 $! 2>/dev/null || break
done
wire_set 0 down
while ! grep -q 'anynet: .*dev rxe.* broke: ' /run/net0-*.log; do
	kill -0 $! 2>/dev/null || break
done
wire_set 0 up
wait $! || status=$?
judge "a port that is gone" "$status" $(($(packets) - before))
grep -h -m 1 'anynet: .*dev rxe.* broke: ' /run/net0-*.log

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The conformance suite over queue pairs of the kernel's software RDMA, and a wire that is pulled under
# a stream. Runs in the guest:
#
#   tests/guest/guest.sh -- tests/guest/ib.sh BUILD_DIR [SUBJECT…]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:?usage: tests/guest/ib.sh BUILD_DIR [SUBJECT...]}
shift
[ $# -gt 0 ] || set -- connect transfer grouped close

# shellcheck source=tests/guest/rxe.sh
. tests/guest/rxe.sh
rxe_make
# By which the queue pairs' packets are told from those of TCP.
packets() {
	cat /sys/class/infiniband/rxe*/ports/1/hw_counters/sent_pkts | awk '{ n += $1 } END { print n }'
}

failed=0
for subject in "$@"; do
	before=$(packets)
	# Soft-RoCE takes 7 retries for ever.
	"$build/tests/conformance/conformance_$subject" "$build/libnccl-net.so" 12 ANYNET_TRANSPORT=auto \
		NCCL_IB_HCA=rxe NCCL_IB_RETRY_CNT=6 NCCL_IB_TIMEOUT=14 ANYNET_MAX_RECVS=8 >/run/ib.log 2>&1 || {
		cat /run/ib.log
		failed=1
	}
	sent=$(($(packets) - before))
	echo "ib: $subject: $(tail -n 1 /run/ib.log), $sent packets by queue pairs"
	[ "$sent" -gt 100 ] || failed=1
done
exit "$failed"

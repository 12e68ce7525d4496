#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The conformance suite over queue pairs of the kernel's software RDMA, and a wire that is pulled under
# a stream. Runs in the guest:
#
#   tests/guest/guest.sh -- tests/guest/ib.sh BUILD_DIR [SUBJECT|SCENARIO[/SETTING=VALUE]…]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:?usage: tests/guest/ib.sh BUILD_DIR [SUBJECT|SCENARIO[/SETTING=VALUE]...]}
shift
[ $# -gt 0 ] || set -- connect transfer grouped close one-of-two only-tcp lossy masked killed \
	transfer/NCCL_IB_QPS_PER_CONNECTION=3 one-of-two/NCCL_IB_QPS_PER_CONNECTION=2

# shellcheck source=tests/guest/rxe.sh
. tests/guest/rxe.sh
rxe_make 3 2
# By which the queue pairs' packets are told from those of TCP.
packets() {
	cat /sys/class/infiniband/rxe*/ports/1/hw_counters/sent_pkts | awk '{ n += $1 } END { print n }'
}

# Soft-RoCE takes 7 retries for ever.
always=(NCCL_IB_RETRY_CNT=6 NCCL_IB_TIMEOUT=14)

conformance() {
	local before sent
	before=$(packets)
	"$build/tests/conformance/conformance_$1" "$build/libnccl-net.so" 12 ANYNET_TRANSPORT=auto \
		NCCL_IB_HCA=rxe ANYNET_MAX_RECVS=8 "${settings[@]}" >/run/ib.log 2>&1 || return 1
	sent=$(($(packets) - before))
	echo "ib: $1: $(tail -n 1 /run/ib.log), $sent packets by queue pairs"
	[ "$sent" -gt 100 ]
}

scenario() {
	"$build/tests/guest/guest_ib" "$build/libnccl-net.so" "$1" "${settings[@]}" 2>/run/ib.log |
		sed "s/^/ib: $1: /" || return 1
	[ "$1" != masked ] || same_verdict
}

# Of both comms both ends say why they do without queue pairs, in the same words.
same_verdict() {
	local verdicts
	verdicts=$(sed -n 's/.*: data goes over TCP and not through queue pairs: //p' /run/ib.log | sort | uniq -c)
	echo "ib: masked: said so: $(echo "$verdicts" | xargs)"
	[ "$(echo "$verdicts" | awk '{ print $1 }')" = 4 ]
}

failed=0
for subject in "$@"; do
	settings=("${always[@]}")
	case $subject in
	*/*) settings+=("${subject#*/}") ;;
	esac
	subject=${subject%%/*}
	if [ -x "$build/tests/conformance/conformance_$subject" ]; then
		run=conformance
	else
		run=scenario
	fi
	"$run" "$subject" || {
		echo "ib: $subject: FAILED"
		cat /run/ib.log
		failed=1
		for wire in 0 1; do
			wire_set "$wire" up
		done
		for end in eth0 eth1; do
			tc qdisc del dev "$end" root 2>/dev/null || true
		done
	}
done
exit "$failed"

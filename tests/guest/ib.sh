#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The conformance suite over queue pairs of the kernel's software RDMA, and a wire that is pulled under
# a stream. Runs in the guest:
#
#   tests/guest/guest.sh -- tests/guest/ib.sh BUILD_DIR [SUBJECT|SCENARIO[/SETTING=VALUE]…]
#
# With "cm-" before it the RDMA connection manager connects the queue pairs; at-one: one end wants it to,
# cm-missing: both ends, but there is none.
set -Eeuo pipefail
trap 'echo "ib: $BASH_COMMAND (line $LINENO) failed"' ERR
cd "$(dirname "$0")/../.."
build=${1:?usage: tests/guest/ib.sh BUILD_DIR [SUBJECT|SCENARIO[/SETTING=VALUE]...]}
shift
[ $# -gt 0 ] || set -- connect transfer grouped close one-of-two only-tcp lossy masked killed \
	transfer/NCCL_IB_QPS_PER_CONNECTION=3 one-of-two/NCCL_IB_QPS_PER_CONNECTION=2

# shellcheck source=tests/guest/rxe.sh
. tests/guest/rxe.sh
rxe_make 3 2
# Counts the packets of queue pairs, not those of TCP.
packets() {
	cat /sys/class/infiniband/rxe*/ports/1/hw_counters/sent_pkts | awk '{ n += $1 } END { print n }'
}

# Connection requests of the RDMA connection manager.
requests() {
	cat /sys/class/infiniband/rxe*/ports/1/cm_tx_msgs/req | awk '{ n += $1 } END { print n }'
}

# Soft-RoCE treats 7 retries as infinite.
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
	case $1 in
	masked) same_verdict "$1" 'data uses TCP, not queue pairs' ;;
	at-one) same_verdict "$1" 'the queue pair is connected without the RDMA CM' ;;
	esac
}

# same_verdict SCENARIO WHAT: both ends of both comms log the same reason.
same_verdict() {
	local verdicts
	verdicts=$(sed -n "s/.*: $2: //p" /run/ib.log | sort | uniq -c)
	echo "ib: $1: said so: $(echo "$verdicts" | xargs)"
	[ "$(echo "$verdicts" | awk '{ print $1 }')" = 4 ]
}

# run SUBJECT|SCENARIO
run() {
	if [ -x "$build/tests/conformance/conformance_$1" ]; then
		conformance "$1"
	else
		scenario "$1"
	fi
}

by_cm() {
	local before asked status=0
	modprobe rdma_ucm
	before=$(requests)
	settings+=(ANYNET_IB_CM=1)
	run "$1" || status=1
	asked=$(($(requests) - before))
	echo "ib: cm-$1: the RDMA CM has asked for $asked connections"
	[ "$status" = 0 ] && [ "$asked" -gt 0 ]
}

without_librdmacm() {
	local library status=0
	library=$(ldconfig -p | awk '/librdmacm\.so\.1 / && !n++ { print $NF }')
	[ -z "$library" ] || mount --bind /dev/null "$(readlink -f "$library")"
	settings+=(ANYNET_IB_CM=1)
	scenario steady || status=1
	[ -z "$library" ] || umount "$(readlink -f "$library")"
	sed -n 's/.*\(WARN.*the RDMA CM cannot be used\)/ib: cm-missing: \1/p' /run/ib.log
	[ "$status" = 0 ] && [ "$(grep -c 'WARN.*the RDMA CM cannot be used' /run/ib.log)" = 2 ]
}

failed=0
for subject in "$@"; do
	settings=("${always[@]}")
	case $subject in
	*/*) settings+=("${subject#*/}") ;;
	esac
	subject=${subject%%/*}
	case $subject in
	cm-missing) how=(without_librdmacm) ;;
	cm-*) how=(by_cm "${subject#cm-}") ;;
	*) how=(run "$subject") ;;
	esac
	"${how[@]}" || {
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

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The TCP transport over networks that lose, delay, reorder, duplicate and damage packets: a verified
# stream each way, over 1 stream on one wire and, beside it, over 4 streams on two wires. Runs in the
# guest, where the kernel has netem:
#
#   tests/guest/guest.sh -- tests/guest/netem.sh BUILD_DIR [CASE…]
#
# Each line tells the case, what was moved, and what the kernels' counters say of the network and of
# TCP. A case fails if a byte is wrong, something hangs, the plugin takes the peer for dead, or the
# counters show that the network was not bad in the way it should have been.
set -Eeuo pipefail
trap 'echo "netem: $BASH_COMMAND (line $LINENO) failed"' ERR
cd "$(dirname "$0")/../.."
# shellcheck source=tests/guest/links.sh
. tests/guest/links.sh

build=${1:?usage: tests/guest/netem.sh BUILD_DIR [CASE...]}
shift
seconds=5
rest=12     # longer than a peer may be silent
silence=10s # many times what TCP needs here to deliver a packet, even with 5 % loss

# Name; bytes of a message (4000 are copied, 65536 are one frame, 300000 are three where there are four
# streams); the counters that must not be zero, with commas; seconds of rest; how the wires treat packets.
cases() {
	cat <<-END
	loss-1      300000 Dropped             0     loss 1%
	loss-5      4000   Dropped             0     loss 5%
	delay       300000 TcpExtTCPOFOQueue   0     delay 20ms 10ms
	reorder     65536  TcpExtTCPOFOQueue   0     delay 10ms reorder 25%
	duplicate   300000 TcpExtTCPDSACKRecv  0     duplicate 5%
	corrupt     300000 TcpInCsumErrors     0     corrupt 1%
	far-loss    65536  Dropped,TcpExtTCPOFOQueue            $rest delay 20ms 10ms loss 1%
	corrupt-dup 4000   TcpInCsumErrors,TcpExtTCPDSACKRecv   0 delay 5ms corrupt 1% duplicate 5%
	everything  65536  Dropped,TcpInCsumErrors,TcpExtTCPDSACKRecv,TcpExtTCPOFOQueue $rest \
		delay 10ms 5ms reorder 25% loss 1% duplicate 5% corrupt 1%
	END
}

# stream STREAMS WIRES CASE BYTES WITNESSES REST NETEM…: one run. Prints its lines, and the plugin's log if
# it fails.
stream() {
	local streams=$1 wires=$2 pair=streams$1 run=/run/streams$1 summary status=0
	links_netem "$pair" "$wires" "${@:7}" || return
	summary=$("$build/tests/guest/guest_stream" "$build/libnccl-net.so" "$seconds" "$6" "$4" \
		"$pair-a" "$pair-b" eth "ANYNET_PEER_TIMEOUT=$silence" ANYNET_TCP_STRIPE=on \
		"ANYNET_TCP_CONNECTIONS=$((streams / wires))" 2>"$run.log") || status=$?
	links_counters "$pair" >"$run.after"
	awk -v name="$3" -v streams="$streams" -v witnesses="$5" -v summary="$summary" \
		-v status="$status" -f tests/guest/netem.awk "$run.before" "$run.after" || {
		cat "$run.log"
		status=1
	}
	mv "$run.after" "$run.before"
	return "$status"
}

wanted() {
	local name=$1 one
	shift
	[ $# -gt 0 ] || return 0
	for one in "$@"; do
		[ "$one" != "$name" ] || return 0
	done
	return 1
}

for pair in "streams1 1" "streams4 2"; do
	# shellcheck disable=SC2086 # words
	links_make $pair
	links_counters "${pair% *}" >"/run/${pair% *}.before"
done
# Both runs of a case at once: they wait for the network.
failed=0
while read -r name bytes witnesses pause netem; do
	wanted "$name" "$@" || continue
	# shellcheck disable=SC2086 # words
	stream 4 2 "$name" "$bytes" "$witnesses" "$pause" $netem >/run/four 2>&1 &
	# shellcheck disable=SC2086
	stream 1 1 "$name" "$bytes" "$witnesses" "$pause" $netem || failed=1
	wait $! || failed=1
	cat /run/four
done < <(cases)
[ "$failed" = 0 ] || echo "netem: FAILED"
exit "$failed"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What faults cost: rates while connections break, time to resume, time to an error, and what recovery
# costs when nothing breaks. Every byte is verified. Prints a Markdown table, as in
# docs/reliability.md; the full output of each scenario is kept in OUT.
#
# Usage: bench/recovery.sh [--quick] [--only ROW[,ROW...]] [--out DIR] BUILD_DIR
# ROW: cut link lost stalls peers stopped cost
# BUILD_DIR has to be configured with BUILD_TESTING=ON.
set -euo pipefail
cd "$(dirname "$0")/.."

only=cut,link,lost,stalls,peers,stopped,cost
# shellcheck source=bench/options.sh
. bench/options.sh
cut=60 down=5 stop=40 stalls=600 rounds=15
[ ${#quick[@]} = 0 ] || cut=6 down=2 stop=5 stalls=40 rounds=5
faults=$build/tests/faults/faults
net=$build/libnccl-net.so
out=${out:-$build/bench/recovery}
mkdir -p "$out"
failed=0

row() {
	printf '| %s | %s |\n' "$1" "$2"
}

# scenario LOG NAME [OPTION=VALUE...]: its output in LOG; a row says so if it fails.
scenario() {
	local log=$out/$1.log name=$2
	shift 2
	if "$faults" "$name" net="$net" "$@" >"$log" 2>&1; then
		return 0
	fi
	if grep -q '^SKIP' "$log"; then
		row "$name" "$(grep -m1 '^SKIP' "$log")"
	else
		row "$name $*" "**failed**, see $log"
		failed=1
	fi
	return 1
}

# The largest (or with "least" the smallest) number before UNIT in lines with TEXT.
extreme() {
	grep -- "$2" "$out/$1.log" | grep -oE "[0-9.]+ $3" | awk -v which="${4:-most}" '
		NR == 1 || (which == "least" ? $1 < v : $1 > v) { v = $1 } END { print v }'
}

cut_rows() {
	local streams side
	for streams in 1 4; do
		for side in sender receiver; do
			scenario "cut-$side-$streams" "figure-cut-$side" seconds="$cut" \
				ANYNET_TCP_CONNECTIONS="$streams" || continue
			row "a connection of the $side shut every 20 ms for $cut s, $streams stream(s), 512 KiB" \
				"$(sed -n 's/^figure cut-[a-z]* GB\/s \(.*\) of \(.*\) ratio \(.*\)/\1 of \2 GB\/s: \3/p' \
					"$out/cut-$side-$streams.log"), $(grep -oE '[0-9]+ wrong bytes' "$out/cut-$side-$streams.log")"
		done
		scenario "verify-$streams" "cut-$streams-stream$([ "$streams" = 1 ] || echo s)" seconds="$cut" || continue
		row "the same without pauses, 0 B to 4 MiB, checked in full, $streams stream(s)" \
			"$(sed -n 's/^\(sender\|receiver\): \([^,]*\), \([^,]*\), \([^,]*\), \([^,]*\),.*/\1: \2, \4, \5;/p' \
				"$out/verify-$streams.log" | tr '\n' ' ')"
	done
}

link_rows() {
	local loss
	scenario link link-only seconds="$down" || return 0
	for loss in "sender's link" "receiver's link" "sender's carrier" "receiver's carrier" "both carriers"; do
		row "the only link down $down s ($loss): resumed after" \
			"$(grep "^$loss" "$out/link.log" | grep -oE 'resumed [0-9]+ ms' | grep -oE '[0-9]+ ms' | paste -sd, -)"
	done
}

lost_rows() {
	local loss
	if scenario lost figure-lost seconds=5; then
		row "one of two 1 Gb/s links down for good" \
			"$(sed -n 's/^figure lost GB\/s //p' "$out/lost.log")"
	fi
	scenario stall link-one-of-two || return 0
	for loss in "sender's link" "receiver's link" "sender's carrier" "receiver's carrier" "both carriers"; do
		row "… ($loss): stall" \
			"$(grep "^$loss" "$out/stall.log" | grep -oE '[0-9]+ ms' | paste -sd, -)"
	done
}

# Two 1 Gb/s paths, messages of 0 B to 4 MiB.
stall_rows() {
	if scenario stalls figure-stalls seconds="$stalls"; then
		sed -n 's/^figure stall ms \(.*\): \(.*\)/| one of two paths, \1: stall in ms | \2 |/p' "$out/stalls.log"
	fi
	if scenario lossy figure-lossy seconds="$down"; then
		row "5 % of packets lost on both of two paths: GB/s; longest stall" \
			"$(sed -n 's/^figure lossy GB\/s //p' "$out/lossy.log"); $(extreme lossy 'longest stall' ms)"
	fi
}

peer_rows() {
	local state
	if scenario killed killed; then
		for state in "while busy" "while idle" "while expected to send"; do
			row "peer killed $state: error within" \
				"$(extreme killed "^killed $state" ms) ms"
		done
		row "… then closed within" "$(extreme killed '^  then closed' ms) ms"
	fi
	if scenario close close-alone; then
		row "closed with the peer frozen mid-message" "$(extreme close 'frozen' ms) ms"
		row "closed with the peer dead mid-message" "$(extreme close 'dead' ms) ms"
	fi
	if scenario cut-off close-cut-off; then
		row "closed in a blackhole" "$(extreme cut-off 'blackhole' ms) ms"
	fi
}

stopped_rows() {
	scenario stopped stopped seconds="$stop" || return 0
	row "peer stopped for $stop s, ANYNET_PEER_TIMEOUT 1 s" "goes on; one WARN"
}

# Medians over the rounds, each pair measured one after the other.
cost_rows() {
	local log=$out/cost
	local specs=(--rounds "$rounds" --net "$net" --net "ANYNET_RECOVERY_TIMEOUT=0 $net")
	"$build/bench/net_bench" lat -s 8 "${specs[@]}" >"$log-lat.log"
	row "recovery on, off: half a round trip of 8 B" "$(awk -F'|' '$1 ~ /^ *8 *$/ {
		split($2, on, " "); split($3, off, " "); printf "%s, %s µs", on[1], off[1] }' "$log-lat.log")"
	"$build/bench/net_bench" bw -c 1 -s 512K --ways 1 "${specs[@]}" >"$log-bw.log"
	row "recovery on, off: one comm, 512 KiB" "$(awk -F'|' '$1 ~ /^ *524288 / {
		split($2, on, " "); split($3, off, " "); split($4, ratio, " ")
		printf "%s, %s GB/s: %s", on[1], off[1], ratio[1] }' "$log-bw.log")"
}

echo "| | |"
echo "|---|---|"
! wanted cut || cut_rows
! wanted link || link_rows
! wanted lost || lost_rows
! wanted stalls || stall_rows
! wanted peers || peer_rows
! wanted stopped || stopped_rows
! wanted cost || cost_rows
exit "$failed"

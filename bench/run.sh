#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# All figures: ours beside NCCL's built-in Socket and the kernel's limit, CSV and plots.
#
# Usage: bench/run.sh [--quick] [--only FIGURE[,FIGURE...]] [--out DIR] BUILD_DIR
# FIGURE: lat bw rate connect unauthenticated iperf netns
set -euo pipefail
cd "$(dirname "$0")/.."

only=lat,bw,rate,connect,unauthenticated,iperf,netns
# shellcheck source=bench/options.sh
. bench/options.sh
out=${out:-$build/bench/results}
mkdir -p "$out"
csv=$out/results.csv
rm -f "$csv"

bench=$build/bench/net_bench
nets=(--net "$build/libnccl-net.so" --net nccl:Socket)
if ! "$build/tools/anynet" perf --net nccl:Socket -r 1 -b 8 -e 8 -n 1 >/dev/null 2>&1; then
	echo "bench: no usable libnccl.so.2 is found: NCCL's built-in net is left out"
	nets=(--net "$build/libnccl-net.so")
fi
raw=(--net "$build/bench/libnccl-net-raw.so")

# iperf3's one stream of 512 KiB writes, client and server on a core each.
iperf() {
	command -v iperf3 >/dev/null || { echo "bench: iperf3 is not installed"; return 0; }
	local port=$((20000 + RANDOM % 10000)) seconds=3 rates='' round
	[ ${#quick[@]} = 0 ] || seconds=1
	for round in 0 1 2 3 4; do
		iperf3 -s -1 -B 127.0.0.1 -p "$port" >/dev/null &
		until ss -Hltn "sport = :$port" | grep . >/dev/null; do :; done
		iperf3 -c 127.0.0.1 -p "$port" -t "$seconds" -l 512K -A 0,1 -J >"$out/iperf.json"
		wait $!
		rate=$(awk -F'[:,]' '/"sum_received"/ { r = 1 } r && /bits_per_second/ {
			print $2 / 8e9; exit }' "$out/iperf.json")
		echo "iperf3,1,iperf3,524288,1,1,$round,GB/s,$rate" >>"$csv"
		rates+="$rate "
	done
	echo "#"
	echo "# iperf3, one stream, 512 KiB writes, GB/s in 5 rounds: $rates"
}

failed=0
for figure in lat bw; do
	wanted "$figure" || continue
	"$bench" "$figure" "${quick[@]}" --csv "$csv" "${nets[@]}" "${raw[@]}" || failed=1
done
for figure in rate connect unauthenticated; do
	wanted "$figure" || continue
	"$bench" "$figure" "${quick[@]}" --csv "$csv" "${nets[@]}" || failed=1
done
if wanted iperf; then
	iperf
fi
if wanted netns; then
	bench/netns.sh "${quick[@]}" --csv "$csv" "$build" || failed=1
fi

if command -v gnuplot >/dev/null; then
	for figure in lat bw; do
		wanted "$figure" || continue
		bench/medians.awk -v figure="$figure" "$csv" >"$out/$figure.dat"
		gnuplot -e "figure='$figure'; dir='$out'" bench/plot.gp
	done
fi
echo "# numbers of every round: $csv; plots: $out"
exit "$failed"

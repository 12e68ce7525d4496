#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How fast `anynet explain` reads: a log of 16 ranks with NCCL_DEBUG=INFO, nearly all of it harmless, in
# memory (page cache), on one core. Prints MB/s by the clock and by processor time, medians of ROUNDS.
#
# Usage: bench/explain.sh BUILD_DIR [MEGABYTES [ROUNDS]]
set -euo pipefail
build=$(realpath "${1:?usage: bench/explain.sh BUILD_DIR [MEGABYTES [ROUNDS]]}")
megabytes=${2:-500} rounds=${3:-5}
log=$(mktemp) out=$(mktemp)
trap 'rm -f "$log" "$out"' EXIT

"$(dirname "$0")/explain_log.sh" "$megabytes" >"$log"
bytes=$(stat -c %s "$log")
cat "$log" >/dev/null
TIMEFORMAT='%R %U %S'
for ((i = 0; i < rounds; i++)); do
	{ time taskset -c 0 "$build/tools/anynet" explain "$log" >"$out" || [ $? -lt 3 ]; } 2>&1
done | awk -v bytes="$bytes" '
	{ wall[NR] = bytes / 1e6 / $1; cpu[NR] = bytes / 1e6 / ($2 + $3) }
	function median(list,    i, j, t) {
		for (i = 2; i <= NR; i++)
			for (j = i; j > 1 && list[j - 1] > list[j]; j--) {
				t = list[j]; list[j] = list[j - 1]; list[j - 1] = t
			}
		return list[int((NR + 1) / 2)]
	}
	END { printf "%.0f MB/s; %.0f MB for each second of processor time\n", median(wall), median(cpu) }'

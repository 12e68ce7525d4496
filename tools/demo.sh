#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Demonstrates the built plugin: a checked ring all-reduce of 4 ranks under NCCL_NET=IB. Compares it with NCCL's
# built-in Socket net if there is a libnccl.so.2, and runs real NCCL if there is a GPU.
# Usage: tools/demo.sh BUILD_DIR
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:?usage: tools/demo.sh BUILD_DIR}
tool=$build/tools/anynet
plugin=$build/libnccl-net.so
ranks=4
limit=45 # seconds for one run of one net
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# Shows a warning only once, because every run repeats it.
touch "$out/shown"
show_new() {
	grep -vxFf "$out/shown" "$out/stderr" >"$out/new" || return 0
	cat "$out/new"
	cat "$out/new" >>"$out/shown"
}

# perf NAME SPEC: appends the rows of one run to $out/NAME.csv
perf() {
	local name=$1 spec=$2
	shift 2
	timeout "$limit" "$tool" perf --net "$spec" -r "$ranks" -w 2 --csv "$@" \
		>"$out/rows" 2>"$out/stderr" || {
		local code=$?
		cat "$out/stderr"
		echo "demo: anynet perf over $spec ended with status $code"
		return "$code"
	}
	show_new
	if [ -s "$out/$name.csv" ]; then
		sed 1d "$out/rows" >>"$out/$name.csv"
	else
		cp "$out/rows" "$out/$name.csv"
	fi
}

# Runs both nets alternately, with small and with large sizes, so that the load of the machine affects both equally.
measure() {
	perf ours "$plugin" "$@"
	[ -z "$nccl" ] || perf builtin "$nccl" "$@"
}

echo "== What NCCL is offered under NCCL_NET=IB on this host"
export NCCL_NET=IB
"$tool" devices 2>&1

nccl=nccl:Socket
if ! why=$("$tool" perf --net "$nccl" -r 1 -b 8 -e 8 -n 1 2>&1 >/dev/null); then
	nccl=
fi

echo
echo "== Ring all-reduce of $ranks ranks, float, sum, every element checked"
measure -b 8 -e 64K -n 50
measure -b 128K -e 2M -n 20
measure -b 4M -e 64M -n 4

[ -n "$nccl" ] || {
	why=${why%%$'\n'*}
	echo "NCCL's own Socket net is not shown beside it: ${why#anynet perf: }"
	cp "$out/ours.csv" "$out/builtin.csv"
}
paste -d, "$out/ours.csv" "$out/builtin.csv" | awk -F, -v beside="$nccl" '
	function num(x) { return x >= 10000 ? sprintf("%.0f", x) : sprintf("%.1f", x) }
	NR == 1 {
		printf "%10s %10s | %10s %8s %7s", "size", "elements", "anynet", "busbw", "#wrong"
		if (beside) printf " | %10s %8s %7s | %6s", "NCCL", "busbw", "#wrong", "busbw"
		printf "\n%10s %10s | %10s %8s %7s", "(B)", "", "(us)", "(GB/s)", ""
		if (beside) printf " | %10s %8s %7s | %6s", "Socket(us)", "(GB/s)", "", "ratio"
		printf "\n"
		next
	}
	{
		printf "%10d %10d | %10s %8.3f %7d", $1, $2, num($5), $7, $8
		if (beside) printf " | %10s %8.3f %7d | %6.2f", num($13), $15, $16, $13 / $5
		printf "\n"
	}'

awk -F, -v ranks="$ranks" -v net="$("$tool" devices --json 2>/dev/null |
	awk -F'"' '$2 == "transport" && !d { t = $4 } $2 == "name" && !d { n = $4 }
		$2 == "candidates" { d = 1 } END { print t " on " n }')" -v beside="$nccl" '
	NR == FNR { if (FNR > 1) { ours[FNR] = $5; checked += ranks * $2; wrong += $8; rows++ }; next }
	FNR > 1 { log_sum += log($5 / ours[FNR]) }
	END {
		printf "\nShown: NCCL_NET=IB, net %s: %d sizes x %d ranks, ", net, rows, ranks
		printf "%d result elements checked, %d wrong", checked, wrong
		if (beside) printf "; NCCL Socket takes %.2f x as long (geometric mean)", exp(log_sum / rows)
		printf ".\n"
		exit wrong ? 2 : 0
	}' "$out/ours.csv" "$out/builtin.csv"

# Runs real NCCL if possible.
if nvidia-smi -L 2>/dev/null | grep '^GPU' >/dev/null; then
	echo
	bench/real/run.sh --short "$build" || [ $? = 77 ]
fi

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One comm between two network namespaces that are joined by several shaped links:
#   nics    two NICs of one rate: both must carry traffic
#   paths   four NICs, one of them shaped to a tenth: the other three must not wait for it
# Needs root. Usage: bench/netns.sh [--quick] [--csv FILE] BUILD_DIR
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=2 rounds=5 csv=/dev/null build=''
while [ $# -gt 0 ]; do
	case $1 in
	--quick) seconds=1 rounds=3 ;;
	--csv) csv=${2:?}; shift ;;
	-*) echo "usage: bench/netns.sh [--quick] [--csv FILE] BUILD_DIR" >&2; exit 1 ;;
	*) build=$1 ;;
	esac
	shift
done
: "${build:?usage: bench/netns.sh [--quick] [--csv FILE] BUILD_DIR}"
bench=$build/bench/net_bench
ours=$build/libnccl-net.so
a=anynet-$$-a b=anynet-$$-b
tmp=$(mktemp -d)
failed=0

cleanup() {
	ip netns del "$a" 2>/dev/null || true
	ip netns del "$b" 2>/dev/null || true
	rm -rf "$tmp"
}
trap cleanup EXIT

if [ "$(id -u)" != 0 ] || ! ip netns add "$a" || ! ip netns add "$b"; then
	echo "netns: cannot make network namespaces here: skipped"
	exit 0
fi

# join INDEX RATE: a link between the namespaces, called ethINDEX in both, shaped at both ends
join() {
	local i=$1 rate=$2 ns end
	ip link add "an$$a$i" type veth peer name "an$$b$i"
	end=1
	for ns in "$a:an$$a$i" "$b:an$$b$i"; do
		ip link set "${ns#*:}" netns "${ns%%:*}"
		ip -n "${ns%%:*}" link set "${ns#*:}" name "eth$i"
		ip -n "${ns%%:*}" addr add "10.77.$i.$end/24" dev "eth$i"
		ip -n "${ns%%:*}" link set "eth$i" up
		tc -n "${ns%%:*}" qdisc add dev "eth$i" root tbf rate "$rate" burst 256kb latency 20ms
		end=$((end + 1))
	done
}

unjoin() {
	for i in 0 1 2 3; do
		ip -n "$a" link del "eth$i" 2>/dev/null || true
	done
}

# measure FIGURE INTERFACES SPEC: median GB/s of one comm, one way
measure() {
	local figure=$1 ifname=$2 spec=$3
	rm -f "$tmp/csv"
	"$bench" bw --netns "$a,$b" --ifname "$ifname" --comms 1 --sizes 512K --ways 1 \
		--window $((seconds * 1000)) --rounds "$rounds" --net "$spec" --csv "$tmp/csv" \
		>"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; echo nan; return; }
	sed -n "s/^bw,1,/$figure,1,/p" "$tmp/csv" >>"$csv"
	awk -F, '$8 == "GB/s" { print $9 }' "$tmp/csv" | sort -g | awk '
		{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

# row FIGURE UNIT_RATE INTERFACES SPEC: prints a line; the rate is left in $rate
row() {
	rate=$(measure "$1" "$3" "$4")
	[ "$rate" != nan ] || failed=1
	printf '  %-40s %-6s %8.4f %8.2f\n' "${4/"$build/"/}" "$3" "$rate" \
		"$(awk -v r="$rate" -v u="$2" 'BEGIN { print r / u }')"
}

specs=("$ours" "ANYNET_TCP_CONNECTIONS=2 $ours" "ANYNET_TCP_STRIPE=off $ours")
if "$build/tools/anynet" perf --net nccl:Socket -r 1 -b 8 -e 8 -n 1 >/dev/null 2>&1; then
	specs+=(nccl:Socket)
fi

head() {
	printf '# %-41s %-6s %8s %8s\n' net NICs GB/s units
}

echo "#"
echo "# nics: two links of 1 Gb/s, one comm, 512 KiB one way; unit = ours on one of them"
head
join 0 1gbit
join 1 1gbit
rate=0
row nics 0.12 =eth0 "$ours"
unit=$rate
for spec in "${specs[@]}"; do
	row nics "$unit" eth "$spec"
done
unjoin

echo "#"
echo "# paths: three links of 500 Mb/s and one of 50; unit = three times ours on a full one"
head
join 0 500mbit
join 1 500mbit
join 2 500mbit
join 3 50mbit
row paths 0.18 =eth0 "$ours"
unit=$(awk -v r="$rate" 'BEGIN { print 3 * r }')
for spec in "${specs[@]}"; do
	row paths "$unit" eth "$spec"
done
unjoin
exit "$failed"

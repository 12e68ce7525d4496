#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One comm over a long way: 8 messages in flight, between two network namespaces joined by a link with a delay
# (delay_line.c). docs/decisions.md says what follows from it.
# FAR_RATE is that of the link in bytes a second (300000000), 0 = as fast as it goes.
# Needs root and /dev/net/tun. Usage: bench/far.sh BUILD_DIR [ROUND_TRIP_MS,...] [SIZE,...] [ROUNDS] [NET...]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:?usage: bench/far.sh BUILD_DIR [ROUND_TRIP_MS,...] [SIZE,...] [ROUNDS] [NET...]}
trips=${2:-1,10} sizes=${3:-128K} rounds=${4:-5}
nets=("${@:5}")
[ ${#nets[@]} -gt 0 ] || nets=("$build/libnccl-net.so" nccl:Socket)
a=anynet-$$-a b=anynet-$$-b line=''

cleanup() {
	[ -z "$line" ] || kill "$line" 2>/dev/null
	ip netns del "$a" 2>/dev/null
	ip netns del "$b" 2>/dev/null
}
trap cleanup EXIT
if [ "$(id -u)" != 0 ] || ! [ -c /dev/net/tun ] || ! ip netns add "$a" || ! ip netns add "$b"; then
	echo "far: cannot make network namespaces and tun interfaces here"
	exit 1
fi

# join MICROSECONDS: one way
join() {
	local ns end=1
	exec {said}< <(exec "$build/bench/delay_line" "$a" "$b" "$1" "${FAR_RATE:-300000000}")
	line=$!
	read -r -u "$said" _
	for ns in "$a" "$b"; do
		ip -n "$ns" addr add 10.77.0.$end/24 dev far0
		ip -n "$ns" link set far0 mtu 1500 up
		ip -n "$ns" link set far0 txqueuelen 10000 # it loses nothing
		end=$((end + 1))
	done
}

nets_args=()
for net in "${nets[@]}"; do
	nets_args+=(--net "$net")
done
for trip in ${trips//,/ }; do
	join "$(awk -v ms="$trip" 'BEGIN { print ms * 500 }')"
	echo "# round trip $trip ms"
	"$build/bench/net_bench" bw --netns "$a,$b" --ifname far --comms 1 --sizes "$sizes" --ways 1 --window 2000 \
		--rounds "$rounds" "${nets_args[@]}"
	kill "$line"
	wait "$line" 2>/dev/null || true
	line=''
done

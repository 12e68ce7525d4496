#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One comm over a long way: 8 messages in flight, between two network namespaces joined by a link with a delay: netem's on a
# veth pair where the kernel has it, as in the guest; else delay_line.c. docs/decisions.md says what follows from it.
# FAR_RATE is the link's in bytes a second (300000000), 0 = as fast as it goes.
# Needs root. Usage: bench/far.sh BUILD_DIR [ROUND_TRIP_MS,...] [SIZE,...] [ROUNDS] [NET...]
#
#   tests/guest/guest.sh --limit 1500 -- env FAR_RATE=50000000 bench/far.sh build/release 1,10,30,100
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
if [ "$(id -u)" != 0 ] || ! ip netns add "$a" || ! ip netns add "$b"; then
	echo "far: cannot make network namespaces here"
	exit 1
fi
rate=${FAR_RATE:-300000000}
for ns in "$a" "$b"; do # every connection learns the way by itself
	ip netns exec "$ns" sh -c 'echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save'
done

# by_netem MICROSECONDS: veth, which the second time is there
by_netem() {
	local ns
	ip link add far0 netns "$a" type veth peer name far0 netns "$b" 2>/dev/null || true
	for ns in "$a" "$b"; do
		# shellcheck disable=SC2046 # words
		tc -n "$ns" qdisc replace dev far0 root netem limit 100000 delay "$1us" \
			$([ "$rate" = 0 ] || echo rate "$((rate * 8))") 2>/dev/null || return
	done
}

by_delay_line() {
	[ -c /dev/net/tun ] || { echo "far: neither netem nor /dev/net/tun here"; exit 1; }
	ip -n "$a" link del far0 2>/dev/null || true
	exec {said}< <(exec "$build/bench/delay_line" "$a" "$b" "$1" "$rate")
	line=$!
	read -r -u "$said" _
}

# join MICROSECONDS: one way
join() {
	local ns end=1
	by_netem "$1" || by_delay_line "$1"
	for ns in "$a" "$b"; do
		ip -n "$ns" addr replace 10.77.0.$end/24 dev far0
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
	echo "# round trip $trip ms, by $([ -n "$line" ] && echo delay_line || echo netem)"
	"$build/bench/net_bench" bw --netns "$a,$b" --ifname far --comms 1 --sizes "$sizes" --ways 1 --window 2000 \
		--rounds "$rounds" "${nets_args[@]}"
	[ -n "$line" ] || continue
	kill "$line"
	wait "$line" 2>/dev/null || true
	line=''
done

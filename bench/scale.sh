#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What connections cost, by their number: two processes in two network namespaces, joined by a veth pair,
# set up so many comms at once. docs/scale.md has the figures and what follows from them.
# Needs root, and descriptors: ulimit -n.
# Usage: bench/scale.sh BUILD_DIR [COMMS,...] [ROUNDS [NICS [SETTING]]]
# NICS: veth pairs, in networks of their own (1). SETTING: NAME=VALUE for the plugin.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:?usage: bench/scale.sh BUILD_DIR [COMMS,...] [ROUNDS [NICS [SETTING]]]}
comms=${2:-1,500,1000,2000,4000,8000}
rounds=${3:-5}
nics=${4:-1}
a=anynet-$$-a b=anynet-$$-b

trap 'ip netns del "$a" 2>/dev/null; ip netns del "$b" 2>/dev/null' EXIT
if [ "$(id -u)" != 0 ] || ! ip netns add "$a" || ! ip netns add "$b"; then
	echo "scale: cannot make network namespaces here"
	exit 1
fi
for ((i = 0; i < nics; i++)); do
	ip -n "$a" link add eth$i type veth peer name eth$i netns "$b"
	ip -n "$a" addr add 10.77.$i.1/24 dev eth$i
	ip -n "$b" addr add 10.77.$i.2/24 dev eth$i
done
for ns in "$a" "$b"; do
	ip -n "$ns" link set lo up
	for ((i = 0; i < nics; i++)); do
		ip -n "$ns" link set eth$i up
	done
	# A burst of so many connections must not wait for a queue of the kernel's.
	ip netns exec "$ns" sysctl -qw net.core.somaxconn=4096
done
for ns in "$a" "$b"; do
	until [ "$(ip -n "$ns" -br link show type veth | grep -c ' UP ')" = "$nics" ]; do
		:
	done
done
ulimit -n "$(ulimit -Hn)"
"$build/bench/net_bench" connect --netns "$a,$b" --ifname eth --comms "$comms" --rounds "$rounds" \
	--net "${5:-} $build/libnccl-net.so"

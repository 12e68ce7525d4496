#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Instructions of ours in the calls that a small message takes, counted by callgrind: over TCP, and over
# queue pairs on the fake libibverbs, whose own are left out. `test` is per call, as most find nothing.
#
# Usage: bench/instructions.sh BUILD_DIR [BYTES]. Needs valgrind, and BUILD_TESTING=ON for the fake.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:?usage: bench/instructions.sh BUILD_DIR [BYTES]}")
bytes=${2:-8} messages=1000
out=$(mktemp)
trap 'rm -f "$out"' EXIT
export NCCL_SOCKET_IFNAME="=lo" ANYNET_IBVERBS_LIB=$build/tests/fakes/verbs/libibverbs.so.1
export FAKE_VERBS=$PWD/tests/conformance/ports.fake

echo "| $bytes bytes | isend | irecv | test |"
echo "|---|---|---|---|"
for transport in tcp ib; do
	tests=$(ANYNET_TRANSPORT=$transport valgrind --tool=callgrind --callgrind-out-file="$out" \
		--toggle-collect=measured "$build/bench/calls" "$build/libnccl-net.so" "$bytes" $messages \
		2>/dev/null | awk '{ print $1 }')
	callgrind_annotate --inclusive=yes --threshold=100 "$out" | tr -d , |
		awk -v name="$transport" -v messages=$messages -v tests="$tests" '
			match($0, /:[a-z_0-9]+ \[/) {
				n[substr($0, RSTART + 1, RLENGTH - 3)] += $1
			}
			END {
				printf "| %s | %.0f | %.0f | %.0f |\n", name,
					(n["abi_v12_isend"] - n["post_send"]) / messages,
					n["abi_v12_irecv"] / messages,
					(n["abi_v12_test"] - n["cq_poll"] - n["post_recv"]) / messages / tests
			}'
done

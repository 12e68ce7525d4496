#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs seeds of the plugin under virtual time for a minute, on all processors. Further options are passed to the
# simulator.
#
# IB: hosts have RDMA NICs. SEEDS: number of seeds instead. SEED: only this one, with a printed trace. FIRST: the first
# seed (default: random). HOURS: the duration. JOBS: number of processors.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=build/release
jobs=${JOBS:-$(nproc)}
cmake --preset release -DBUILD_TESTING=ON >/dev/null
cmake --build "$build" -j "$jobs" --target nccl-net --target simulate --target sim_ibverbs >/dev/null
options=(--jobs="$jobs" --first="${FIRST:-$((RANDOM << 15 | RANDOM))}")
if [ -n "${SEED:-}" ]; then
	options=(--seed="$SEED" --print)
elif [ -n "${SEEDS:-}" ]; then
	options+=(--seeds="$SEEDS" --table)
else
	options+=(--seconds="$(awk -v hours="${HOURS:-0}" 'BEGIN { print hours ? hours * 3600 : 60 }')" --table)
fi
[ -z "${IB:-}" ] || options+=(--ib)
"$build/tests/sim/simulate" "$build/libnccl-net.so" "$build/tests/sim/libsim_ibverbs.so" "${options[@]}" "$@"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The plugin under virtual time: seeds for a minute, on all processors. Further options go to the simulator.
#
# IB: hosts have RDMA NICs. SEEDS: so many seeds instead. SEED: this one only, with all that happens printed. FIRST: the
# seed to begin with (default: by chance). HOURS: for so long. JOBS: processors to use.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=build/release
jobs=${JOBS:-$(nproc)}
cmake --preset release -DBUILD_TESTING=ON >/dev/null
cmake --build "$build" -j "$jobs" --target nccl-net --target simulate --target sim_ibverbs -- --no-print-directory >/dev/null
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

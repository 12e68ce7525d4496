#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The chaos soak: verified messages while everything that can break does, at random, for an hour. Ends
# with what was sent, what was done to it, and what was lost (nothing, or the exit status says so).
#
# SECONDS_: how long (default 3600). SEED: the same seed brings the same faults in the same order.
# JOBS: processors to build with. Anything else on the command line goes to the soak, such as
# ANYNET_CHECKSUM=1 or print=1.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=build/release
seed=${SEED:-$((RANDOM << 15 | RANDOM))}
cmake --preset release -DBUILD_TESTING=ON >/dev/null
cmake --build "$build" -j "${JOBS:-$(nproc)}" --target nccl-net --target faults >/dev/null
log=$build/soak-$seed.log
echo "soak: ${SECONDS_:-3600} s, seed $seed, log in $log"
"$build/tests/faults/faults" soak net="$build/libnccl-net.so" seconds="${SECONDS_:-3600}" seed="$seed" \
	"$@" 2>&1 | tee "$log"

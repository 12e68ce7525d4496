#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything that is tested, as `make check` runs it: gcc and clang with warnings as errors, then one
# ctest over the release, AddressSanitizer + UndefinedBehaviorSanitizer, ThreadSanitizer and fuzz
# builds. Ends with the tests that were skipped, and why, and ctest's summary.
#
# FUZZ_SECONDS: time for each fuzzer (default 30). JOBS: processors to use. ANYNET_GUEST=0: without the
# tests that need an emulated machine.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=${JOBS:-$(nproc)}
fuzz_seconds=${FUZZ_SECONDS:-30}
log=build/check/configure.log
builds=(release asan-ubsan tsan fuzz)

configure() {
	cmake --preset "$1" "${@:2}" >"$log" 2>&1 || {
		cat "$log"
		exit 1
	}
}

# Newer kernels place mappings where gcc 12's ThreadSanitizer does not expect them.
fixed_addresses() {
	bits=$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 28)
	if [ "$bits" -gt 28 ] && setarch -R true 2>/dev/null; then
		echo "setarch -R"
	fi
}

run_tests() {
	for build in "${builds[@]}"; do
		echo "subdirs(\"$PWD/build/$build\")"
	done >build/check/CTestTestfile.cmake
	# shellcheck disable=SC2046
	$(fixed_addresses) ctest --test-dir build/check --output-on-failure -j "$jobs" 2>&1 |
		awk -v log_file=build/check/Testing/Temporary/LastTest.log -f tests/skips.awk
}

# What the emulated machine needs. Where that cannot be had its tests are skipped, and say why.
prepare_guest() {
	[ "${ANYNET_GUEST:-}" != 0 ] || return 0
	if ! tools/deps.sh guest || ! tests/guest/prepare.sh >/dev/null; then
		echo "check: without the tests in an emulated machine"
	fi
}

prepare_guest
mkdir -p build/check
# By itself: where `make` has taken cc, another compiler's name makes cmake forget what comes with it.
configure release -DCMAKE_C_COMPILER=gcc
configure release -DBUILD_TESTING=ON -DANYNET_WERROR=ON
configure asan-ubsan -DCMAKE_C_COMPILER=gcc
configure tsan -DCMAKE_C_COMPILER=gcc
configure clang
configure fuzz -DANYNET_FUZZ_SECONDS="$fuzz_seconds"
for build in "${builds[@]}" clang; do
	echo "check: building $build"
	cmake --build "build/$build" -j "$jobs" -- --no-print-directory >"build/check/$build.log" 2>&1 || {
		grep -vE '^\[ *[0-9]+%\]' "build/check/$build.log"
		exit 1
	}
done
run_tests

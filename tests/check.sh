#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs one part of the tests. Prints the tests that were skipped, and why, and ctest's summary. A skip
# that tests/skips.txt does not allow is a failure.
#
# Usage: tests/check.sh PART
#
#   quick      the tests with the label `quick`, in a release and an ASan+UBSan build: `make check`
#   rest       the other tests of these two builds, but for those of the parts `kinds`, `guest` and `nccl`
#   kinds      the fault suite in other kinds of processes (tests/faults/kind.h)
#   tsan       the tests under ThreadSanitizer
#   fuzz       every fuzzer, for FUZZ_SECONDS each (default 30)
#   clang      everything built with clang, warnings are errors, and the unit tests
#   aarch64    cross build for 64-bit ARM; unit, ABI, simulator and conformance tests over TCP under qemu-user
#   lint       clang-tidy over the product (.clang-tidy)
#   coverage   lines and branches of the product that the unit, ABI and quick conformance tests reach
#   guest      what needs a kernel of its own, in an emulated machine
#   nccl       the real NCCL on GPUs in software
#   mutations  planted faults, each of which has to turn a test red
#
# JOBS: processors to use (default all).
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# = 1 ] || { sed -n '/^# Usage/,/^[^#]/s/^# \?//p' "$0" >&2; exit 2; }
part=$1
jobs=${JOBS:-$(nproc)}
dir=build/check/$part
mkdir -p "$dir"

configure() {
	cmake --preset "$1" "${@:2}" >"$dir/configure.log" 2>&1 || {
		cat "$dir/configure.log"
		return 1
	}
}

configure_as() {
	case $1 in
	release | asan-ubsan | tsan)
		# In a step of its own: after somebody has configured with cc, another compiler's name makes cmake
		# discard the cache.
		configure "$1" -DCMAKE_C_COMPILER=gcc
		configure "$1" -DBUILD_TESTING=ON -DANYNET_WERROR=ON
		;;
	clang | coverage | aarch64) configure "$1" ;;
	fuzz) configure fuzz -DANYNET_FUZZ_SECONDS="${FUZZ_SECONDS:-30}" ;;
	esac
}

build() {
	local log=$dir/build.log
	echo "check: building $1"
	configure_as "$1"
	cmake --build "build/$1" -j "$jobs" --target all $([ "$part" = quick ] || echo slow_tests) >"$log" 2>&1 || {
		grep -vE '^\[[0-9]+/[0-9]+\]' "$log"
		return 1
	}
}

# Newer kernels place mappings where gcc 12's ThreadSanitizer does not expect them.
fixed_addresses() {
	local bits
	bits=$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 28)
	if [ "$bits" -gt 28 ] && setarch -R true 2>/dev/null; then
		echo "setarch -R"
	fi
}

# run "BUILD..." OPTION...: builds them, and runs one ctest over all.
run() {
	local build
	for build in $1; do
		build "$build"
	done
	for build in $1; do
		echo "subdirs(\"$PWD/build/$build\")"
	done >"$dir/CTestTestfile.cmake"
	# shellcheck disable=SC2046
	$(fixed_addresses) ctest --test-dir "$dir" --output-on-failure -j "$jobs" "${@:2}" 2>&1 |
		awk -v log_file="$dir/Testing/Temporary/LastTest.log" -v list=tests/skips.txt \
			-v user="$(id -u)" -f tests/skips.awk
}

# Downloads for a part. Without them its tests are skipped, with the reason.
prepare() {
	if ! { tools/deps.sh "$part" && "tests/$part/prepare.sh"; } >"$dir/prepare.log" 2>&1; then
		tail -n 3 "$dir/prepare.log"
	fi
}

kinds='^faults\..*-(worker|stdio|setenv)$'
case $part in
# More tests than processors: many mostly wait.
quick) run "release asan-ubsan" -L '^quick$' -j $((2 * jobs)) ;;
rest) run "release asan-ubsan" -LE '^quick$' -E "^(asan\.)?(guest|nccl)\.|$kinds" ;;
kinds) run release -R "$kinds" ;;
tsan) run tsan ;;
fuzz) run fuzz ;;
clang) run clang -R '^test_' ;;
lint)
	tools/deps.sh lint
	configure clang
	run-clang-tidy -quiet -j "$jobs" -p build/clang "$PWD/(plugin|transports|tools|bench)/" >"$dir/lint.log" 2>&1 || {
		grep -E '(warning|error):' "$dir/lint.log" | sort -u
		exit 1
	}
	;;
coverage)
	# Without optimisation 1 GiB takes minutes, and reaches no other lines. The figures include tests that failed.
	status=0
	run coverage -E '\.large$' \
		-R '^(test_.*|fuzz_.*|conformance\.(tcp|ib)\.v12\.([a-z]+|(gpu|memory|transfer)-cuda))$' || status=$?
	tests/coverage.sh build/coverage
	exit "$status"
	;;
aarch64)
	# qemu-user returns other errors for a write to an eventfd (test_fd), and for other calls (sim.selfcheck).
	prepare
	if [ ! -e build/aarch64-root/complete ] || ! command -v aarch64-linux-gnu-gcc >/dev/null; then
		echo "check: aarch64 is left out: its packages cannot be had (packages.txt, [aarch64])"
		exit 0
	fi
	tcp='close|connect|grouped|lifecycle|many|memory|properties|replay|unauthenticated|threads|transfer'
	run aarch64 -R "^(test_.*|fuzz_.*|artefact|model\..*|sim\.(seeds|same|swarm)|aarch64\..*|conformance\.tcp\.v12\.($tcp))$" -E '^test_fd$'
	;;
guest)
	prepare
	run release -R '^guest\.'
	;;
nccl)
	tools/deps.sh nccl-tests >"$dir/deps.log" 2>&1 || tail -n 1 "$dir/deps.log"
	prepare
	run "release asan-ubsan" -R '^(asan\.)?nccl\.'
	;;
mutations) tests/mutations.sh ;;
*)
	echo "check: there is no part '$part'" >&2
	exit 2
	;;
esac

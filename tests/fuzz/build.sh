#!/bin/bash -eu
# SPDX-License-Identifier: Apache-2.0
#
# Build the fuzzers in the layout of OSS-Fuzz: $OUT/NAME, $OUT/NAME_seed_corpus.zip, $OUT/NAME.dict; the
# libraries they need, other than those of the system, in $OUT/lib. $CC, $CFLAGS, $CXXFLAGS,
# $LIB_FUZZING_ENGINE, $WORK and $OUT come from there; without them:
#
#	OUT=/tmp/out tests/fuzz/build.sh
#
# is clang's libFuzzer with AddressSanitizer. Needs cmake, zip and the packages of `tools/deps.sh build check`.

source=$(cd "$(dirname "$0")/../.." && pwd)
: "${CC:=clang}" "${CXXFLAGS:=}" "${LIB_FUZZING_ENGINE:=-fsanitize=fuzzer}"
: "${CFLAGS:=-O1 -g -fno-omit-frame-pointer -fsanitize=address,fuzzer-no-link}"
: "${WORK:=$(mktemp -d)}"
build=$WORK/anynet

# An engine that is a library is C++.
if [ -e "$LIB_FUZZING_ENGINE" ]; then
	case $CXXFLAGS in
	*libc++*) LIB_FUZZING_ENGINE+=" -lc++ -lm" ;;
	*) LIB_FUZZING_ENGINE+=" -lstdc++ -lm" ;;
	esac
fi
export LIB_FUZZING_ENGINE

# Only the given flags, and no unused libraries.
cmake -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=None -DCMAKE_C_COMPILER="$CC" \
	-DCMAKE_C_FLAGS="$CFLAGS" -DANYNET_FUZZ=ON -DBUILD_TESTING=ON \
	-DCMAKE_EXE_LINKER_FLAGS='-Wl,--as-needed -Wl,-rpath,$ORIGIN/lib'
cmake --build "$build" -j "$(nproc)"

mkdir -p "$OUT/lib"
for fuzzer in "$build"/tests/fuzz/fuzz_*; do
	[ -f "$fuzzer" ] && [ -x "$fuzzer" ] || continue
	name=$(basename "$fuzzer")
	here=$source/tests/fuzz
	cp "$fuzzer" "$OUT/"
	rm -f "$OUT/${name}_seed_corpus.zip"
	zip -jqr "$OUT/${name}_seed_corpus.zip" "$here/corpus/${name#fuzz_}"
	if [ -e "$here/${name#fuzz_}.dict" ]; then
		cp "$here/${name#fuzz_}.dict" "$OUT/$name.dict"
	fi
	ldd "$fuzzer" | awk '/jansson|pcre2|cmocka/ { print $3 }' | xargs -r cp -t "$OUT/lib"
done

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The same source gives the same bytes in any directory. Compares with the build in BUILD_DIR:
# the plugin; with ANYNET_REPRODUCE=1, which takes a minute, all packages.
# Usage: reproducible.sh BUILD_DIR SOURCE_DIR CMAKE CPACK COMPILER BUILD_TYPE GLIBC STATIC. Exit 77 = skipped.
set -euo pipefail
build=${1:?} source=${2:?} cmake=${3:?} cpack=${4:?} compiler=${5:?} type=${6:?} glibc=${7?} static=${8:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "FAIL: $*"
	exit 1
}

quietly() {
	"$@" >"$work/log" 2>&1 || {
		cat "$work/log"
		fail "$*"
	}
}

# pack DIR BUILD: packages of that build, with one time for all files
pack() {
	for kind in DEB $(! command -v rpmbuild >/dev/null || echo RPM); do
		(cd "$2" && quietly "$cpack" -G "$kind" -B "$1" -D CPACK_CMAKE_GENERATOR=Ninja)
	done
	quietly "$source/packaging/dist.sh" "$cmake" "$2" "$1" "$version" "$glibc" "$SOURCE_DATE_EPOCH"
}

version=$(sed -n "s/^CMAKE_PROJECT_VERSION:STATIC=//p" "$build/CMakeCache.txt")
targets=(nccl-net-packaged)
[ "${ANYNET_REPRODUCE:-}" != 1 ] || targets+=(nccl-net anynet)
export SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(sed -n 's/.*SOURCE_DATE_EPOCH} \([0-9]*\).*/\1/p' "$build/packaging/project.cmake")
umask 077 # which is nobody else's business, either
mkdir "$work/another name"
# Everything that goes into packages: no tests, and no unrelated files.
tar -c -C "$source" CMakeLists.txt CMakePresets.json CHANGELOG.md CONTRIBUTING.md LICENSE README.md SECURITY.md \
	packages.txt bench docs include packaging plugin tools transports | tar -x -C "$work/another name"
generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build/CMakeCache.txt")
quietly "$cmake" -G "$generator" -S "$work/another name" -B "$work/elsewhere" -DBUILD_TESTING=OFF \
	-DANYNET_GLIBC="$glibc" -DANYNET_STATIC="$static" -DCMAKE_BUILD_TYPE="$type" -DCMAKE_C_COMPILER="$compiler"
for target in "${targets[@]}"; do
	quietly "$cmake" --build "$work/elsewhere" -j 2 --target "$target"
done
cmp "$build/plugin/packaged/libnccl-net.so" "$work/elsewhere/plugin/packaged/libnccl-net.so" ||
	fail "the plugin differs from the one built in another directory"
if [ "${ANYNET_REPRODUCE:-}" = 1 ]; then
	pack "$work/first" "$build"
	pack "$work/second" "$work/elsewhere"
	(cd "$work/first" && sha256sum ./*.deb ./*.rpm ./*.tar.gz ./*.whl 2>/dev/null) >"$work/sums"
	cat "$work/sums"
	(cd "$work/second" && sha256sum -c "$work/sums") || fail "packages differ"
fi
echo "reproducible: as it should be"

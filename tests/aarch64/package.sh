#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Packages of the cross build are for ARM: the .deb, the tarball, the wheel.
# Usage: package.sh BUILD_DIR SOURCE_DIR CMAKE CPACK VERSION GLIBC
set -euo pipefail
export LC_ALL=C
build=${1:?} source=${2:?} cmake=${3:?} cpack=${4:?} version=${5:?} glibc=${6?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "FAIL: $*"
	exit 1
}

# is_arm FILE
is_arm() {
	readelf -h "$1" | grep -q 'Machine: *AArch64' || fail "$1 is not for ARM"
}

(cd "$build" && "$cpack" -G DEB -B "$work/deb" -D CPACK_CMAKE_GENERATOR=Ninja) >"$work/log" 2>&1 || {
	cat "$work/log"
	fail "cpack -G DEB"
}
for package in anynet-nccl-net anynet-tools; do
	deb=$work/deb/${package}_${version}_arm64.deb
	[ "$(dpkg-deb -f "$deb" Architecture)" = arm64 ] || fail "$deb is for another processor"
	[ "$(dpkg-deb -f "$deb" Depends)" = "libc6 (>= $glibc)" ] || fail "$deb: $(dpkg-deb -f "$deb" Depends)"
	dpkg-deb -x "$deb" "$work/root"
done
is_arm "$work/root/usr/lib/anynet/libnccl-net.so"
is_arm "$work/root/usr/bin/anynet"
[ -e "$work/root/usr/lib/aarch64-linux-gnu/libnccl-net-anynet.so" ] || fail "the alias is not in the loader's directory"
"$source/packaging/dist.sh" "$cmake" "$build" "$work/dist" "$version" "$glibc" 1700000000 >"$work/log"
[ -s "$work/dist/anynet-$version-linux-aarch64.tar.gz" ] || fail "no tarball"
[ -s "$work/dist/anynet-$version-py3-none-manylinux_${glibc/./_}_aarch64.whl" ] || fail "no wheel"
echo "aarch64: as it should be"

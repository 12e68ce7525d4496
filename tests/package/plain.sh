#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a packager types, with no more than the [build] packages: cmake, and cmake --build. Of the libraries that
# pkg-config knows here only those of [build] are seen.
# Usage: plain.sh SOURCE_DIR CMAKE
set -euo pipefail
source=${1:?} cmake=${2:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/pc"
for library in jansson libpcre2-8; do
	ln -s "$(pkg-config --variable=pcfiledir $library)/$library.pc" "$work/pc"
done
export PKG_CONFIG_LIBDIR=$work/pc
"$cmake" -S "$source" -B "$work/build"
"$cmake" --build "$work/build" -j 2 -- --no-print-directory
"$work/build/tools/anynet" --version
[ -s "$work/build/libnccl-net.so" ] || { echo "FAIL: no libnccl-net.so"; exit 1; }
echo "plain: as it should be"

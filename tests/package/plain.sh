#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The commands of a packager, with the [build] packages only: cmake, cmake --build, cmake --install. pkg-config sees
# only
# the libraries of [build]; without the tool none is needed. A program is compiled against the installed files, found by
# pkg-config and by CMake.
# Usage: plain.sh SOURCE_DIR CMAKE
set -euo pipefail
source=${1:?} cmake=${2:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

fail() {
	echo "FAIL: $*"
	exit 1
}

mkdir "$work/pc" "$work/none"
for library in jansson libpcre2-8; do
	ln -s "$(pkg-config --variable=pcfiledir $library)/$library.pc" "$work/pc"
done
export PKG_CONFIG_LIBDIR=$work/pc
"$cmake" -S "$source" -B "$work/build"
"$cmake" --build "$work/build" -j 2 -- --no-print-directory
"$cmake" --install "$work/build" --prefix "$prefix" >"$work/log"
"$prefix/bin/anynet" --version
compgen -G "$prefix/lib*/libnccl-net.so" || compgen -G "$prefix/lib/*/libnccl-net.so" || fail "no libnccl-net.so"

# The plugin alone.
export PKG_CONFIG_LIBDIR=$work/none
"$cmake" -S "$source" -B "$work/alone" -DANYNET_TOOLS=OFF
"$cmake" --build "$work/alone" -j 2 -- --no-print-directory
"$cmake" --install "$work/alone" --prefix "$work/alone-prefix" >"$work/log"
cmp "$work/build/libnccl-net.so" "$work/alone/libnccl-net.so" || fail "without the tool it is another plugin"
[ ! -e "$work/alone-prefix/bin" ] || fail "installed without the tool: $(ls "$work/alone-prefix/bin")"

# A program that needs the headers, in a prefix that has been moved.
mv "$prefix" "$work/moved"
mkdir "$work/program"
cat >"$work/program/program.c" <<'END'
#include <nccl_net/abi/net_v12.h>
#include <nccl_net/wire.h>

int main(void)
{
	return sizeof(struct anynet_wire_handle) == 128 && sizeof(struct anynet_net_v12) ? 0 : 1;
}
END
cat >"$work/program/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.21)
project(program LANGUAGES C)
find_package(anynet 0.1 REQUIRED)
add_executable(program program.c)
target_link_libraries(program PRIVATE anynet::headers)
END
export PKG_CONFIG_LIBDIR=$work/moved/share/pkgconfig
# shellcheck disable=SC2046
cc $(pkg-config --cflags anynet) "$work/program/program.c" -o "$work/program/by-pkg-config"
"$work/program/by-pkg-config" || fail "the program by pkg-config"
"$cmake" -S "$work/program" -B "$work/program/build" -DCMAKE_PREFIX_PATH="$work/moved"
"$cmake" --build "$work/program/build"
"$work/program/build/program" || fail "the program by CMake"
echo "plain: as it should be"

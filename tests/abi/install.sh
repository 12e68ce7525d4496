#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Where `make install` puts files, and that a library in use is replaced by rename: a job that maps the old file must
# not see half of the new one (net-api.md §6 trap 25).
# Usage: install.sh CMAKE BUILD_DIR LIBDIR
set -euo pipefail
cmake=$1 build=$2 libdir=$3
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT

fail() {
	echo "FAIL: $*"
	exit 1
}

put() {
	"$cmake" --install "$build" --prefix "$prefix" >"$prefix.log" 2>&1 || {
		cat "$prefix.log"
		fail "cmake --install"
	}
	rm -f "$prefix.log"
}

put
lib=$prefix/$libdir
for file in "$lib/libnccl-net.so" "$lib/libnccl-net-anynet.so" "$prefix/bin/anynet" \
	"$prefix/include/nccl_net/comm.h" "$prefix/include/nccl_net/abi/net_v8.h" \
	"$prefix/share/man/man1/anynet.1"; do
	[ -s "$file" ] || fail "$file is missing"
done
[ "$(readlink "$lib/libnccl-net-anynet.so")" = libnccl-net.so ] || fail "the alias is no link"
cmp "$build/libnccl-net.so" "$lib/libnccl-net.so"

exec 3<"$lib/libnccl-net.so" # in use
put
[ "$lib/libnccl-net.so" -ef /proc/self/fd/3 ] && fail "the library in use was written over"
cmp - "$build/libnccl-net.so" <&3
[ "$(find "$lib" | wc -l)" = 3 ] || fail "more was left than the library: $(find "$lib")"
echo "install: as it should be"

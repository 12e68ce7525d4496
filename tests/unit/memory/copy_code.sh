#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The compiled code of copy.h: on aarch64 with a barrier between stores, on x86-64 with none. Usage: copy_code.sh
# SOURCE_DIR
set -u
cd "${1:?}" || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
command -v clang >/dev/null || { echo "SKIP: no clang"; exit 77; }
cat >"$tmp/copy.c" <<'EOF'
#include "transports/memory/copy.h"
void copy(uint8_t *to, const uint8_t *from, size_t bytes);
void copy(uint8_t *to, const uint8_t *from, size_t bytes)
{
	copy_ascending(to, from, bytes);
}
EOF

code() { # ARCHITECTURE
	clang --target="$1-linux-gnu" -std=c11 -O2 -ffreestanding -I. -S -o "$tmp/$1.s" "$tmp/copy.c" 2>"$tmp/err" ||
		{ cat "$tmp/err"; if grep -q 'No available targets\|unknown target' "$tmp/err"; then
			echo "SKIP: this clang has no $1"; exit 77; fi; exit 1; }
}

bad=0
code aarch64
grep -q 'dmb[[:space:]]*oshst' "$tmp/aarch64.s" || { echo "aarch64: no store barrier"; bad=1; }
code x86_64
if grep -E '\b([sml]fence|lock)\b|xchg' "$tmp/x86_64.s"; then
	echo "x86_64: a barrier that costs"
	bad=1
fi
exit "$bad"

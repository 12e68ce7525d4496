#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the software GPU's libcudart.so.13 and libnvidia-ml.so.1, against CUDA's own headers.
# With "check" also its test, which is run. CC and CFLAGS are honoured (CFLAGS=-fsanitize=thread).
# Usage: runtime.sh CUDA_INCLUDE_DIR OUT_DIR [check]
set -euo pipefail
include=${1:?} out=${2:?} check=${3:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
read -ra flags <<<"${CFLAGS:-}"
compile=("${CC:-gcc}" -std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Wshadow -Wstrict-prototypes "${flags[@]}"
	-isystem "$include" -pthread)
library=("${compile[@]}" -shared -fPIC "-Wl,-z,nodelete")
[[ ${flags[*]} == *-fsanitize=* ]] || library+=("-Wl,--no-undefined") # the program brings a sanitizer's functions

mkdir -p "$out"
cd "$here"
"${library[@]}" -Wl,-soname,libcudart.so.13 -Wl,--version-script=cudart.map -o "$out/libcudart.so.13" \
	copy.c device.c entry.c error.c event.c launch.c memory.c refused.c stream.c
ln -sf libcudart.so.13 "$out/libcudart.so"
"${library[@]}" -Wl,-soname,libnvidia-ml.so.1 -Wl,--version-script=nvml.map -o "$out/libnvidia-ml.so.1" nvml.c
ln -sf libnvidia-ml.so.1 "$out/libnvidia-ml.so"

[ "$check" = check ] || exit 0
"${compile[@]}" -I.. -o "$out/runtime_check" runtime_check.c ../support/check.c -L"$out" -lcudart -ldl
LD_LIBRARY_PATH=$out${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$out/runtime_check"

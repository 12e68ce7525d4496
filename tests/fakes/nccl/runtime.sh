#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the software GPU's libcudart.so.13, libcuda.so.1 and libnvidia-ml.so.1, against CUDA's own headers.
# With "check" also its test, which is run. CC and CFLAGS are honoured (CFLAGS=-fsanitize=thread).
# Usage: runtime.sh CUDA_INCLUDE_DIR OUT_DIR [check]
set -euo pipefail
include=${1:?} out=${2:?} check=${3:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
read -ra flags <<<"${CFLAGS:-}"
compile=("${CC:-gcc}" -std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Wshadow -Wstrict-prototypes -Werror "${flags[@]}"
	-isystem "$include" -pthread)
library=("${compile[@]}" -shared -fPIC "-Wl,-z,nodelete")
[[ ${flags[*]} == *-fsanitize=* ]] || library+=("-Wl,--no-undefined") # the program brings a sanitizer's functions

# With any number of arguments (refused.c).
refused=()
for name in IpcGetMemHandle IpcOpenMemHandle IpcCloseMemHandle StreamUpdateCaptureDependencies StreamBeginCapture \
	StreamEndCapture GraphAddDependencies GraphAddEventRecordNode GraphRetainUserObject GraphInstantiate GraphLaunch \
	GraphExecDestroy GraphDestroy UserObjectCreate; do
	refused+=("-Wl,--defsym=cuda$name=cuda_refuse")
done

mkdir -p "$out"
cd "$here"
"${library[@]}" -Wl,-soname,libcudart.so.13 -Wl,--version-script=cudart.map "${refused[@]}" -o "$out/libcudart.so.13" \
	context.c copy.c device.c driver.c entry.c error.c event.c launch.c memory.c refused.c stream.c
ln -sf libcudart.so.13 "$out/libcudart.so"
# A name for the driver, which shares its state with the runtime: dlsym(3) searches a library's dependencies.
"${library[@]}" -Wl,-soname,libcuda.so.1 -Wl,--no-as-needed "-Wl,-rpath,\$ORIGIN" -o "$out/libcuda.so.1" \
	-x c /dev/null -x none "$out/libcudart.so.13"
"${library[@]}" -Wl,-soname,libnvidia-ml.so.1 -Wl,--version-script=nvml.map -o "$out/libnvidia-ml.so.1" nvml.c
ln -sf libnvidia-ml.so.1 "$out/libnvidia-ml.so"

[ "$check" = check ] || exit 0
"${compile[@]}" -I../.. -o "$out/runtime_check" \
	selfcheck/*.c ../selfcheck.c ../../support/check.c ../../support/peer.c -L"$out" -lcudart -ldl
LD_LIBRARY_PATH=$out${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$out/runtime_check"

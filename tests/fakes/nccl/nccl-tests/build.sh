#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds six programs of NVIDIA's nccl-tests for the software GPU: its kernels, which fill buffers and check results,
# as code for the CPU (on_host.hh), with MPI. The source tree is only read.
# Usage: build.sh SOURCE_DIR LIBRARIES OUT_DIR    (LIBRARIES: what tests/nccl/prepare.sh prints)
# Needs mpicxx (packages.txt, [nccl-tests]). CUDA_HOME: where the headers of CUDA 13 are (default /usr/local/cuda).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "${1:?}" && pwd) libs=$(cd "${2:?}" && pwd) out=${3:?}
programs=(all_reduce all_gather reduce_scatter broadcast alltoall sendrecv)

mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -rf "$out/source" "$out"/*.o
mkdir "$out/source"
cp -r "$source/src" "$source/verifiable" "$source/os" "$out/source/"
cd "$out/source"
# A kernel's address, an addition on the GPU, and an unused launch: only CUDA's compiler has them.
sed -i -E 's/\(void const\*\)&([^;]*);/softgpu_kernel<\&\1>();/; /<<</d
	s/^( *)asm volatile\("red\.global\.add\.u64 .*"l"\(([a-z_]*)\), "l"\(([a-z_]*)\).*/\1*\2 += \3;/' verifiable/verifiable.cu
if grep -nE '^[^/]*(asm volatile|<<<)|\(void const\*\)&' verifiable/verifiable.cu; then
	echo "nccl-tests: this version's verifiable.cu is not known here" >&2
	exit 1
fi

compile=(mpicxx -std=c++17 -O1 -w -DMPI_SUPPORT -DNCCL_OS_LINUX -Isrc -Ios -include "$here/on_host.hh"
	-isystem "$libs/../build/include" -isystem "${CUDA_HOME:-/usr/local/cuda}/include" -x c++ -c)
shared=(verifiable/verifiable.cu src/common.cu src/util.cu src/timer.cc os/linux.cc)
objects=()
for file in "${shared[@]}" "${programs[@]/%/.cu}"; do
	[ -e "$file" ] || file=src/$file
	echo "$file"
done | xargs -P "${JOBS:-$(nproc)}" -I '{}' sh -c 'object=$1/$(basename "$2").o; shift 2; "$@" -o "$object"' \
	- "$out" '{}' "${compile[@]}" '{}'
for file in "${shared[@]}"; do
	objects+=("$out/$(basename "$file").o")
done
for program in "${programs[@]}"; do
	mpicxx -o "$out/${program}_perf" "$out/$program.cu.o" "${objects[@]}" -L"$libs" "-Wl,-rpath,$libs" -l:libnccl.so.2 \
		-l:libcudart.so.13 -pthread
done

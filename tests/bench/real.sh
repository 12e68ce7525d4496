#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench/real over the fake NCCL: real.sh CASE BUILD_DIR. Loopback only; exit 77 = skipped.
set -uo pipefail
# shellcheck source=tests/said.sh
. "$(dirname "$0")/../said.sh"

case=${1:?} build=${2:?}
source=$(cd "$(dirname "$0")/../.." && pwd)
fake=$build/tests/fakes/bench/libfake_gpu.so
plugin=$build/libnccl-net.so
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export NCCL_SOCKET_IFNAME=lo ANYNET_TRANSPORT=tcp FAKE_NCCL_BUILTIN=$plugin
unset NCCL_NET NCCL_DEBUG ANYNET_PORT_RANGE

bench() {
	"$build/bench/real/real_bench" --nccl "$fake" --cudart "$fake" --logs "$out" --limit 30 \
		-w 1 -n 2 "$@"
}

sizes=all_reduce,all_gather,reduce_scatter,broadcast,alltoall,sendrecv
case $case in
measure)
	for ranks in 1 2 3; do
		expect 0 "all results are right" bench -N "NCCL_NET=IB $plugin" -r $ranks -e 1M -f 64 -t $sizes
	done
	said '^# NET/IB carried all 12 channel ends of 3 ranks; net API v11 of '
	expect 0 "all results are right" bench -N "$plugin" -N builtin --rounds 3 -e 64K -f 128 \
		-t all_reduce --csv "$out/csv"
	said '^# NET/Socket carried all 4 channel ends of 2 ranks'
	said '^ +all_reduce +1024 \| .* time +[0-9.]+ busbw +[0-9.]+$'
	# A size for which one net has no memory.
	expect 0 "all results are right" bench -N "$plugin" -N "FAKE_CUDA_FREE=40000000 $plugin" -b 8M -e 16M -f 2 -n 1 -t broadcast
	said '^ +broadcast +8388608 \| .* time +[0-9.]+ busbw +[0-9.]+$'
	said '^ +broadcast +16777216 \| +[0-9.]+ +[0-9.]+ \| +- +-$'
	# 2 nets, 3 rounds, 2 sizes, 2 metrics
	[ "$(grep -c '^all_reduce,[12],' "$out/csv")" = 24 ] || fail "$(cat "$out/csv")"
	;;
eight)
	expect 0 "all results are right" bench -N "$plugin" -r 8 -e 64K -f 64 -t "$sizes,groups,splits"
	;;
scenes)
	expect 0 "all results are right" bench -N "$plugin" -r 3 -e 16M -t groups,splits,comms,registered,reinit,abort
	for scene in groups splits comms registered reinit abort; do
		said "^# $scene +[^S]"
	done
	expect 0 "all results are right" bench -N "$plugin" -r 1 -e 16M -t groups,splits,comms,registered,reinit,abort,killed
	said '^# killed +SKIP'
	;;
killed)
	expect 0 "all results are right" bench -N "$plugin" -r 3 -t killed
	said '^# killed +[12] of the 2 others had an error of their own'
	not_said 'killed: the error'
	FAKE_NCCL_DEAF=1 expect 0 "1 of the 2 others had an error" bench -N "$plugin" -r 3 -t killed
	;;
cut)
	expect 0 "all results are right" bench -N "$plugin" -r 2 -b 4K -e 1M -n 60 -t all_reduce,alltoall \
		--cut 5
	said '^# [1-9][0-9]* connections of the plugin were shut meanwhile'
	# Without recovery the first fault ends it.
	expect 1 "NCCL has an asynchronous error: remote process exited" bench \
		-N "ANYNET_RECOVERY_TIMEOUT=0 $plugin" -b 1M -e 1M -n 1000 -t all_reduce --cut 5
	expect 1 "--cut needs ANYNET_PORT_RANGE" bench -N "ANYNET_PORT_RANGE=auto $plugin" -e 64 --cut 5
	;;
wrong)
	# The warm-up and the two timed ones come before the checked one.
	FAKE_NCCL_WRONG=4 expect 2 "WRONG RESULTS" bench -N "$plugin" -e 64 -b 64 -t all_reduce
	said ' 1$'
	FAKE_NCCL_WRONG=1 expect 2 "groups: 1 elements are wrong" bench -N "$plugin" -t groups
	# After a message of one byte, and in a larger one.
	for message in 1 4; do
		FAKE_NCCL_WRONG=$message expect 2 "registered: 1 elements are wrong" bench -N "$plugin" -t registered
	done
	;;
proof)
	few=(-e 64 -b 64 -t all_reduce)
	FAKE_NCCL_VIA="SHM/direct" expect 1 "a channel goes over SHM/direct" bench -N "$plugin" "${few[@]}"
	FAKE_NCCL_VIA="NET/Socket/0" expect 1 "a channel goes over NET/Socket/0" bench -N "$plugin" "${few[@]}"
	FAKE_NCCL_QUIET=1 expect 1 "no channel goes over the plugin" bench -N "$plugin" "${few[@]}"
	FAKE_NCCL_ABI=8 expect 1 "net API v8 and not v11" bench -N "$plugin" "${few[@]}"
	FAKE_NCCL_ABI=8 FAKE_NCCL_VERSION=22304 expect 0 "net API v8 of" bench -N "$plugin" "${few[@]}"
	expect 1 "net API v11 and not v8" bench -N "$plugin" --api 8 "${few[@]}"
	expect 1 "no line of the plugin's" bench -N "NCCL_NET_PLUGIN=none $plugin" "${few[@]}"
	expect 1 "the plugin is loaded" bench -N "NCCL_NET_PLUGIN=$plugin builtin" "${few[@]}"
	expect 1 "has written no" bench -N "NCCL_DEBUG_FILE=$out/elsewhere $plugin" "${few[@]}"
	FAKE_NCCL_VIA="NET/anynet/0/GDRDMA" expect 0 "2 of them with buffers in GPU memory" bench \
		-N "$plugin" "${few[@]}"
	FAKE_NCCL_VIA="NET/anynet/0/GDRDMA" expect 0 "user buffers registered with it 4 times" bench \
		-N "$plugin" -e 64K -t registered
	;;
errors)
	expect 1 "/nowhere.so" bench -N "$plugin" --nccl /nowhere.so
	expect 1 "has no ncclGetVersion" bench -N "$plugin" --nccl "$plugin"
	FAKE_CUDA_DEVICES=0 expect 1 "GPU 0 was requested, but there are 0" bench -N "$plugin"
	FAKE_CUDA_FREE=40000000 expect 0 "sizes end at 8388608 bytes" bench -N "$plugin" -b 8M -e 32M -n 1 -t broadcast
	said '^ +8388608 '
	FAKE_CUDA_FREE=1000000 expect 1 "out of memory" bench -N "$plugin" -b 8M -e 32M
	expect 1 "fake error" bench -N /nowhere.so -e 64
	ln -s "$fake" "$out/libnccl.so.2"
	ln -s "$fake" "$out/libcudart.so"
	few=(-N "$plugin" -e 64 -b 64 -t all_reduce --logs "$out")
	LD_LIBRARY_PATH=$out expect 0 "from $out/lib" "$build/bench/real/real_bench" "${few[@]}"
	ANYNET_LIBNCCL=$fake expect 0 "from $fake" "$build/bench/real/real_bench" --cudart "$fake" "${few[@]}"
	expect 1 "give at least one --net" bench
	expect 1 "'x' is not a test" bench -N "$plugin" -t x
	expect 1 "a number from 4" bench -N "$plugin" -e 99999999999G
	expect 1 "a number from 1" bench -N "$plugin" -r -1
	expect 1 "below the smallest" bench -N "$plugin" -b 8K -e 4K
	expect 1 "is no directory" bench -N "$plugin" --logs /dev/null
	expect 1 "at most 4 nets" bench -N a -N a -N a -N a -N a
	;;
dry)
	# Not built either: other tests use the build at the same time.
	run=$source/bench/real/run.sh
	expect 0 "# that is the plan; nothing was run" "$run" --dry-run --no-build --out "$out/results" "$build"
	for ranks in 2 4 8; do
		said "^== every collective and scene, $ranks ranks, 8 B to 256M"
		said "^real_bench '-r' '$ranks' .*'--rounds' '5'"
		said "^$ranks ranks over Socket: python3 .*torch_train.py fsdp"
		said "^== a rank that is killed, $ranks ranks"
	done
	expect 0 "# that is the plan" "$run" --dry-run --no-build --only nccl-tests --nccl-tests /there --out "$out/results" "$build"
	said "^'make' '-C' '/there/src' .*'BUILDDIR=$out/results/nccl-tests' 'MPI=1'"
	said "^mpirun -np 4: $out/results/nccl-tests/sendrecv_perf over anynet, 8 B to 256M"
	expect 2 "'x' is not a part" "$run" --dry-run --only x --out "$out/results" "$build"
	expect 2 "expected 2 to 16" "$run" --dry-run --ranks 17 --out "$out/results" "$build"
	expect 2 "Usage" "$run"
	expect 2 "is no build directory" "$run" --dry-run --out "$out/results" "$out"
	if ! nvidia-smi -L 2>/dev/null | grep '^GPU' >/dev/null; then
		expect 77 "SKIP: no GPU here" "$run" --no-build --out "$out/results" "$build"
	fi
	;;
script)
	# All of it, over the fake NCCL and the stand-in for Python.
	run() {
		"$source/bench/real/run.sh" --short --no-build --nccl "$fake" --cudart "$fake" --out "$out/results" \
			--python "$source/tests/bench/python.sh" "$@" "$build"
	}
	FAKE_NCCL_VIA=NET/anynet/0/GDRDMA expect 0 "with buffers in GPU memory" run --only gpu
	expect 0 "of the short form is as it should be" run --only check,ib,recovery,perf,killed,torch,cupy,gpu
	said '^# fsdp-2: 3 losses, the same bits as over NET/Socket'
	said '^# cupy-2: NET/anynet carried all channels of 2 ranks'
	said '^SKIP: NCCL kept its buffers in host memory'
	[ "$(grep -c '^"' "$out/results/perf-2.dat")" = 2 ] || fail "medians of 2 nets"
	if command -v gnuplot >/dev/null && ! grep -q '<svg' "$out/results/perf-2.svg"; then
		fail "no plot"
	fi
	FAKE_PYTHON=differs expect 1 "ddp-2: the loss curves differ" run --only torch
	FAKE_PYTHON=silent expect 1 "ddp-2: no loss in" run --only torch
	FAKE_PYTHON=fails expect 1 "cupy-2: rank 1, see" run --only cupy
	FAKE_PYTHON=elsewhere expect 1 "cupy-2: no channel over NET/anynet" run --only cupy
	FAKE_PYTHON=both expect 1 "cupy-2: that is another way" run --only cupy
	FAKE_NCCL_WRONG=11 expect 1 "# FAILED, see above" run --only ib
	;;
python)
	command -v python3 >/dev/null || skip "no python3"
	PYTHONPYCACHEPREFIX=$out python3 -m py_compile "$source"/bench/real/*.py >"$out/said" 2>&1 ||
		fail "they do not compile"
	expect 1 "Usage: torch_train.py" python3 "$source/bench/real/torch_train.py" x
	;;
*)
	fail "no case '$case'"
	;;
esac
echo "real: $case: as it should be"

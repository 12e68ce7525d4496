#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Real NCCL over the plugin on a machine with one GPU and no network: all ranks on that GPU, a process
# each, told apart by NCCL_HOSTID, so that everything between them goes through the net. Results are
# checked, logs must say that the net carried all of it, and NCCL's built-in Socket net runs beside.
#
# Usage: bench/real/run.sh [OPTION...] BUILD_DIR
#   --dry-run         build, look at the arguments of every command, print the plan
#   --short           2 ranks, sizes to 4 MiB, one round: what `make demo` shows
#   --ranks LIST      numbers of ranks (2,4,8)
#   --only LIST       parts: check ib recovery gpu perf killed torch cupy nccl-tests
#   --rounds N        rounds of perf (5)
#   --out DIR         logs, CSV, plots (BUILD_DIR/bench/real/results)
#   --nccl FILE, --cudart FILE, --python FILE   others than those that are found
#   --nccl-tests DIR  build NVIDIA's nccl-tests, whose source that is, and run those; without it, those on PATH
#   --software        no GPU: NCCL built from its source on a CUDA runtime in software, which is fetched and
#                     compiled once (tests/nccl/prepare.sh). One channel; nothing with PyTorch or CuPy.
#   --no-build        the build is up to date
#   --no-mps          do not start CUDA's MPS, which runs the ranks' kernels side by side
# Exit status: 0 good, 1 something failed, 2 usage, 77 no GPU, libnccl or CUDA runtime is found.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)

usage() {
	sed -n '/^# Usage/,/^# Exit/s/^# //p' "$0" >&2
	exit 2
}

known=check,ib,recovery,gpu,perf,killed,torch,cupy,nccl-tests
parts=$known ranks=2,4,8 rounds=5 most=256M few=16M factor=8 mps=yes python=python3
dry='' short='' software='' no_build='' out='' build='' nccl='' cudart='' nccl_tests=''
while [ $# -gt 0 ]; do
	case $1 in
	--dry-run) dry=yes ;;
	--short) short=yes ranks=2 rounds=1 most=4M few=1M factor=16 parts=check,ib,perf ;;
	--no-mps) mps='' ;;
	--software) software=yes ;;
	--no-build) no_build=yes ;;
	--ranks | --only | --rounds | --out | --nccl | --cudart | --python | --nccl-tests)
		[ $# -gt 1 ] || usage
		case $1 in
		--ranks) ranks=$2 ;;
		--only) parts=$2 ;;
		--rounds) rounds=$2 ;;
		--out) out=$2 ;;
		--nccl) nccl=$2 ;;
		--cudart) cudart=$2 ;;
		--python) python=$2 ;;
		--nccl-tests) nccl_tests=$2 ;;
		esac
		shift
		;;
	-*) usage ;;
	*) build=$1 ;;
	esac
	shift
done
[ -n "$build" ] || usage
build=$(cd "$build" && pwd) || exit 2
out=${out:-$build/bench/real/results}
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
for part in ${parts//,/ }; do
	case ",$known," in
	*",$part,"*) ;;
	*) echo "run.sh: '$part' is not a part" >&2; usage ;;
	esac
done
for count in ${ranks//,/ }; do
	if ! [[ $count =~ ^([2-9]|1[0-6])$ ]]; then
		echo "run.sh: --ranks '$count': expected 2 to 16" >&2
		usage
	fi
done

# The kernels in software know these, and each channel is one that spins.
if [ -n "$software" ]; then
	libs=$("$here/../../tests/nccl/prepare.sh") || {
		echo "$libs"
		exit 77
	}
	nccl=$libs/libnccl.so.2 cudart=$libs/libcudart.so.13
	export LD_LIBRARY_PATH=$libs NCCL_ALGO=Ring NCCL_PROTO=LL,Simple NCCL_MAX_NCHANNELS=1
	left_out='torch|cupy'
	[ -n "$nccl_tests" ] || left_out+='|nccl-tests'
	parts=$(tr , '\n' <<<"$parts" | grep -vxE "$left_out" | paste -sd ,)
	if [ -z "$parts" ]; then
		echo "run.sh: none of these parts is for --software" >&2
		usage
	fi
fi
plugin=$build/libnccl-net.so
bench=$build/bench/real/real_bench
socket='NCCL_NET=Socket builtin'
failed=0 seen_gpu=''
export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo}
# One GPU, whatever else is there.
CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES%%,*}

# --- what this host has ---

if [ -n "$cudart" ] || { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep '^GPU' >/dev/null; }; then
	seen_gpu=yes
fi
if [ -z "$seen_gpu" ] && [ -z "$dry" ]; then
	echo "SKIP: no GPU here (nvidia-smi lists none); --dry-run shows what would run"
	exit 77
fi

say_host() {
	local program
	echo "# GPU: $(nvidia-smi -L 2>/dev/null | grep -m1 '^GPU' || echo none)"
	for program in nvidia-cuda-mps-control gnuplot mpirun "$python" all_reduce_perf; do
		echo "# $program: $(command -v "$program" || echo 'not here')"
	done
	for program in torch cupy; do
		if has_module "$program"; then
			echo "# Python's $program: here"
		else
			echo "# Python's $program: not here"
		fi
	done
}

# In the path only: nothing is imported.
has_module() {
	"$python" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)" 2>/dev/null
}

make_targets() {
	[ -f "$build/CMakeCache.txt" ] || {
		echo "run.sh: $build is no build directory" >&2
		exit 2
	}
	[ -z "$no_build" ] || return 0
	cmake --build "$build" --target nccl-net --target real_bench >"$out/build.log" 2>&1 || {
		tail -20 "$out/build.log"
		exit 1
	}
}

# One rank, one element: does NCCL work at all?
one_rank() {
	mkdir -p "$out/look"
	"$bench" -r 1 -b 8 -e 8 -n 1 -t all_reduce -N "$plugin" ${nccl:+--nccl "$nccl"} \
		${cudart:+--cudart "$cudart"} --logs "$out/look" >"$out/look.log" 2>&1
}

look_for_libraries() {
	[ -z "$dry" ] || return 0
	one_rank
	if grep -m1 'is found on the loader' "$out/look.log"; then
		echo "SKIP: NCCL is not here; ANYNET_LIBNCCL or --nccl, and --cudart, name its files"
		exit 77
	fi
}

# --- running ---

part() {
	echo
	echo "== $1"
}

fail() {
	echo "FAIL: $*"
	failed=1
}

# real NAME ARGUMENT...: real_bench, its output in NAME.log as well, NCCL's logs in NAME/
real() {
	local name=$1 extra=()
	shift
	[ -z "$nccl" ] || extra+=(--nccl "$nccl")
	[ -z "$cudart" ] || extra+=(--cudart "$cudart")
	[ -z "$dry" ] || extra+=(--dry-run)
	mkdir -p "$out/$name"
	[ -z "$dry" ] || echo "real_bench ${*@Q}"
	"$bench" "$@" "${extra[@]}" --logs "$out/$name" 2>&1 | tee "$out/$name.log"
	[ "${PIPESTATUS[0]}" = 0 ] || fail "$name, see $out/$name.log"
}

mps_runs='' mps_dir=''
mps_start() {
	[ -n "$mps" ] && [ -z "$dry" ] && [ -z "$cudart" ] || return 0
	if ! command -v nvidia-cuda-mps-control >/dev/null; then
		echo "# no MPS here: the ranks take turns on the GPU, which is slow"
		return 0
	fi
	mps_dir=$(mktemp -d) # short: there will be sockets in it
	mps_runs=yes
	export CUDA_MPS_PIPE_DIRECTORY=$mps_dir CUDA_MPS_LOG_DIRECTORY=$out
	if nvidia-cuda-mps-control -d >"$out/mps.log" 2>&1 && one_rank; then
		echo "# MPS: the ranks' kernels run side by side"
	else
		mps_stop
		echo "# MPS does not work here, see $out/mps.log: the ranks take turns, which is slow"
	fi
}

mps_stop() {
	[ -n "$mps_runs" ] || return 0
	echo quit | nvidia-cuda-mps-control >/dev/null 2>&1
	unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
	rm -rf "${mps_dir:?}"
	mps_runs=''
}
trap mps_stop EXIT

# use_net anynet|Socket: what ranks of other programs find in their environment, but for who they are
use_net() {
	export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1
	export NCCL_MAX_NCHANNELS=${NCCL_MAX_NCHANNELS:-2} NCCL_MNNVL_ENABLE=0 NCCL_NVLS_ENABLE=0
	unset NCCL_NET
	if [ "$1" = Socket ]; then
		export NCCL_NET=Socket NCCL_NET_PLUGIN=none
	else
		export NCCL_NET_PLUGIN=$plugin
	fi
}

# launch NAME RANKS NET COMMAND...: the ranks of another program, and what their logs say. NET: anynet
# or Socket.
launch() {
	local name=$1 count=$2 net=$3 rank ended ranks=() status=0
	shift 3
	if [ -n "$dry" ]; then
		echo "$count ranks over $net: $*"
		return 0
	fi
	rm -rf "${out:?}/$name"
	mkdir -p "$out/$name"
	for ((rank = 0; rank < count; rank++)); do
		(
			export RANK=$rank WORLD_SIZE=$count LOCAL_RANK=0 MEET=$out/$name/meet
			export NCCL_HOSTID=anynet-host-$rank NCCL_DEBUG_FILE=$out/$name/rank$rank.nccl
			use_net "$net"
			exec timeout 600 "$@"
		) >"$out/$name/rank$rank.log" 2>&1 &
		ranks[$!]=$rank
	done
	# The others would wait for a rank that has failed.
	while [ "${#ranks[@]}" -gt 0 ]; do
		wait -n -p ended "${!ranks[@]}" || [ "$status" = 1 ] || {
			status=1
			fail "$name: rank ${ranks[ended]}, see $out/$name/rank${ranks[ended]}.log"
			kill "${!ranks[@]}" 2>/dev/null
		}
		unset "ranks[$ended]"
	done
	[ "$status" = 0 ] && carried "$name" "$count" "$net"
}

# Every rank's channels over this net, and over nothing else.
carried() {
	local name=$1 count=$2 net=$3 rank log
	for ((rank = 0; rank < count; rank++)); do
		log=$out/$name/rank$rank.nccl
		if ! grep -q " via NET/$net/" "$log" 2>/dev/null; then
			fail "$name: no channel over NET/$net in $log"
			return 1
		fi
		if grep 'Channel .* via ' "$log" | grep -v " via NET/$net/"; then
			fail "$name: that is another way, in $log"
			return 1
		fi
	done
	echo "# $name: NET/$net carried all channels of $count ranks"
}

# --- the parts ---

collectives=all_reduce,all_gather,reduce_scatter,broadcast,alltoall,sendrecv
scenes=groups,splits,comms,registered,reinit,abort

run_check() {
	part "every collective and scene, $1 ranks, 8 B to $most"
	real "check-$1" -r "$1" -e "$most" -f "$factor" -n 5 -N "$plugin" \
		-t "$collectives,$scenes"
}

run_ib() {
	part "NCCL_NET=IB, $1 ranks: as if there were InfiniBand"
	real "ib-$1" -r "$1" -e "$few" -f 16 -n 5 -N "NCCL_NET=IB $plugin" -t "$collectives,$scenes"
}

run_recovery() {
	part "connections shut at random, $1 ranks"
	real "recovery-$1" -r "$1" -b 64K -e "$few" -f 4 -n 50 --cut 50 -N "$plugin" \
		-t all_reduce,alltoall,sendrecv
}

# NCCL's buffers in GPU memory, which the plugin copies itself.
run_gpu() {
	local net="ANYNET_TCP_CUDA=1 NCCL_NET_GDR_LEVEL=SYS NCCL_NET_GDR_READ=1 $plugin"
	part "GPU memory staged by the plugin, $1 ranks"
	real "gpu-$1" -r "$1" -e "$most" -f "$factor" -n 5 -N "$net" \
		-t "$collectives,registered"
	[ -n "$dry" ] || grep -q 'with buffers in GPU memory' "$out/gpu-$1.log" ||
		echo "SKIP: NCCL kept its buffers in host memory, so nothing was staged; see $out/gpu-$1"
}

# plot NAME RANKS: medians of NAME.csv
plot() {
	"$here/../medians.awk" -v figure=all_reduce "$out/$1.csv" >"$out/$1.dat"
	if grep -q . "$out/$1.dat" && command -v gnuplot >/dev/null; then
		gnuplot -e "data='$out/$1.dat'; image='$out/$1.svg'; ranks=$2" "$here/plot.gp" || fail "$1: no plot"
	fi
}

run_perf() {
	part "beside NCCL's Socket net, $1 ranks, $rounds round(s)"
	rm -f "$out/perf-$1.csv"
	real "perf-$1" -r "$1" -e "$most" -f "$factor" --rounds "$rounds" --csv "$out/perf-$1.csv" \
		-N "$plugin" -N "$socket" -t "$collectives"
	[ -z "$dry" ] || rm -f "$out/perf-$1.csv"
	[ -s "$out/perf-$1.csv" ] || return 0
	plot "perf-$1" "$1"
}

# Without MPS: a client that dies inside a kernel may take its server with it.
run_killed() {
	part "a rank that is killed, $1 ranks"
	real "killed-$1" -r "$1" -e 4M -N "$plugin" -t killed
}

# The same training over both nets: every loss has to have the same bits.
run_torch() {
	local mode count=$1
	part "PyTorch, $count ranks"
	if [ -z "$dry" ] && ! has_module torch; then
		echo "SKIP: $python has no torch"
		return 0
	fi
	# One order of sums, whatever NCCL thinks of the nets' speeds.
	export NCCL_ALGO=Ring NCCL_PROTO=Simple CUBLAS_WORKSPACE_CONFIG=:4096:8
	for mode in ddp fsdp; do
		launch "$mode-$count-anynet" "$count" anynet "$python" "$here/torch_train.py" "$mode" &&
			launch "$mode-$count-Socket" "$count" Socket "$python" "$here/torch_train.py" "$mode" &&
			[ -z "$dry" ] && same_losses "$mode-$count"
	done
	unset NCCL_ALGO NCCL_PROTO
	launch "pipeline-$count" "$count" anynet "$python" "$here/torch_pipeline.py"
}

same_losses() {
	local ours=$out/$1-anynet/rank0.log theirs=$out/$1-Socket/rank0.log
	if ! grep -q '^loss ' "$ours"; then
		fail "$1: no loss in $ours"
	elif diff <(grep '^loss ' "$ours") <(grep '^loss ' "$theirs"); then
		echo "# $1: $(grep -c '^loss ' "$ours") losses, the same bits as over NET/Socket"
	else
		fail "$1: the loss curves differ"
	fi
}

run_cupy() {
	part "CuPy's NcclCommunicator, $1 ranks"
	if [ -z "$dry" ] && ! has_module cupy; then
		echo "SKIP: $python has no cupy"
		return 0
	fi
	launch "cupy-$1" "$1" anynet "$python" "$here/cupy_comm.py"
}

# shellcheck source=bench/real/nccl_tests.sh
. "$here/nccl_tests.sh"

make_targets
say_host
look_for_libraries
mps_start
for count in ${ranks//,/ }; do
	for name in ${parts//,/ }; do
		[ "$name" = killed ] || "run_${name//-/_}" "$count"
	done
done
mps_stop
for count in ${ranks//,/ }; do
	[[ ,$parts, != *,killed,* ]] || run_killed "$count"
done
echo
if [ -n "$dry" ]; then
	echo "# that is the plan; nothing was run"
elif [ "$failed" = 0 ]; then
	echo "# everything ${short:+of the short form }is as it should be; logs: $out"
else
	echo "# FAILED, see above; logs: $out"
fi
exit "$failed"

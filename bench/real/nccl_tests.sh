# SPDX-License-Identifier: Apache-2.0
# The part nccl-tests of run.sh: NVIDIA's programs, a process for each rank by mpirun, over anynet and over NCCL's
# Socket net. They are built from the tree that --nccl-tests names, or found on PATH; there, builds with MPI are
# wanted: one without it cannot have two processes.
# shellcheck shell=bash
# shellcheck disable=SC2154 # variables of run.sh

nccl_tests_built=''

# Once for all numbers of ranks. On software GPUs their kernels are the CPU's.
nccl_tests_build() {
	local into=$out/nccl-tests command
	[ -n "$nccl_tests" ] && [ -z "$nccl_tests_built" ] || return 0
	mkdir -p "$into"
	if [ -n "$software" ]; then
		command=("$here/../../tests/fakes/nccl/nccl-tests/build.sh" "$nccl_tests" "${nccl%/*}" "$into")
	else
		command=(make -C "$nccl_tests/src" -j "$(nproc)" "BUILDDIR=$into" MPI=1
			"MPI_HOME=${MPI_HOME:-$(dirname "$(mpicxx --showme:incdirs 2>/dev/null | cut -d ' ' -f 1)")}")
	fi
	if [ -n "$dry" ]; then
		echo "${command[*]@Q}"
	elif ! "${command[@]}" >"$into.log" 2>&1; then
		tail -20 "$into.log"
		fail "nccl-tests cannot be built, see $into.log"
		return 1
	fi
	nccl_tests_built=$into
}

# nccl_tests_find NAME: prints the program
nccl_tests_find() {
	if [ -n "$nccl_tests_built" ]; then
		echo "$nccl_tests_built/$1_perf"
	else
		command -v "$1_perf_mpi" || command -v "$1_perf"
	fi
}

# nccl_test RANKS NAME PROGRAM NET: with every result checked
nccl_test() {
	local name=$2-$1-$4 largest=$most inner
	# The CPU's kernels take their time.
	[ -z "$software" ] || largest=$few
	if [ -n "$dry" ]; then
		echo "mpirun -np $1: $3 over $4, 8 B to $largest"
		return 0
	fi
	rm -rf "${out:?}/$name"
	mkdir -p "$out/$name"
	# shellcheck disable=SC2016 # for the shell of each rank
	inner='rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
		export NCCL_HOSTID=anynet-host-$rank NCCL_DEBUG_FILE=$LOGS/rank$rank.nccl
		exec "$0" "$@"'
	(
		export NCCL_TESTS_DEVICE=0 LOGS=$out/$name
		export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
		use_net "$4"
		exec timeout 900 mpirun -np "$1" --oversubscribe bash -c "$inner" "$3" -b 8 -e "$largest" -f "$factor" \
			-g 1 -c 1
	) 2>&1 | tee "$out/$name/log"
	[ "${PIPESTATUS[0]}" = 0 ] || fail "$name, see $out/$name/log"
	grep -q 'Out of bounds values : 0 OK' "$out/$name/log" || fail "$name: wrong results, or none"
	carried "$name" "$1" "$4"
	awk -v test="$2" -v ranks="$1" -v net="$4" '
		$1 ~ /^[0-9]+$/ && NF >= 13 {
			line = sprintf("%s,%d,\"%s\",%s,%d,1,1,", test, net == "anynet" ? 1 : 2, net, $1, ranks)
			print line "time_us," $6
			print line "busbw_GB/s," $8
		}' "$out/$name/log" >>"$out/nccl-tests-$1.csv"
}

run_nccl_tests() {
	local name program found=''
	part "nccl-tests, $1 ranks"
	if [ -z "$dry" ] && ! command -v mpirun >/dev/null; then
		echo "SKIP: no mpirun"
		return 0
	fi
	nccl_tests_build || return 1
	rm -f "$out/nccl-tests-$1.csv"
	for name in ${collectives//,/ }; do
		program=$(nccl_tests_find "$name") || continue
		found=yes
		nccl_test "$1" "$name" "$program" anynet
		nccl_test "$1" "$name" "$program" Socket
	done
	[ -n "$found" ] || echo "SKIP: no all_reduce_perf or other of nccl-tests on PATH"
	[ ! -s "$out/nccl-tests-$1.csv" ] || plot "nccl-tests-$1" "$1"
}

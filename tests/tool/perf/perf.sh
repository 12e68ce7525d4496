#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `anynet perf` over several hosts: perf.sh CASE BUILD_DIR. Exit 77 = skipped. A host is a UTS namespace with its own
# name on this host's loopback interface; in the case `network` it is a network namespace.
set -uo pipefail
# shellcheck source=tests/said.sh
. "$(dirname "$0")/../../said.sh"
PATH=$PATH:/sbin:/usr/sbin

case=${1:?} build=${2:?}
tool=$build/tools/anynet
plugin=$build/libnccl-net.so
out=$(mktemp -d)
spaces=()
export NCCL_SOCKET_IFNAME=lo ANYNET_TRANSPORT=tcp
unset NCCL_NET NCCL_DEBUG ANYNET_DEBUG ANYNET_PORT_RANGE ANYNET_ALLOW
unset WORLD_SIZE RANK LOCAL_RANK GROUP_WORLD_SIZE SLURM_LOCALID SLURM_NNODES OMPI_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID

cleanup() {
	# shellcheck disable=SC2046
	kill $(jobs -p) 2>/dev/null
	for ns in "${spaces[@]}"; do
		ip netns del "$ns" 2>/dev/null
	done
	wait 2>/dev/null
	rm -rf "$out"
}
trap cleanup EXIT

# Replaces ssh. $out/env.h1 has variables of that host, and $inside: a command that runs it.
make_ssh() {
	unshare -u true 2>"$out/why" || skip "no UTS namespaces: $(cat "$out/why")"
	cat >"$out/ssh" <<-END
		#!/bin/bash
		[ -e "$out/env.\$1" ] && . "$out/env.\$1"
		exec \$inside unshare -u sh -c 'hostname "\$1" && exec sh -c "\$2"' sh "\$1" "\$2"
	END
	chmod +x "$out/ssh"
}

# perf STATUS [OPTION...]: runs on hosts by ssh; the output is in $out/said, errors in $out/told
perf() {
	local status=$1 got
	shift
	timeout 240 "$tool" perf --ssh "$out/ssh" --net "$plugin" "$@" >"$out/said" 2>"$out/told"
	got=$?
	[ "$got" = "$status" ] || fail "status $got instead of $status: perf $*"
}

told() {
	grep -qE -- "$1" "$out/told" || fail "not told: $1"
}

# as_host NAME VARIABLE=VALUE... [OPTION...]: runs a command on a host, as a launcher does
as_host() {
	local name=$1
	shift
	# shellcheck disable=SC2016
	exec unshare -u sh -c 'hostname "$1" && shift && exec env "$@"' sh "$name" "$@"
}

# Starts a long run by ssh on three hosts; leaves its pid in $run, and in $ranks the pids of its ranks. Again if the
# machine was too busy: a deadline also applies while the ranks meet.
start_run() {
	make_ssh
	: >"$out/said"
	"$tool" perf --ssh "$out/ssh" --net "$plugin" --hosts h1,h2,h3 -b 1M -e 1M -n 1000000 "$@" \
		>"$out/said" 2>"$out/told" &
	run=$!
	until grep -q '#wrong' "$out/said"; do
		if ! kill -0 "$run" 2>/dev/null; then
			grep -q 'no progress for' "$out/told" || fail "ended before it began"
			start_run "$@"
			return
		fi
	done
	mapfile -t ranks < <(awk '/^#  Rank/ { print $5 }' "$out/said")
}

# Waits until no rank is left, nor the worker that started it.
nobody_left() {
	for pid in "${ranks[@]}" "${workers[@]}"; do
		while [ -e "/proc/$pid" ] && ! grep -q '^State:.*zombie' "/proc/$pid/status" 2>/dev/null; do
			:
		done
	done
}

parent() {
	awk '/^PPid/ { print $2 }' "/proc/$1/status"
}

command -v jq >/dev/null || skip "jq is missing"
case $case in
patterns)
	make_ssh
	for pattern in all_gather all_reduce alltoall broadcast gather hypercube reduce reduce_scatter scatter sendrecv; do
		perf 0 --hosts h1,h2 -r 2 -p $pattern -f 64 -e 4M -n 2 -w 1
		said '4 ranks on 2 hosts'
		said 'Out of bounds values : 0 OK'
	done
	# The fields of its JSON, and ranks in the order of the hosts.
	perf 0 --hosts h3,h1,h2 -r 2 -e 64 -f 8 -n 1 -d int32 --abi 8 --json
	jq -e '.schema == 1 and .command == "perf" and .hosts == 3 and .ranks == 6 and .wrong == 0 and .net.abi == 8 and
		(.rows | map(.size_bytes) == [8, 64]) and all(.rows[]; .type == "int32" and .time_us > 0 and .wrong == 0) and
		([.processes[].host] == ["h3", "h3", "h1", "h1", "h2", "h2"]) and ([.processes[].rank] == [range(6)]) and
		([.processes[].pid] | unique | length == 6)' "$out/said" >/dev/null || fail "the JSON"
	perf 0 --hosts h1,h2 -b 64 -e 192 -i 64 -n 1 -c 0 --csv
	[ "$(cut -d, -f1,2 "$out/said" | paste -sd' ')" = 'size_bytes,count 64,16 128,32 192,48' ] || fail "the CSV"
	printf 'h1 h2 # two\nh3\n' >"$out/list"
	perf 0 --hosts-file "$out/list" -e 64 -n 1
	said '3 ranks on 3 hosts'
	# The worker gets the path of another tool, and further variables of the job.
	perf 0 --hosts h1,h2 --remote "NCCL_DEBUG=INFO $tool" -e 8 -n 1
	told '^h1: # rank 0 INFO '
	told '^h2: # rank 1 INFO '
	;;
launcher)
	unshare -u true 2>"$out/why" || skip "no UTS namespaces: $(cat "$out/why")"
	meet=("$tool" perf --net "$plugin" --rendezvous 127.0.0.1:4713 --wait 250 -e 64K -f 64 -n 2)
	# Slurm: two tasks on each of three hosts; torchrun and MPI: the number of hosts by its variable, or by --nodes.
	for launcher in slurm torchrun mpi; do
		for host in 1 2 3; do
			for local in 0 1; do
				case $launcher in
				slurm) set -- SLURM_NNODES=3 SLURM_LOCALID=$local "${meet[@]}" ;;
				torchrun) set -- GROUP_WORLD_SIZE=3 LOCAL_RANK=$local "${meet[@]}" ;;
				mpi) set -- OMPI_COMM_WORLD_LOCAL_RANK=$local "${meet[@]}" --nodes 3 ;;
				esac
				as_host "n$host" "$@" -r 2 >"$out/$launcher.$host.$local" 2>&1 &
				starters[10 * host + local]=$!
			done
		done
		for starter in "${starters[@]}"; do
			wait "$starter" || fail "$launcher: a process failed"
		done
		cat "$out/$launcher".* >"$out/said"
		said '6 ranks on 3 hosts'
		[ "$(grep -c 'Out of bounds values : 0 OK' "$out/said")" = 1 ] || fail "$launcher: not one coordinator"
		[ "$(awk '/Rank/ { print $7 }' "$out/said" | paste -sd' ')" = 'n1 n1 n2 n2 n3 n3' ] || fail "$launcher: hosts"
	done
	# Options that differ between hosts. The coordinator has the exit status.
	as_host n1 "${meet[@]}" --nodes 2 >"$out/first" 2>&1 &
	first=$!
	as_host n2 "${meet[@]}" --nodes 2 -p reduce >"$out/second" 2>&1 &
	second=$!
	wait $first
	statuses=$?
	wait $second
	statuses+=$?
	[[ $statuses = 20 || $statuses = 02 ]] || fail "other options: status $statuses"
	cat "$out/first" "$out/second" >"$out/said"
	said '^n[12]: started with other options than the coordinator: --pattern'
	# Too few hosts arrive. On a busy machine the own worker may be late as well.
	: >"$out/said"
	until grep -q 'only 1 of 2 hosts' "$out/said"; do
		timeout 250 "${meet[@]}" --nodes 2 --wait 1 >"$out/said" 2>&1
		[ $? = 2 ] || fail "alone is no error"
	done
	said 'missing-1: only 1 of 2 hosts arrived at 127.0.0.1 port 4713 within 1 s'
	;;
network)
	# Three hosts with a cable to a bridge: the data of the ranks uses the network.
	[ "$(id -u)" = 0 ] || skip "network namespaces with names need root"
	for i in 0 1 2 3; do
		ip netns add "anp$$h$i" 2>"$out/why" || skip "no network namespaces: $(cat "$out/why")"
		spaces+=("anp$$h$i")
	done
	ip -n "anp$$h0" link add br0 type bridge 2>/dev/null || skip "no bridges"
	ip -n "anp$$h0" link set br0 up
	for i in 1 2 3; do
		ip -n "anp$$h$i" link add eth0 type veth peer name "p$i" netns "anp$$h0" || skip "no veth interfaces"
		ip -n "anp$$h$i" addr add "10.83.0.$i/24" dev eth0
		ip -n "anp$$h$i" link set lo up
		ip -n "anp$$h$i" link set eth0 up
		ip -n "anp$$h0" link set "p$i" master br0 up
	done
	printf '#!/bin/bash\nexec ip netns exec "anp%sh$1" sh -c "$2"\n' $$ >"$out/ssh"
	chmod +x "$out/ssh"
	export NCCL_SOCKET_IFNAME=eth
	perf 0 --hosts 1,2,3 -r 2 -p alltoall -f 64 -e 4M -n 2 -w 1
	said 'Rank  5 Pid +[0-9]+ on 3 device  0 \[eth0\]'
	said 'Out of bounds values : 0 OK'
	# If no packet passes, the ranks give up by themselves, and each reports it.
	ip -n "anp$$h0" link set p3 nomaster
	ANYNET_CONNECT_TIMEOUT=2s perf 2 --hosts 1,2,3 -p sendrecv -e 8 -n 1 --deadline 20
	told '^(1|2|3): anynet perf: rank [012]: (connect|accept)'
	;;
failures)
	make_ssh
	perf 2 --hosts h1,h2 --dev 99 -e 8
	told '^h1: anynet perf: .*device 99 is requested'
	perf 2 --hosts h1,h2 --net /nowhere.so -e 8
	told '^h2: anynet perf: /nowhere.so: cannot open'
	# Only one host has a wrong setting.
	echo 'inside="unshare -n"' >"$out/env.h2"
	perf 2 --hosts h1,h2 -e 8
	told '^h2: anynet perf: .*finds no device on this host'
	not_said Rank
	perf 2 --hosts h1,h2 --remote /no/such/anynet -e 8
	told "^anynet perf: h1: anynet did not start there: '.*/no/such/anynet"
	perf 2 --hosts h1,h2 --remote "$tool devices; true" -e 8
	told '^anynet perf: h1: anynet did not start there'
	;;
wrong-data)
	# One bit of the data that one host receives is flipped.
	make_ssh
	echo "export LD_PRELOAD=$build/tests/tool/libflip.so" >"$out/env.h2"
	timeout 240 "$tool" perf --ssh "$out/ssh" --net "$build/bench/libnccl-net-raw.so" --hosts h1,h2 -p sendrecv -b 128K -e 128K \
		-n 1 >"$out/said" 2>"$out/told"
	[ $? = 2 ] || fail "wrong results are no error"
	said 'Out of bounds values : [1-9][0-9]* FAILED'
	told '^anynet perf: WRONG RESULTS'
	;;
killed)
	# A rank, a worker and the coordinator are killed; a stopped rank ends the run by its deadline.
	for who in rank worker coordinator; do
		start_run
		workers=("$(parent "$(parent "${ranks[1]}")")")
		case $who in
		rank) kill -KILL "${ranks[1]}" ;;
		worker) kill -KILL "${workers[0]}" ;;
		coordinator) kill -KILL "$run" ;;
		esac
		wait "$run" 2>/dev/null
		status=$?
		nobody_left
		[ $who = coordinator ] || [ $status = 2 ] || fail "$who: status $status"
		case $who in
		rank) told '^h2: anynet perf: rank 1 was killed by signal 9' ;;
		worker) told '^anynet perf: h2: its worker has ended' ;;
		esac
	done
	start_run --deadline 2
	kill -STOP "${ranks[1]}"
	wait "$run"
	[ $? = 2 ] || fail "a stopped rank is no error"
	nobody_left
	told '^h[13]: anynet perf: rank [02]: no progress for 2\.0 s'
	;;
usage)
	for bad in "--hosts a" "--hosts a,a" "--hosts a,-l" "--hosts a,b --rendezvous c:1 --nodes 2" "--rendezvous a --nodes 2" \
		"--rendezvous a:1" "--hosts a,b -r 65" "--hosts a,b,c,d,e -r 64" "--hosts a,b,c -p hypercube" \
		"--rendezvous a:1 --nodes 6 -p hypercube" "--hosts-file /none" "--hosts-file /dev/null" "--hosts ,"; do
		# Word splitting is intended.
		# shellcheck disable=SC2086
		"$tool" perf $bad >"$out/said" 2>&1
		[ $? = 3 ] || fail "accepted: anynet perf $bad"
	done
	printf 'GET / HTTP/1.1\r\n\r\n' | "$tool" perf --worker >"$out/said" 2>"$out/told"
	[ $? = 1 ] || fail "a worker with a foreign token"
	;;
*)
	echo "no case $case"
	exit 1
	;;
esac
exit 0

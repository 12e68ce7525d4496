#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The commands of the tool: tool.sh CASE BUILD_DIR. Loopback only; exit 77 = skipped.
set -uo pipefail
# shellcheck source=tests/said.sh
. "$(dirname "$0")/../said.sh"

case=${1:?} build=${2:?}
tool=$build/tools/anynet
plugin=$build/libnccl-net.so
out=$(mktemp -d)
run=
trap '[ -z "$run" ] || kill "$run" 2>/dev/null; rm -rf "$out"' EXIT
export NCCL_SOCKET_IFNAME=lo
export ANYNET_TRANSPORT=tcp
unset NCCL_NET NCCL_DEBUG

# Starts a long run whose ranks can be killed or stopped; the pid of rank 1 is in $victim. Again if the machine was too
# busy: a deadline also applies while the ranks meet.
start_run() {
	"$tool" perf --net "$plugin" -r 3 -b 1M -e 1M -n 1000000 "$@" >"$out/said" 2>&1 &
	run=$!
	until grep -q '#wrong' "$out/said"; do
		if ! kill -0 "$run" 2>/dev/null; then
			grep -q 'no progress for' "$out/said" || fail "ended before it began"
			start_run "$@"
			return
		fi
		sleep 0.01
	done
	victim=$(awk '/Rank  1 Pid/ { print $5 }' "$out/said")
}

case $case in
patterns)
	for pattern in all_gather all_reduce alltoall broadcast gather reduce reduce_scatter scatter sendrecv; do
		for ranks in 1 2 5; do
			expect 0 "Out of bounds values : 0 OK" "$tool" perf --net "$plugin" \
				-p "$pattern" -r "$ranks" -f 16 -b 48 -e 3M -n 2 -w 1
		done
	done
	for ranks in 1 2 8; do
		expect 0 "Out of bounds values : 0 OK" "$tool" perf --net "$plugin" \
			-p hypercube -r "$ranks" -f 16 -e 8M -n 2 -w 1
	done
	for pattern in all_reduce reduce reduce_scatter; do
		expect 0 "Out of bounds values : 0 OK" "$tool" perf --net "$plugin" -p $pattern -d int32 \
			--channels 3 -r 3 -b 1000 -e 100000 -i 33000 -n 2
	done
	;;
versions)
	for abi in 5 6 7 8 9 10 11 12; do
		expect 0 "API v$abi" "$tool" perf --net "$plugin" --abi "$abi" -f 64 -e 4M -n 2
	done
	;;
errors)
	expect 2 "/nowhere.so" "$tool" perf --net /nowhere.so
	expect 2 "device 99" "$tool" perf --net "$plugin" --dev 99
	expect 3 "a number from 1 to 64" "$tool" perf -r 65
	expect 3 "a power of two, not 6" "$tool" perf -p hypercube -r 6
	expect 3 "a number from 1 to 64" "$tool" perf -r 2x
	expect 3 "a number from 1 to 17179869184" "$tool" perf -b 0
	expect 3 "a number from 1 to 17179869184" "$tool" perf -b 17G
	expect 3 "smaller than" "$tool" perf -b 1K -e 8
	expect 3 "--help lists them" "$tool" perf -p nosuch
	for host in $'\xff' 'a b' $'host\t'; do
		expect 3 "a host name of ASCII characters" "$tool" pair "$host"
		expect 3 "a host name of ASCII characters" "$tool" export --listen "$host:1"
	done
	expect 3 "'nosuch' is not a command" "$tool" nosuch
	expect 3 "usage:" "$tool"
	expect 0 "usage:" "$tool" help
	expect 0 "Usage: anynet pair" "$tool" help pair
	expect 3 "did you mean 'explain'" "$tool" explian
	expect 3 "did you mean 'top'" "$tool" help topp
	"$tool" strange 2>&1 | grep -q "did you mean" && fail "a command that nobody meant"
	;;
env)
	dir=$(realpath "$build")
	expect 0 "export LD_LIBRARY_PATH='$dir'" "$tool" env
	# shellcheck disable=SC2016
	expect 0 "$dir:/before anynet" env LD_LIBRARY_PATH=/before sh -c \
		'eval "$("$1" env)" && echo "$LD_LIBRARY_PATH $NCCL_NET_PLUGIN"' sh "$tool"
	# shellcheck disable=SC2016
	expect 0 "$dir anynet --n" env -u LD_LIBRARY_PATH "$tool" run \
		sh -c 'echo "$LD_LIBRARY_PATH $NCCL_NET_PLUGIN $1"' sh --n
	expect 0 "from $dir/libnccl-net" "$tool" run "$tool" perf -e 64K -n 2 --net libnccl-net-anynet.so
	expect 7 "ended" "$tool" run sh -c 'echo ended; exit 7'
	expect 127 "no-such-command: No such file" "$tool" run no-such-command
	expect 126 "Permission denied" "$tool" run /dev/null
	expect 3 "Usage: anynet run" "$tool" run
	expect 3 "Too many arguments" "$tool" env operand
	# A directory whose name needs quoting in a shell, and a tool without a plugin beside it.
	mkdir -p "$out/it's \$HOME/bin" "$out/it's \$HOME/lib" "$out/alone"
	cp "$tool" "$out/it's \$HOME/bin/"
	cp "$plugin" "$out/it's \$HOME/lib/libnccl-net.so"
	cp "$plugin" "$out/it's \$HOME/lib/libnccl-net-anynet.so"
	# shellcheck disable=SC2016
	expect 0 "$out/it's \$HOME/lib" sh -c 'eval "$("$1" env)" && echo "$LD_LIBRARY_PATH"' sh "$out/it's \$HOME/bin/anynet"
	cp "$tool" "$out/alone/"
	expect 0 "export NCCL_NET_PLUGIN=anynet" "$out/alone/anynet" env
	"$out/alone/anynet" env | grep LD_LIBRARY_PATH && fail "a path, and no plugin is there"
	;;
print)
	expect 0 "from NCCL_SOCKET_IFNAME" "$tool" config
	expect 0 '"source": "alias"' "$tool" config --json
	expect 0 '| `ANYNET_' "$tool" config --markdown
	expect 0 "examined" "$tool" devices
	expect 0 '"transport": "TCP"' "$tool" devices --json
	NCCL_NET=IB NCCL_IB_DISABLE=1 expect 0 "the net 'IB'" "$tool" devices
	# Bytes that are not UTF-8, and an escape sequence.
	odd=(env -u ANYNET_TRANSPORT ANYNET_IBVERBS_LIB=$'/no/\xff\e[1m' "$tool")
	for command in devices config; do
		expect 0 '/no/\xff\x1b[1m' "${odd[@]}" $command
		expect 0 '/no/\\xff\\x1b[1m' "${odd[@]}" $command --json
	done
	if unshare -rn true 2>/dev/null; then # in a namespace where no interface is up
		expect 2 "with 0 devices" unshare -rn "$tool" devices
		expect 2 '"devices": []' unshare -rn "$tool" devices --json
	fi
	# The members of all JSON output (anynet(1), JSON).
	for command in check config devices version explain top; do
		{ "$tool" "$command" --json </dev/null || true; } | jq -e --arg command "$command" \
			'.schema == 1 and .command == $command and (.anynet | test("^[0-9]"))' >/dev/null ||
			fail "the JSON of $command"
	done
	{ "$tool" check --json || true; } | jq -e '.status <= 2 and (.findings | length > 0 and
		all(has("level") and has("id") and has("finding") and has("why") and has("fix")))' >/dev/null ||
		fail "findings of check"
	printf 'torch.cuda.OutOfMemoryError: CUDA out of memory.\n' >"$out/log"
	expect 2 $'\033' "$tool" explain --color=always "$out/log"
	"$tool" explain --color=never "$out/log" | grep -q $'\033' && fail "colours"
	expect 3 "always, auto or never" "$tool" top --color=green
	expect 3 "unrecognized option" "$tool" devices --nosuch
	expect 3 "unrecognized option" "$tool" config --nosuch
	expect 0 "wire protocol" "$tool" version
	expect 0 '"net_api": [' "$tool" version --json
	for command in config "config --json" "devices --json" "version --json" "explain --json" "top --json"; do
		# Word splitting is intended.
		# shellcheck disable=SC2086
		"$tool" $command </dev/null >/dev/full 2>"$out/said"
		[ $? = 2 ] || fail "nothing is written, and the status of $command is another"
		said "the output cannot be written"
	done
	expect 0 "size_bytes,count" "$tool" perf --net "$plugin" -e 64 -n 1 --csv
	expect 0 '"mean_busbw_gbps"' "$tool" perf --net "$plugin" -e 64 -n 1 --json
	;;
wrong-data)
	# One bit of every large message is flipped in transit.
	for pattern in sendrecv broadcast; do
		expect 2 "FAILED" env LD_PRELOAD="$build/tests/tool/libflip.so" "$tool" perf \
			--net "$build/bench/libnccl-net-raw.so" -p $pattern -b 128K -e 128K -n 1
	done
	for pattern in all_gather gather hypercube scatter; do
		expect 2 "FAILED" env LD_PRELOAD="$build/tests/tool/libflip.so" "$tool" perf \
			--net "$build/bench/libnccl-net-raw.so" -p $pattern -b 256K -e 256K -n 1
	done
	for pattern in all_reduce reduce reduce_scatter; do
		expect 2 "FAILED" env LD_PRELOAD="$build/tests/tool/libflip.so" "$tool" perf \
			--net "$build/bench/libnccl-net-raw.so" -p $pattern -b 4M -e 4M -n 1
	done
	;;
killed)
	start_run
	kill -KILL "$victim"
	wait "$run"
	[ $? = 2 ] || fail "a killed rank is no error"
	said "rank 1 was killed by signal 9"
	;;
stopped)
	start_run --deadline 2
	kill -STOP "$victim"
	wait "$run"
	[ $? = 2 ] || fail "a frozen rank is no error"
	said "no progress for 2\.0 s"
	;;
bench)
	expect 0 "p50_us" "$build/bench/net_bench" lat,bw,connect,unauthenticated --quick --rounds 1 \
		--window 20 --sizes 8,4K --comms 3 --cpus=-1,-1 --net "$plugin"
	not_said 'nan|-$' # no rates are required: within 20 ms a busy machine may move nothing
	;;
*)
	echo "no case $case"
	exit 1
	;;
esac
exit 0

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `anynet cluster --live` on a job of four ranks over two paths, in network namespaces: live.sh BUILD_DIR [FAULTS
# [HEALTHY_S]]. Faults are planted one after another (KINDS): a slow link, a lossy one, a stopped rank, a rank on a busy
# host, a path that loses all packets in one direction. A fault counts as reported if the first finding within LIMIT
# looks of a second each names it; alarms are counted in HEALTHY_S looks before. Exit 0: 95 % are reported, without an
# alarm. Exit 77 = skipped.
# RATE (MB/s), LOSS (percent) and FIRST, the number of the first fault, which selects hosts and path, change the faults.
# STRICT=0, for the test: the first finding may be another one. Within LIMIT looks each fault must be the only finding,
# and before and after it several consecutive looks must have no finding. This is certain for a stopped rank and a dead
# path only: the findings on a slow or lossy path before the plugin leaves it, and the shares of a processor, depend on
# the machine.
set -uo pipefail
# shellcheck source=tests/said.sh
. "$(dirname "$0")/../../said.sh"
PATH=$PATH:/sbin:/usr/sbin
build=${1:?} faults=${2:-5} healthy=${3:-10}
LIMIT=${LIMIT:-30} STRICT=${STRICT:-1} FIRST=${FIRST:-0}
tool=$build/tools/anynet
out=$(mktemp -d)
mids=("anl$$m0" "anl$$m1") hosts=()
export NCCL_SOCKET_IFNAME=eth ANYNET_TRANSPORT=tcp ANYNET_TCP_CHUNK=65536
unset NCCL_NET NCCL_DEBUG ANYNET_PORT_RANGE ANYNET_ALLOW WORLD_SIZE RANK LOCAL_RANK SLURM_LOCALID

cleanup() {
	kill -CONT "${pids[@]}" 2>/dev/null
	# shellcheck disable=SC2046
	kill $(jobs -p) 2>/dev/null
	for ns in "${hosts[@]}" "${mids[@]}"; do
		ip netns del "$ns" 2>/dev/null
	done
	wait 2>/dev/null
	rm -rf "$out"
}
pids=() spinners=()
trap cleanup EXIT
[ "$(id -u)" = 0 ] || skip "network namespaces with names need root"
command -v chrt >/dev/null || skip "chrt (util-linux) is missing"

# Four hosts with a cable to each of two switches, which are not starved of the processor.
for p in 0 1; do ip netns add "${mids[p]}" 2>"$out/why" || skip "no network namespaces: $(cat "$out/why")"; done
for i in 1 2 3 4; do
	ns=anl$$h$i
	hosts+=("$ns")
	ip netns add "$ns"
	mkdir -p "$out/stats/h$i"
	ip -n "$ns" link set lo up
	for p in 0 1; do
		ip -n "$ns" link add "eth$p" type veth peer name "p$i" netns "${mids[p]}" || skip "no veth interfaces"
		ip -n "$ns" addr add "10.$((79 + p)).0.$i/24" dev "eth$p"
		ip -n "$ns" link set "eth$p" gso_max_segs 1 up
		ip -n "${mids[p]}" link set "p$i" up
		until ip -n "$ns" -br link show "eth$p" | grep ' UP ' >/dev/null; do :; done
	done
done
for p in 0 1; do
	mkfifo "$out/commands$p"
	SWITCH_COMMANDS=$out/commands$p ip netns exec "${mids[p]}" chrt -r 10 "$build/tests/tool/cluster/switch" \
		6 200 p1 p2 p3 p4 >"$out/switch$p" 2>&1 &
	until grep -qs ready "$out/switch$p"; do kill -0 $! 2>/dev/null || skip "no switch: $(cat "$out/switch$p")"; done
done
cat >"$out/ssh" <<-END
	#!/bin/bash
	exec ip netns exec "anl$$\$1" env ANYNET_STATS="$out/stats/\$1" sh -c "\$2"
END
chmod +x "$out/ssh"

"$build/tests/tool/cluster/job" "$build/libnccl-net.so" "$out/stats" "${hosts[@]}" >"$out/job" 2>&1 &
job=$!
until grep -qs '^runs' "$out/job"; do kill -0 $job 2>/dev/null || fail "no job"; done
for i in 0 1 2 3; do pids+=("$(awk -v i=$i '$1 == "rank" && $2 == i { print $4 }' "$out/job")"); done

# One JSON object per line and look.
mkfifo "$out/looks"
"$tool" cluster --live --json --ssh "$out/ssh" --hosts h1,h2,h3,h4 >"$out/looks" 2>"$out/told" &
exec 5<"$out/looks"
look() { read -r -t 250 line <&5 || fail "no look: $(cat "$out/told")"; }
# "id hosts" of all findings, on one line. Most looks have none: starting jq for each would be too slow on a busy
# machine.
findings() { [[ $line == *'"findings":[]'* ]] || jq -r '[.findings[] | "\(.id) \(.hosts | sort | join(","))"] | sort | join("; ")' <<<"$line"; }

# Skips to the first look that begins now: older ones are still in the pipe.
look_now() {
	local now
	now=$(date -u +%FT%TZ)
	while look && [[ $line =~ \"when\":\"([^\"]*) && ${BASH_REMATCH[1]} < $now ]]; do :; done
}

# link PATH TEXT...: a command for the switch of that path
link() { printf '%s\n' "${@:2}" >"$out/commands$1"; }
# True if path $p carries a tenth of what host $a or $b sends to the other. The plugin gives little to a path that has been
# slow, and nobody can notice that an unused path fails.
is_used() {
	local here
	for here in "$a h$b" "$b h$a"; do
		# Its exit status reports problems.
		jq -e --arg peer "${here#* }" --arg net "10.$((79 + p)).0." \
			'any(.processes[].connections[] | select(.peer.host == $peer) | .bytes_per_s as $all | .paths[] |
				select(.addresses | contains($net)) | (.bytes_per_s // 0) > $all / 10; .)' >/dev/null \
			< <("$tool" top --once --json --dir "$out/stats/h${here% *}") && return
	done
	return 1
}
# plant KIND NUMBER, heal KIND NUMBER: start and end a fault; $want is the expected finding
plant() {
	a=$((1 + $2 % 4)) b=$((1 + ($2 + 1 + $2 / 4 % 3) % 4)) p=$(($2 / 2 % 2))
	pair=$(printf 'h%s\n' $a $b | sort | paste -sd,)
	is_used || p=$((1 - p))
	case $1 in
	slow) want="path-(slow|loss|down) $pair" && link $p "$a,$b,rate,${RATE:-0.5}" ;;
	lossy) want="path-(slow|loss|down) $pair" && link $p "$a,$b,loss,${LOSS:-8}" ;;
	hole) want="path-(slow|loss|down) $pair" && link $p ">$a,$b,loss,100" ;;
	stop) want="rank-stopped h$a" && kill -STOP "${pids[a - 1]}" ;;
	busy)
		want="host-busy h$a" && chrt -a -i -p 0 "${pids[a - 1]}"
		for ((i = 0; i < $(nproc); i++)); do
			while :; do :; done &
			spinners+=($!)
		done
		;;
	esac
}
heal() {
	case $1 in
	slow) link $p "$a,$b,rate,6" ;;
	lossy | hole) link $p "$a,$b,loss,0" ;;
	stop) kill -CONT "${pids[a - 1]}" ;;
	busy)
		kill "${spinners[@]}"
		spinners=()
		chrt -a -o -p 0 "${pids[a - 1]}"
		;;
	esac
}

# Waits for five looks in a row without a finding: connections recover one after another.
quiet() {
	local looks well=0
	look_now
	for ((looks = 0; looks < (LIMIT > 60 ? LIMIT : 60) && well < 5; looks++)); do
		look
		[ -z "$(findings)" ] && well=$((well + 1)) || well=0
	done
	[ "$well" = 5 ] && return
	echo "$1: still '$(findings)'"
	restless=$((restless + 1))
}

read -ra kinds <<<"${KINDS:-slow lossy stop busy hole}"
right=0 alarms=0 slowest=0 restless=0
quiet start
for ((i = 0; i < healthy; i++)); do
	look
	[ -z "$(findings)" ] || { alarms=$((alarms + 1)) && echo "healthy: $(findings)"; }
done
for ((n = FIRST; n < FIRST + faults; n++)); do
	kind=${kinds[n % ${#kinds[@]}]}
	plant "$kind" "$n"
	look_now
	for ((looks = 1; looks <= LIMIT; looks++)); do
		[[ $(findings) =~ ^$want$ ]] && break
		[ "$STRICT" = 0 ] || [ -z "$(findings)" ] || break
		look
	done
	if [[ $(findings) =~ ^$want$ ]]; then
		right=$((right + 1))
		[ $looks -le $slowest ] || slowest=$looks
		echo "$kind: $(findings), after $looks looks"
	else
		echo "$kind: '$(findings)' after $looks looks instead of '$want'"
	fi
	heal "$kind"
	quiet "after $kind"
done
echo "$right of $faults faults named, the latest after $slowest looks; $alarms alarms in $healthy looks at a healthy job"
if [ "$STRICT" = 0 ]; then
	[ "$right" = "$faults" ] && [ "$restless" = 0 ]
else
	[ $((100 * right)) -ge $((95 * faults)) ] && [ "$alarms" = 0 ]
fi

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `anynet cluster` between network namespaces: cluster.sh CASE BUILD_DIR. Exit 77 = skipped. A program of the
# test's (switch.c) is the switch between them: what is slow or lossy is so on any machine, and far
# below what a busy one can do.
set -uo pipefail
PATH=$PATH:/sbin:/usr/sbin

case=${1:?} build=${2:?}
tool=$build/tools/anynet
out=$(mktemp -d)
mid=anc$$m
hosts=() # namespaces anc<pid>h1 ..., 10.79.0.1 ... on eth0
switch=
export NCCL_SOCKET_IFNAME=eth
export ANYNET_TRANSPORT=tcp
unset NCCL_NET NCCL_DEBUG ANYNET_DEBUG ANYNET_PORT_RANGE ANYNET_ALLOW
unset WORLD_SIZE RANK LOCAL_RANK SLURM_LOCALID OMPI_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID
brief=(--seconds 0 --streams 1)
rates=(--seconds 0.5 --bytes 2 --streams 1)

cleanup() {
	[ -z "$switch" ] || kill "$switch" 2>/dev/null
	for ns in "${hosts[@]}" "$mid"; do
		ip netns del "$ns" 2>/dev/null
	done
	wait 2>/dev/null
	rm -rf "$out"
}
trap cleanup EXIT

fail() {
	echo "FAIL: $*"
	head -c 3000 "$out"/* 2>/dev/null
	exit 1
}

skip() {
	echo "SKIP $*"
	exit 77
}

# make_hosts N: so many, each with a cable to the middle
make_hosts() {
	[ "$(id -u)" = 0 ] || skip "network namespaces with names need root"
	ip netns add "$mid" 2>"$out/why" || skip "no network namespaces: $(cat "$out/why")"
	for ((i = 1; i <= $1; i++)); do
		hosts+=("anc$$h$i")
		ip netns add "anc$$h$i"
		ip -n "anc$$h$i" link add eth0 type veth peer name "p$i" netns "$mid" || skip "no veth interfaces"
		ip -n "anc$$h$i" addr add "10.79.0.$i/24" dev eth0
		ip -n "anc$$h$i" link set lo up
		# Loss is of packets, not of bundles.
		ip -n "anc$$h$i" link set eth0 gso_max_segs 1 up
		ip -n "$mid" link set "p$i" up
	done
	for ns in "${hosts[@]}"; do
		until ip -n "$ns" -br link show eth0 | grep -q ' UP '; do
			:
		done
	done
}

# plug MB_PER_S DELAY_US [LINK...]: the switch, or another one in its place
plug() {
	local speed=$1 delay=$2
	shift 2
	[ -z "$switch" ] || { kill "$switch"; wait "$switch" 2>/dev/null; }
	ip netns exec "$mid" nice -n -15 "$build/tests/cluster/switch" "$speed" "$delay" \
		$(seq -f 'p%g' ${#hosts[@]}) -- "$@" >"$out/switch" 2>&1 &
	switch=$!
	until grep -qs ready "$out/switch"; do
		kill -0 "$switch" 2>/dev/null || skip "no switch: $(cat "$out/switch")"
	done
}

# What stands for ssh. Names are h1 ...; $out/env.h1 has variables of that host.
make_ssh() {
	cat >"$out/ssh" <<-END
		#!/bin/bash
		[ -e "$out/env.\$1" ] && . "$out/env.\$1"
		[ -e "$out/banner" ] && cat "$out/banner"
		exec ip netns exec "anc$$\$1" sh -c "\$2"
	END
	chmod +x "$out/ssh"
}

# drop A B: host A sees no packet of host B's
drop() {
	command -v nft >/dev/null || skip "nft (nftables) is missing"
	ip netns exec "anc$$h$1" nft -f - 2>"$out/nft" <<-END || skip "nftables does not work here: $(head -1 "$out/nft")"
		table inet t {
			chain c {
				type filter hook input priority 0;
				ip saddr 10.79.0.$2 drop
			}
		}
	END
}

# cluster STATUS [OPTION...]: by ssh; what it says is in $out/said
cluster() {
	local status=$1 got
	shift
	"$tool" cluster --ssh "$out/ssh" "$@" >"$out/said" 2>"$out/told"
	got=$?
	[[ $got = $status ]] || fail "status $got instead of $status"
}

said() {
	grep -qE -- "$1" "$out/said" || fail "it did not say: $1"
}

not_said() {
	grep -qE -- "$1" "$out/said" && fail "it said: $1"
	return 0
}

# findings FILE: one in a line, "level kind hosts", without notes
findings() {
	jq -r '.findings[] | select(.level != "note") | "\(.level) \(.kind) \(.hosts | join(","))"' "$1"
}

# found WHAT: these findings and no others
found() {
	findings "$out/run.json" >"$out/found"
	[ "$(sort "$out/found")" = "$(printf '%s\n' "$@" | sort)" ] || fail "found other things than: $*"
}

names() {
	seq -s , -f 'h%g' "$1"
}

# No worker may be left: the namespaces have no process any more.
nobody_left() {
	for ns in "${hosts[@]}"; do
		while [ -n "$(ip netns pids "$ns")" ]; do
			:
		done
	done
}

command -v jq >/dev/null || skip "jq is missing"
case $case in
eight)
	# A slow, a lossy and a filtered link among 28: all are named, and nothing else is.
	make_hosts 8
	make_ssh
	plug 16 100 1,2,rate,4 3,4,loss,6
	drop 5 6
	start=$(date +%s%N)
	cluster 2 --hosts "$(names 8)" "${rates[@]}" --save "$out/run.json" --html "$out/page.html"
	echo "eight hosts: $((($(date +%s%N) - start) / 1000000)) ms"
	found 'warning slow h1,h2' 'warning loss h3,h4' 'error broken h5,h6'
	grep -q '8 hosts, 28 pairs in 7 rounds, up to 4 at once' "$out/told" || fail "not announced"
	grep -q 'bandwidth test: .* at most 0.5 s and 2 MB' "$out/told" || fail "bandwidth was not announced"
	[ "$(jq '.links | length' "$out/run.json")" = 28 ] || fail "not 28 pairs"
	nobody_left
	;;
clean)
	# Nothing is wrong; then one host is slow, which the median and the earlier run tell.
	make_hosts 4
	make_ssh
	plug 16 100
	cluster 0 --hosts "$(names 4)" "${rates[@]}" --save "$out/run.json"
	found
	said 'fine: '
	said '6 pairs: 0 over InfiniBand or RoCE, 6 over TCP, 0 broken, 0 not measured'
	said 'bandwidth in GB/s, from row to column: least 0.0'
	plug 16 100 '2,*,rate,4'
	mv "$out/run.json" "$out/before.json"
	cluster 1 --hosts "$(names 4)" "${rates[@]}" --save "$out/run.json" --baseline "$out/before.json"
	found 'warning slow h2' 'warning slower h2'
	said 'h2: slow with 3 of 3 hosts'
	# Not measured is not worse; a host that was not there before is no fault.
	cluster 0 --hosts h1,h3,h4 "${brief[@]}" --save "$out/run.json" --baseline "$out/before.json"
	found
	said 'note: h2: was in the earlier run, and is not now'
	nobody_left
	;;
*)
	echo "no case $case"
	exit 1
	;;
esac
exit 0

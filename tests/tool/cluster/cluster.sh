#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `anynet cluster` between network namespaces: cluster.sh CASE BUILD_DIR. Exit 77 = skipped. The switch between them is
# a program of the test (switch.c), so that a slow or lossy link is slow or lossy on any machine. Other figures depend
# on the load of the machine, and are not checked here; test_cluster_judge tests what figures mean.
set -uo pipefail
# shellcheck source=tests/said.sh
. "$(dirname "$0")/../../said.sh"
PATH=$PATH:/sbin:/usr/sbin

case=${1:?} build=${2:?}
tool=$build/tools/anynet
out=$(mktemp -d)
mid=anc$$m
hosts=() # namespaces anc<pid>h1 ..., 10.79.0.1 ... on eth0
export NCCL_SOCKET_IFNAME=eth
export ANYNET_TRANSPORT=tcp
unset NCCL_NET NCCL_DEBUG ANYNET_DEBUG ANYNET_PORT_RANGE ANYNET_ALLOW
unset WORLD_SIZE RANK LOCAL_RANK SLURM_LOCALID OMPI_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID
brief=(--seconds 0 --streams 1)
rates=(--seconds 5 --bytes 1 --streams 1)

cleanup() {
	# shellcheck disable=SC2046
	kill $(jobs -p) 2>/dev/null
	for ns in "${hosts[@]}" "$mid"; do
		ip netns del "$ns" 2>/dev/null
	done
	wait 2>/dev/null
	rm -rf "$out"
}
trap cleanup EXIT

# make_hosts N: creates N hosts, each with a cable to the middle
make_hosts() {
	[ "$(id -u)" = 0 ] || skip "network namespaces with names need root"
	ip netns add "$mid" 2>"$out/why" || skip "no network namespaces: $(cat "$out/why")"
	for ((i = 1; i <= $1; i++)); do
		hosts+=("anc$$h$i")
		ip netns add "anc$$h$i"
		ip -n "anc$$h$i" link add eth0 type veth peer name "p$i" netns "$mid" || skip "no veth interfaces"
		ip -n "anc$$h$i" addr add "10.79.0.$i/24" dev eth0
		ip -n "anc$$h$i" link set lo up
		# Packets are lost one by one, not in segments of offloading.
		ip -n "anc$$h$i" link set eth0 gso_max_segs 1 up
		ip -n "$mid" link set "p$i" up
	done
	for ns in "${hosts[@]}"; do
		until ip -n "$ns" -br link show eth0 | grep ' UP ' >/dev/null; do
			sleep 0.01
		done
	done
}

# plug MB_PER_S DELAY_US [LINK...]: the switch
plug() {
	local speed=$1 delay=$2 switch
	shift 2
	ip netns exec "$mid" nice -n -15 "$build/tests/tool/cluster/switch" "$speed" "$delay" \
		$(seq -f 'p%g' ${#hosts[@]}) -- "$@" >"$out/switch" 2>&1 &
	switch=$!
	until grep -qs ready "$out/switch"; do
		kill -0 "$switch" 2>/dev/null || skip "no switch: $(cat "$out/switch")"
		sleep 0.01
	done
}

# Replaces ssh. Names are h1 ...; $out/env.h1 has variables of that host, and $pipes: two pipes instead of one socket,
# as some logins have.
# instead of one socket, as some logins have.
make_ssh() {
	cat >"$out/ssh" <<-END
		#!/bin/bash
		[ -e "$out/env.\$1" ] && . "$out/env.\$1"
		[ -e "$out/banner" ] && cat "$out/banner"
		[ -z "\$pipes" ] || { cat | ip netns exec "anc$$\$1" sh -c "\$2" | cat; exit; }
		exec ip netns exec "anc$$\$1" sh -c "\$2"
	END
	chmod +x "$out/ssh"
}

# drop A B [ACTION]: drops the packets of host B at host A
drop() {
	command -v nft >/dev/null || skip "nft (nftables) is missing"
	ip netns exec "anc$$h$1" nft -f - 2>"$out/nft" <<-END || skip "nftables does not work here: $(head -1 "$out/nft")"
		table inet t {
			chain c {
				type filter hook input priority 0;
				ip saddr 10.79.0.$2 ${3:-drop}
			}
			chain o {
				type filter hook output priority 0;
				ip daddr 10.79.0.$2 ${3:-drop}
			}
		}
	END
}

# cluster STATUS [OPTION...]: runs by ssh; the output is in $out/said
cluster() {
	local status=$1 got
	shift
	"$tool" cluster --ssh "$out/ssh" "$@" >"$out/said" 2>"$out/told"
	got=$?
	[[ $got = $status ]] || fail "status $got instead of $status"
}

# findings FILE: one finding per line, "level kind hosts", without notes
findings() {
	jq -r '.findings[] | select(.level != "note") | "\(.level) \(.id) \(.hosts | join(","))"' "$1"
}

# found_too WHAT: at least these findings; a busy machine may cause others
found_too() {
	findings "$out/run.json" >"$out/found"
	for finding in "$@"; do
		grep -qxF -- "$finding" "$out/found" || fail "not found: $finding"
	done
}

# figures FILTER: a jq condition on the run; $link["h1-h2"] is the measurement between the two
figures() {
	jq -e '[.links[] | { key: ([.a, .b] | sort | join("-")), value: . }] | from_entries as $link | '"$1" \
		"$out/run.json" >/dev/null || fail "figures that cannot be: $1"
}

# found WHAT: exactly these findings
found() {
	findings "$out/run.json" >"$out/found"
	[ "$(sort "$out/found")" = "$(printf '%s\n' "$@" | sort)" ] || fail "found other things than: $*"
}

names() {
	seq -s , -f 'h%g' "$1"
}

# Waits until no worker is left: the namespaces have no process any more.
nobody_left() {
	for ns in "${hosts[@]}"; do
		while [ -n "$(ip netns pids "$ns")" ]; do
			sleep 0.01
		done
	done
}

command -v jq >/dev/null || skip "jq is missing"
case $case in
links)
	# A slow, a lossy and a filtered link among 28.
	make_hosts 8
	make_ssh
	plug 16 0 1,2,rate,4 3,4,loss,3
	drop 5 6
	start=$(date +%s%N)
	cluster 2 --hosts "$(names 8)" "${rates[@]}" --save "$out/run.json" --html "$out/page.html"
	echo "eight hosts: $((($(date +%s%N) - start) / 1000000)) ms"
	found_too 'error broken h5,h6'
	figures '($link["h1-h2"].mb_s | max) < ([$link[] | select(.state == "ok") | .mb_s[]] | max)'
	figures '$link["h3-h4"].lost | add > 0'
	figures '[$link[] | select(.state == "ok") | .mb_s[]] | length == 54 and all(. > 0)'
	grep -q '8 hosts, 28 pairs in 7 rounds, up to 4 at once' "$out/told" || fail "not announced"
	grep -q 'bandwidth test: .* limited to 5.0 s and 1 MB' "$out/told" || fail "bandwidth was not announced"
	[ "$(jq '.links | length' "$out/run.json")" = 28 ] || fail "not 28 pairs"
	nobody_left
	;;
clean)
	# A healthy run; then an earlier run, derived from this one, in which one host was faster.
	make_hosts 3
	make_ssh
	plug 16 0
	cluster 0 --hosts "$(names 3)" "${brief[@]}" --save "$out/run.json" --html "$out/page.html"
	found
	said 'ok: '
	grep -q '<p>None.</p>' "$out/page.html" || fail "the page has findings"
	cluster '[01]' --hosts "$(names 3)" "${rates[@]}" --save "$out/run.json"
	said '3 pairs: 0 over InfiniBand or RoCE, 3 over TCP, 0 broken, 0 not measured'
	said 'bandwidth in GB/s, from row to column: min 0.0'
	jq '.links |= map(.us_least = 1e6 | .mb_s = if .a == "h2" or .b == "h2" then [99, 99] else [0.001, 0.001] end)' \
		"$out/run.json" >"$out/before.json"
	cluster 1 --hosts "$(names 3)" "${rates[@]}" --save "$out/run.json" --baseline "$out/before.json"
	found_too 'warning slower h2'
	said 'h2: slower than earlier with 2 of 2 hosts'
	grep -q 'repeat 2 of ' "$out/told" || fail "what is slower was not looked at again"
	# A missing measurement is not slower; a host that is missing now is only a note.
	cluster 0 --hosts h1,h3 "${brief[@]}" --save "$out/run.json" --baseline "$out/before.json"
	found
	said 'note: h2: was in the earlier run, but not in this one'
	nobody_left
	;;
settings)
	# Hosts that differ, a partitioned cluster, a missing host, and a login that prints text.
	make_hosts 3
	make_ssh
	plug 1000 0
	drop 3 1 reject
	drop 3 2 reject
	echo 'export NCCL_ALGO=Ring WORLD_SIZE=24 RANK=0; pipes=1' >"$out/env.h1"
	echo 'export NCCL_ALGO=Tree WORLD_SIZE=24 RANK=8' >"$out/env.h2"
	echo 'export NCCL_ALGO=Ring WORLD_SIZE=16 RANK=8 NCCL_SOCKET_IFNAME=lo' >"$out/env.h3"
	{ echo 'Welcome! anynetP anyne anynetPPR'; seq 100; } >"$out/banner"
	cluster 2 --hosts "$(names 4)" "${brief[@]}" --save "$out/run.json" --html "$out/page.html"
	found 'error missing h4' 'error broken h3' 'warning setting h2' 'error launcher h3' \
		'error launcher ' 'error device h3'
	said "error: h4: anynet did not start there: 'Cannot open network namespace"
	said 'error: h3: broken with 2 of 2 hosts'
	said 'warning: NCCL_ALGO: Tree on h2; Ring on h1, h3'
	said 'error: WORLD_SIZE: 16 on h3; 24 on h1, h2'
	said 'error: RANK: 8 on h2, h3'
	said 'note: NCCL_SOCKET_IFNAME: lo on h3; eth on h1, h2'
	said 'error: h3: the plugin gets only the loopback interface'
	while read -r level what; do
		grep -q "<p><span class=\"level\">$level</span> $what" "$out/page.html" || fail "not in the page: $what"
	done < <(jq -r '.findings[] | "\(.level) \(.finding)"' "$out/run.json" | sed "s/'/\&#39;/g; s/\"/\&quot;/g")
	nobody_left
	;;
range)
	# A small range of ports, of which the worker takes one; on one host, a job holds the last one, and libraries do not
	# answer. They are asked once, not for each pair.
	make_hosts 2
	make_ssh
	plug 1000 0
	export ANYNET_PORT_RANGE=47000-47003
	ip netns exec "${hosts[1]}" python3 -c 'import socket, time
s = socket.create_server(("10.79.0.2", 47003)); time.sleep(250)' &
	mkdir "$out/slow"
	mkfifo "$out/slow/libnvidia-ml.so.1" "$out/slow/libnccl.so.2"
	echo "export LD_LIBRARY_PATH=$out/slow" >"$out/env.h2"
	cluster '[01]' --hosts "$(names 2)" "${brief[@]}" --save "$out/run.json"
	said '1 over TCP, 0 broken'
	not_said '^error|GPUs|NCCL on the library'
	said 'h2 .* NCCL not known'
	[ "$(jq '[.links[0].measured.ports[] | select(.state == "ok")] | length' "$out/run.json")" = 4 ] ||
		fail "not four ports"
	;;
rendezvous)
	# Started by a launcher: an unauthenticated connection, a peer that joins but is no worker, two processes on one
	# host.
	make_hosts 3
	plug 1000 0
	meet=(--rendezvous 10.79.0.1:4711 --wait 250 "${brief[@]}")
	ip netns exec "${hosts[0]}" "$tool" cluster "${meet[@]}" --nodes 3 --save "$out/run.json" >"$out/said" 2>"$out/told" &
	coordinator=$!
	until ip netns exec "${hosts[2]}" bash -c 'exec 3<>/dev/tcp/10.79.0.1/4711' 2>/dev/null; do
		kill -0 "$coordinator" || fail "no coordinator"
	done
	# One connection sends nothing, one half a greeting: both stay open until the end.
	ip netns exec "${hosts[2]}" bash -c 'exec 3<>/dev/tcp/10.79.0.1/4711 4<>/dev/tcp/10.79.0.1/4711; printf anyn >&4; cat <&3' >"$out/silent" &
	ip netns exec "${hosts[2]}" bash -c 'exec 3<>/dev/tcp/10.79.0.1/4711; printf "GET / HTTP/1.1\r\n\r\n" >&3; cat <&3' >"$out/http"
	[ -s "$out/http" ] && fail "an unauthenticated peer was sent data"
	ip netns exec "${hosts[2]}" bash -c 'exec 3<>/dev/tcp/10.79.0.1/4711; printf "anynetPR\0\0\0\2\xff\xff\xff\xff" >&3; cat <&3' >"$out/long"
	# The second process of that host is not needed, and exits at once.
	LOCAL_RANK=1 ip netns exec "${hosts[1]}" "$tool" cluster "${meet[@]}" --nodes 3 || fail "a second process of a host"
	ip netns exec "${hosts[2]}" bash -c 'exec 3<>/dev/tcp/10.79.0.1/4711
		join="{\"op\":\"join\",\"name\":\"-<b>\\u202eevil\",\"port\":9999}"
		printf "anynetPR\0\0\0\2\0\0\0\x$(printf %x ${#join})%s" "$join" >&3
		head -c 20 <&3 >/dev/null' &
	ip netns exec "${hosts[1]}" "$tool" cluster "${meet[@]}" --nodes 3 || fail "the other host's status"
	wait "$coordinator"
	[ $? = 2 ] || fail "a worker that leaves is no error"
	said 'error: __b____evil: its worker has ended'
	[ "$(jq -c '[(.links | length), .links[0].state]' "$out/run.json")" = '[1,"ok"]' ] || fail "the others did not meet"
	[ "$(jq -r '[.hosts[].name] | unique | length' "$out/run.json")" = 3 ] || fail "two hosts of one name"
	# Too few hosts arrive; and a host finds no coordinator. On a busy machine the own worker may be late as well.
	: >"$out/said"
	until grep -q 'only 1 of 2 hosts' "$out/said"; do
		ip netns exec "${hosts[0]}" "$tool" cluster "${meet[@]}" --nodes 2 --wait 1 >"$out/said" 2>"$out/told"
		[ $? = 2 ] || fail "alone is no error"
	done
	said 'error: missing-1: only 1 of 2 hosts arrived at 10.79.0.1 port 4711 within 1 s'
	ip netns exec "${hosts[1]}" "$tool" cluster "${meet[@]}" --nodes 2 --wait 1 >"$out/said" 2>&1
	[ $? = 2 ] || fail "nobody there is no error"
	said '10.79.0.1 port 4711: Connection refused'
	# Addresses distinguish hosts of the same name; ANYNET_ALLOW rejects others.
	export ANYNET_ALLOW=10.79.0.1,10.79.0.2
	ip netns exec "${hosts[0]}" "$tool" cluster "${meet[@]}" --nodes 2 --save "$out/run.json" >"$out/said" 2>"$out/told" &
	coordinator=$!
	until ip netns exec "${hosts[2]}" bash -c 'exec 3<>/dev/tcp/10.79.0.1/4711' 2>/dev/null; do
		kill -0 "$coordinator" || fail "no coordinator"
	done
	ip netns exec "${hosts[2]}" "$tool" cluster "${meet[@]}" --nodes 2 >"$out/out" 2>&1
	[ $? = 2 ] || fail "one that is not allowed took part"
	ip netns exec "${hosts[1]}" "$tool" cluster "${meet[@]}" --nodes 2 || fail "the one that is allowed"
	wait "$coordinator" || fail "a rendezvous of two"
	unset ANYNET_ALLOW
	[ "$(jq -r '[.hosts[].name | sub(".*@"; "")] | join(" ")' "$out/run.json")" = '10.79.0.1 10.79.0.2' ] || fail "names"
	;;
killed)
	# The coordinator is killed, then a worker, between rounds or within one.
	make_hosts 3
	make_ssh
	plug 16 0
	for who in coordinator worker; do
		: >"$out/told"
		"$tool" cluster --ssh "$out/ssh" --hosts "$(names 3)" --seconds 1 --streams 1 --save "$out/run.json" \
			>"$out/said" 2>"$out/told" &
		coordinator=$!
		until grep -q 'round 1' "$out/told"; do
			kill -0 "$coordinator" || fail "the run ended early"
		done
		[ "$who" = coordinator ] || break
		kill -KILL "$coordinator"
		wait "$coordinator" 2>/dev/null
		nobody_left
	done
	# Word splitting is intended.
	# shellcheck disable=SC2046
	kill -KILL $(ip netns pids "${hosts[2]}")
	wait "$coordinator"
	[ $? = 2 ] || fail "a worker that vanishes is no error"
	said 'error: h3: its worker has ended'
	[ "$(jq -r '.links[] | select(.a != "h3" and .b != "h3") | .state' "$out/run.json")" = ok ] || fail "the others were not measured"
	nobody_left
	;;
page)
	# The page loads nothing from elsewhere, and is well-formed.
	command -v xmllint >/dev/null || skip "xmllint (libxml2-utils) is missing"
	"$build/tests/tool/cluster/test_cluster_page" "$out/page.html" || fail "no page"
	xmllint --noout "$out/page.html" || fail "not well-formed"
	[ "$(xmllint --xpath 'count(//@src | //@href | //@action | //@data | //@onerror | //@srcset)' "$out/page.html")" = 0 ] || fail "it refers to something"
	grep -oE 'url\(|@import|https?://[a-z0-9./]*' "$out/page.html" | grep -v '^http://www.w3.org/1999/xhtml$' && fail "it refers to something"
	[ "$(xmllint --xpath 'count(//*[local-name()="script"])' "$out/page.html")" = 1 ] || fail "a script came in"
	[ "$(xmllint --xpath 'count(//*[local-name()="img" or local-name()="b"])' "$out/page.html")" = 0 ] || fail "an element came in"
	;;
usage)
	for bad in "" "--hosts a" "--hosts a,a" "--hosts a,-l" "--hosts a;b,c" "--hosts a,b --rendezvous c:1 --nodes 2" \
		"--rendezvous a --nodes 2" "--rendezvous a:1" "--rendezvous a:1 --nodes 257" "--hosts a,b --seconds 11" "--hosts a,b x" \
		"--hosts a,b --baseline /dev/null" "--hosts-file /none" "--hosts-file /dev/null" \
		"--hosts a,b --baseline $0"; do
		# Word splitting is intended.
		# shellcheck disable=SC2086
		"$tool" cluster $bad >"$out/said" 2>&1
		[ $? = 3 ] || fail "accepted: anynet cluster $bad"
	done
	"$tool" cluster --hosts a,b --ssh ' ' >"$out/said" 2>&1
	[ $? = 3 ] || fail "accepted: no command for ssh"
	# Peers that are not a coordinator, and not a worker.
	printf 'GET / HTTP/1.1\r\n\r\n' | "$tool" cluster --worker >"$out/said" 2>"$out/told"
	[ $? = 1 ] || fail "a worker with a foreign token"
	"$tool" cluster --worker </dev/null >"$out/said" 2>"$out/told"
	[ $? = 1 ] || fail "a worker of nobody"
	printf '# two\na b # c\n\n' >"$out/list"
	"$tool" cluster --hosts-file "$out/list" --ssh false --save "$out/run.json" >"$out/said" 2>"$out/told"
	[ $? = 2 ] || fail "no worker is no error"
	found 'error missing a' 'error missing b'
	# Longer than a saved run of 256 hosts.
	{
		printf '{"format": 1, "hosts": [{"name": "a"}, {"name": "b"}], "links": ['
		head -c 90000000 /dev/zero | tr '\0' ' '
		printf '{"a": "a", "b": "b", "measured": {}}]}'
	} >"$out/before.json"
	"$tool" cluster --hosts a,b --ssh false --baseline "$out/before.json" >"$out/said" 2>"$out/told"
	[ $? = 2 ] || fail "a large run is no baseline"
	rm "$out/before.json"
	"$tool" cluster --hosts a,b --ssh "no-such-command-$$" >"$out/said" 2>"$out/told"
	said "error: a: anynet did not start there: 'no-such-command-$$: No such file or directory'"
	# The command for ssh may have many words.
	printf '#!/bin/sh\necho "$#" >&2\n' >"$out/count"
	chmod +x "$out/count"
	"$tool" cluster --hosts a,b --ssh "$out/count $(seq -s ' ' 100)" >"$out/said" 2>"$out/told"
	said "error: a: anynet did not start there: '102'"
	"$tool" cluster --hosts a,b --ssh yes >"$out/said" 2>"$out/told"
	[ $? = 2 ] || fail "endless noise"
	"$tool" cluster --hosts a,b --ssh false --html /none/page >"$out/said" 2>"$out/told"
	grep -q '/none/page cannot be written' "$out/told" || fail "a page that is not written"
	;;
*)
	echo "no case $case"
	exit 1
	;;
esac
exit 0

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `anynet pair` and `anynet serve` between two network namespaces: pair.sh CASE BUILD_DIR. Exit 77 = skipped.
set -uo pipefail
# shellcheck source=tests/said.sh
. "$(dirname "$0")/../../said.sh"
PATH=$PATH:/sbin:/usr/sbin

case=${1:?} build=${2:?}
tool=$build/tools/anynet
out=$(mktemp -d)
a=anp$$a b=anp$$b m=anp$$m # of the client, the server, and the router between them
server=
export NCCL_SOCKET_IFNAME=eth
export ANYNET_TRANSPORT=tcp
unset NCCL_NET NCCL_DEBUG ANYNET_PORT_RANGE ANYNET_ALLOW
# Short tests: rates on a busy machine are not checked.
serve_json= # or --json
brief=(--seconds 0 --streams 2)
rates=(--seconds 0.1 --bytes 64)

cleanup() {
	# shellcheck disable=SC2046
	kill $(jobs -p) 2>/dev/null
	wait 2>/dev/null
	for ns in "$a" "$b" "$m"; do
		ip netns del "$ns" 2>/dev/null
	done
	rm -rf "$out"
}
trap cleanup EXIT

# The kernel reports the carrier some time after the other end is up.
await_carriers() {
	for ns in "$@"; do
		while ip -n "$ns" -br link show | grep '^eth.* \(DOWN\|LOWERLAYERDOWN\) ' >/dev/null; do
			sleep 0.01
		done
	done
}

# Two hosts, eth0 10.78.0.1 and .2, connected directly.
make_hosts() {
	[ "$(id -u)" = 0 ] || skip "network namespaces with names need root"
	ip netns add "$a" 2>"$out/why" && ip netns add "$b" || skip "no network namespaces: $(cat "$out/why")"
	ip -n "$a" link add eth0 type veth peer name eth0 netns "$b" || skip "no veth interfaces"
	ip -n "$a" addr add 10.78.0.1/24 dev eth0
	ip -n "$b" addr add 10.78.0.2/24 dev eth0
	ip -n "$a" link set lo up
	ip -n "$b" link set lo up
	ip -n "$a" link set eth0 up
	ip -n "$b" link set eth0 up
	await_carriers "$a" "$b"
}

# Two hosts with a router between them: 10.78.1.1 and 10.78.2.1.
make_routed() {
	[ "$(id -u)" = 0 ] || skip "network namespaces with names need root"
	ip netns add "$a" 2>"$out/why" && ip netns add "$b" && ip netns add "$m" ||
		skip "no network namespaces: $(cat "$out/why")"
	ip -n "$a" link add eth0 type veth peer name left netns "$m" || skip "no veth interfaces"
	ip -n "$b" link add eth0 type veth peer name right netns "$m"
	ip -n "$a" addr add 10.78.1.1/24 dev eth0
	ip -n "$b" addr add 10.78.2.1/24 dev eth0
	ip -n "$m" addr add 10.78.1.254/24 dev left
	ip -n "$m" addr add 10.78.2.254/24 dev right
	for link in "$a eth0" "$b eth0" "$m left" "$m right"; do
		ip -n "${link% *}" link set "${link#* }" up
	done
	await_carriers "$a" "$b"
	ip -n "$a" route add default via 10.78.1.254
	ip -n "$b" route add default via 10.78.2.254
	ip netns exec "$m" sysctl -qw net.ipv4.ip_forward=1
}

# rules NAMESPACE RULE: one nftables rule for incoming or forwarded packets
rules() {
	command -v nft >/dev/null || skip "nft (nftables) is missing"
	ip netns exec "$1" nft -f - 2>"$out/nft" <<-END || skip "nftables does not work here: $(head -1 "$out/nft")"
		table inet t {
			chain c {
				type ${3:-filter} hook ${4:-input} priority ${5:-0};
				$2
			}
		}
	END
}

# serve [VARIABLE=VALUE...]: a server in the second namespace; its port is in $port
serve_options=()
serve() {
	: >"$out/served" # removes the output of an earlier server, which had another port
	ip netns exec "$b" env "$@" "$tool" serve --port 0 "${serve_options[@]}" $serve_json >"$out/served" 2>&1 &
	server=$!
	until port=$(grep -soP 'listening on .*port \K[0-9]+' "$out/served"); do
		kill -0 "$server" 2>/dev/null || fail "the server did not start"
		sleep 0.01
	done
}

# pair STATUS ADDRESS [VARIABLE=VALUE...]: runs in the first namespace; the status is a pattern
pair() {
	local status=$1 address=$2 got
	shift 2
	ip netns exec "$a" env "$@" "$tool" pair "${brief[@]}" "$address:$port" >"$out/said" 2>&1
	got=$?
	[[ $got = $status ]] || fail "status $got instead of $status"
}

# Waits for a line of the server; ctest's time limit ends it if the line never appears.
until_served() {
	until grep -qE -- "$1" "$out/served"; do
		kill -0 "$server" 2>/dev/null || fail "the server has ended"
		sleep 0.01
	done
}

case $case in
clean)
	make_hosts
	serve
	pair 0 10.78.0.2
	said 'ok: '
	not_said 'bandwidth test'
	not_said '^(warning|error)'
	until_served '10.78.0.1 done'
	# A second run with rates; warnings due to a loaded machine are permitted.
	brief+=("${rates[@]}")
	pair '[01]' 10.78.0.2
	not_said '^error'
	said 'path +10.78.0.1 \(eth0, MTU 1500\) to 10.78.0.2 \(eth0, MTU 1500\)'
	said 'path MTU 1500'
	said 'clock  other host .* accurate to'
	said 'port +outbound +10.78.0.2:[0-9]+ +ok'
	said 'port +inbound +10.78.0.1:[0-9]+ +ok'
	said 'round trip of 8 bytes: min [0-9.]+, median [0-9.]+, p90 [0-9.]+, p99 [0-9.]+, p99.9 [0-9.]+, max'
	said 'tcp +inbound +1 stream .* segments retransmitted, bottleneck:'
	said 'plugin tcp +outbound +2 connections .* of [1-9][0-9]* segments retransmitted, bottleneck:'
	said 'plugin tcp +inbound +1 connection .* of [1-9][0-9]* segments retransmitted, bottleneck:'
	said 'bandwidth test: 6 runs, each limited to 0.1 s and 64 MB'
	brief+=(--json)
	pair '[01]' 10.78.0.2
	said '"sndbuf_limited_us": [0-9]'
	said '"findings": '
	command -v jq >/dev/null || skip "jq is missing"
	# The line on standard error announces the bandwidth test.
	sed '/^bandwidth test/d' "$out/said" | jq -e '
		(.plugin[0].latency | .min <= .p10 and .p10 <= .median and .median <= .p90 and .p90 <= .p99
			and .p99 <= .p999 and .p999 <= .max and .count > 0)
		and (.plugin[0].runs | length == 4 and all(.[]; .streams == .channels and .segments > 0
			and .retransmits >= 0 and (.limited_by | length > 0)))
		and all(.tcp[]; .window_bytes > 0 and (.limited_by | length > 0))' >/dev/null ||
		fail "figures that cannot be"
	;;
gpus)
	make_hosts
	serve_json=--json
	mkdir "$out/nvml"
	cp "$build/tests/fakes/files/libfake_nvml.so" "$out/nvml/libnvidia-ml.so.1"
	gpus=("LD_LIBRARY_PATH=$out/nvml")
	serve "${gpus[@]}"
	pair 0 10.78.0.2 "${gpus[@]}"
	[ "$(grep -c '^ *1 x .*, driver 535.104.05$' "$out/said")" = 2 ] || fail "no GPU of each"
	# A GPU library that fails to initialise counts as no GPU.
	pair 1 10.78.0.2 "${gpus[@]}" FAKE_NVML=18
	said 'warning: GPUs: 1 x .* on the other host; none on this host'
	said 'note: NVIDIA.s driver: 535.104.05 on the other host; none on this host'
	# Libraries that do not answer: nothing is known of them, and the client waits for the server that waits for both.
	mkdir "$out/slow"
	mkfifo "$out/slow/libnvidia-ml.so.1" "$out/slow/libnccl.so.2"
	kill "$server"
	wait "$server" 2>/dev/null
	serve "LD_LIBRARY_PATH=$out/slow"
	pair 0 10.78.0.2 "${gpus[@]}"
	said 'other host.: anynet [^ ]*, NCCL not known'
	said 'GPUs not known: NVML did not answer'
	not_said 'NVIDIA.s driver'
	until_served '"says":"10.78.0.1 done"'
	command -v jq >/dev/null || skip "jq is missing"
	jq -es 'length > 3 and all(.[]; .when and .says) and any(.[]; .client == "10.78.0.1")' "$out/served" \
		>/dev/null || fail "what the server says is no JSON"
	;;
window)
	# The figures show a receiver with small buffers. (test_pair_verdict tests the verdict on such figures.)
	make_hosts
	command -v jq >/dev/null || skip "jq is missing"
	ip netns exec "$b" sysctl -qw net.ipv4.tcp_rmem='4096 16384 16384' || skip "no tcp_rmem of a namespace"
	serve
	brief+=("${rates[@]}" --json)
	pair '[01]' 10.78.0.2
	sed '/^bandwidth test/d' "$out/said" | jq -e '
		[.tcp[] | select(.to == "server" and .streams == 1)] as $small
		| [.tcp[] | select(.to == "client" and .streams == 1)] as $large
		| ($small + $large | length == 2) and all($small[]; .window_bytes <= 16384 and .rwnd_limited_us > 0)
		and all($large[]; .window_bytes > 16384)' >/dev/null || fail "it does not see the receiver's window"
	;;
verbs)
	# Adapters of the fake libibverbs at both ends, connected.
	make_hosts
	mkdir "$out/wire"
	adapter() {
		echo "device fake0; port layer=eth gid=0,$1,v2,eth0; wire $out/wire"
	}
	verbs=(ANYNET_TRANSPORT=auto "ANYNET_IBVERBS_LIB=$build/tests/fakes/verbs/libibverbs.so.1")
	serve "${verbs[@]}" "FAKE_VERBS=$(adapter 10.78.0.2)"
	brief+=("${rates[@]}")
	pair '[01]' 10.78.0.2 "${verbs[@]}" "FAKE_VERBS=$(adapter 10.78.0.1)"
	not_said '^error|InfiniBand or RoCE'
	said 'device 0  fake0  IB '
	said 'plugin ib +round trip of 8 bytes: min'
	said 'plugin ib +outbound +2 connections +[0-9.]+ GB/s$'
	said 'plugin ib +inbound +1 connection '
	# An adapter that cannot reach itself is not used.
	pair 1 10.78.0.2 "${verbs[@]}" "FAKE_VERBS=$(adapter 10.78.0.1); vanish fake0:1 any"
	said 'warning: devices: .* IB .* on the other host; .* TCP .* on this host'
	not_said 'plugin ib'
	# Lost packets between the adapters are reported; TCP works.
	pair 1 10.78.0.2 "${verbs[@]}" "FAKE_VERBS=$(adapter 10.78.0.1); vanish fake0:1 10.78.0.2"
	said 'warning: InfiniBand or RoCE does not work between them: .*packets of [0-9]* bytes do not get through'
	said 'plugin tcp +outbound +2 connections'
	not_said '^error'
	;;
filtered)
	make_hosts
	rules "$b" 'tcp dport 47002 drop'
	serve ANYNET_PORT_RANGE=47000-47002
	pair 2 10.78.0.2
	said 'error: from this host to the other host, 10.78.0.2 port 47002: no answer'
	said 'port +outbound +10.78.0.2:47000 +ok'
	said 'a firewall that drops'
	;;
inbound)
	# Only the inbound direction is blocked: the client knows this from the server alone.
	make_hosts
	rules "$a" 'tcp flags & (syn | ack) == syn drop'
	serve
	pair 2 10.78.0.2
	said 'error: from the other host to this host, 10.78.0.1 port [0-9]+: no answer'
	not_said 'error: from this host'
	not_said '^plugin'
	;;
refused)
	make_hosts
	rules "$b" 'tcp dport 47001 reject with tcp reset'
	serve ANYNET_PORT_RANGE=47000-47002
	pair 2 10.78.0.2
	said 'port 47001: refused \(Connection refused\)'
	;;
shaped)
	# One direction is slow in each of several measurements: this is reported; after one measurement it is not.
	make_hosts
	command -v tc >/dev/null || skip "tc is missing"
	ip netns exec "$b" tc qdisc add dev eth0 root tbf rate 40mbit burst 64k limit 4m || skip "no tbf"
	serve
	brief+=("${rates[@]}")
	pair 1 10.78.0.2
	said 'warning: through the plugin .tcp., 5 measurements: .* GB/s to the other host, 0.0.* GB/s to this host'
	said 'One direction is much slower: a shaper, or a busy host'
	not_said 'cable|faulty link'
	;;
unreachable)
	make_hosts
	rules "$b" 'tcp dport 47001 reject with icmp type host-unreachable'
	serve ANYNET_PORT_RANGE=47000-47002
	pair 2 10.78.0.2
	said 'port 47001: unreachable'
	;;
no-server)
	make_hosts
	port=4747
	pair 2 10.78.0.2
	said 'port 4747: Connection refused'
	said 'Start .anynet serve'
	said '^nothing was measured: NCCL between these hosts was not tested'
	not_said 'fail or hang|same --port'
	rules "$b" 'tcp dport 4747 drop'
	pair 2 10.78.0.2
	said 'no answer; a firewall may drop the packets'
	;;
blackhole)
	# Packets of more than 1400 bytes are lost between the hosts, without an ICMP message.
	make_routed
	ip -n "$m" link set left mtu 1400
	ip -n "$m" link set right mtu 1400
	rules "$m" 'icmp type destination-unreachable drop' filter output
	# Makes the messages of the control connection longer than that.
	for i in 1 2 3 4 5 6; do
		export "NCCL_FILLER_$i=$(printf '%0400d' 0)"
	done
	serve
	pair 2 10.78.2.1
	said 'from this host to the other host, 10.78.2.1 port [0-9]+: stalled .*; packets of 1400 bytes pass'
	said 'from the other host to this host, 10.78.1.1 port [0-9]+: stalled'
	said 'MTU black hole'
	;;
nat)
	make_routed
	rules "$m" 'oifname right masquerade' nat postrouting 100
	ip -n "$b" route del default
	serve
	pair 2 10.78.2.1
	said 'warning: NAT: the address of this host is 10.78.1.1, but the other host sees 10.78.2.254'
	;;
settings)
	make_hosts
	ip -n "$b" link set eth0 mtu 1400
	ip -n "$a" link set eth0 mtu 1500
	(umask 77; head -c 32 /dev/urandom >"$out/hush")
	serve NCCL_BUFFSIZE=1048576 NCCL_ALGO=Ring NCCL_DEBUG=WARN ANYNET_SECRET_FILE="$out/hush" NCCL_PSK=marzipan
	pair 2 10.78.0.2 NCCL_ALGO=Tree NCCL_PROTO=Simple
	said "warning: NCCL_ALGO: Ring on the other host; Tree on this host"
	said "warning: NCCL_BUFFSIZE: 1048576 on the other host; not set on this host"
	said "warning: NCCL_PROTO: not set on the other host; Simple on this host"
	said "note: NCCL_DEBUG: WARN on the other host; not set on this host"
	said 'warning: MTU: 1500 on eth0 of this host, 1400 on eth0 of the other host'
	not_said 'GPUs'
	# Neither a key nor the file's name is reported. Without the secret, the plugin rejects the connection.
	not_said hush
	not_said marzipan
	said 'NCCL_PSK: \(set\) on the other host'
	said 'error: through the plugin'
	;;
killed)
	make_hosts
	serve
	# A client that disconnects within a frame, and one that is killed.
	ip netns exec "$a" bash -c "exec 3<>/dev/tcp/10.78.0.2/$port; printf 'anynetPR\0\0\0\2\0\0\1\0{' >&3"
	until_served '10.78.0.1 vanished'
	ip netns exec "$a" "$tool" pair --seconds 1 --bytes 65536 "10.78.0.2:$port" >"$out/gone" 2>&1 &
	gone=$!
	until_served 'bandwidth test'
	kill -KILL "$gone"
	wait "$gone" 2>/dev/null
	pair 0 10.78.0.2
	said 'ok: '
	# A server that is killed during a test.
	ip netns exec "$a" "$tool" pair --seconds 2 --bytes 65536 "10.78.0.2:$port" >"$out/said" 2>&1 &
	gone=$!
	until [ "$(grep -c 'bandwidth test' "$out/served")" -ge 2 ]; do
		kill -0 "$gone" 2>/dev/null || fail "the client has ended"
		sleep 0.01
	done
	kill -KILL "$server"
	wait "$gone"
	[ $? = 2 ] || fail "a server that vanishes is no error"
	said 'error: .*(closed the connection|ended)'
	;;
same-host)
	# Both commands on one host, by its loopback address: the plugin uses another one.
	make_hosts
	serve
	ip netns exec "$b" "$tool" pair "${brief[@]}" "127.0.0.1:$port" >"$out/said" 2>&1
	[ $? = 0 ] || fail "status $?"
	said 'port +outbound +10.78.0.2:[0-9]+ of eth0 +ok'
	said 'plugin tcp +round trip'
	;;
several)
	# Several NICs at each end, IPv4 and IPv6, and a control connection on one that the plugin does not use.
	make_hosts
	for n in 1 2 3 4; do
		ip -n "$a" link add "eth$n" type veth peer name "eth$n" netns "$b"
		ip -n "$a" addr add "10.78.$n.1/24" dev "eth$n"
		ip -n "$b" addr add "10.78.$n.2/24" dev "eth$n"
		ip -n "$a" link set "eth$n" up
		ip -n "$b" link set "eth$n" up
	done
	await_carriers "$a" "$b"
	ip -n "$a" addr add fd78::1/64 dev eth1 nodad
	ip -n "$b" addr add fd78::2/64 dev eth1 nodad
	serve
	pair 0 10.78.0.2
	[ "$(grep -c '^port .* ok$' "$out/said")" = 10 ] || fail "not ten ports"
	kill "$server"
	wait "$server" 2>/dev/null
	serve NCCL_SOCKET_IFNAME=eth2,eth3
	pair 0 10.78.0.2 NCCL_SOCKET_IFNAME=eth2,eth3
	said 'plugin tcp +round trip'
	kill "$server"
	wait "$server" 2>/dev/null
	serve NCCL_SOCKET_IFNAME=eth1 NCCL_SOCKET_FAMILY=AF_INET6
	pair 0 10.78.0.2 NCCL_SOCKET_IFNAME=eth1 NCCL_SOCKET_FAMILY=AF_INET6
	said 'port +outbound +fd78::2:[0-9]+ of eth1 +ok'
	said 'plugin tcp +round trip'
	# The plugin's TCP devices beside verbs devices prove themselves without being reported.
	kill "$server"
	wait "$server" 2>/dev/null
	mkdir "$out/wire"
	verbs=(ANYNET_TRANSPORT=auto "ANYNET_IBVERBS_LIB=$build/tests/fakes/verbs/libibverbs.so.1" NCCL_SOCKET_IFNAME=eth2)
	adapter() {
		echo "device fake0; port layer=eth gid=0,$1,v2,eth1; wire $out/wire"
	}
	serve "${verbs[@]}" "FAKE_VERBS=$(adapter 10.78.1.2)"
	pair 0 10.78.0.2 "${verbs[@]}" "FAKE_VERBS=$(adapter 10.78.1.1)"
	said 'plugin tcp +round trip'
	said 'plugin ib +round trip'
	[ "$(grep -c '^port ' "$out/said")" = 2 ] || fail "not two ports"
	# The route depends on the source address, as on hosts with a table for each NIC. The plugin binds its sockets.
	kill "$server"
	wait "$server" 2>/dev/null
	for end in "$a 1" "$b 2"; do
		ip -n "${end% *}" route add 10.78.4.0/24 dev eth4 src "10.78.4.${end#* }" table 78
		ip -n "${end% *}" rule add from "10.78.4.${end#* }" table 78
		ip -n "${end% *}" route del 10.78.4.0/24 dev eth4
	done
	serve NCCL_SOCKET_IFNAME=eth4
	pair 0 10.78.0.2 NCCL_SOCKET_IFNAME=eth4
	said 'port +inbound +10.78.4.1:[0-9]+ of eth4 +ok'
	said 'plugin tcp +round trip'
	;;
loopback)
	# The settings exclude the interface that leads to the other host.
	make_hosts
	serve NCCL_SOCKET_IFNAME=lo
	pair 2 10.78.0.2
	said 'error: the other host: the plugin gets only the loopback interface'
	not_said 'error: through the plugin'
	;;
unauthenticated)
	make_hosts
	serve
	ip netns exec "$a" bash -c "exec 3<>/dev/tcp/10.78.0.2/$port; printf 'GET / HTTP/1.1\r\n\r\n' >&3; cat <&3" >"$out/http"
	[ -s "$out/http" ] && fail "an unauthenticated peer was sent data"
	until_served "10.78.0.1 is not .anynet pair. \(it sent 'GET / HTTP"
	ip netns exec "$a" bash -c "exec 3<>/dev/tcp/10.78.0.2/$port"
	until_served '10.78.0.1 is not .anynet pair. \(it disconnected\)'
	ip netns exec "$a" bash -c "exec 3<>/dev/tcp/10.78.0.2/$port; cat <&3" >"$out/silent"
	until_served '10.78.0.1 is not .anynet pair. \(it sent nothing\)'
	ip netns exec "$a" bash -c "exec 3<>/dev/tcp/10.78.0.2/$port; printf 'anynetPR\0\0\0\x63' >&3; cat <&3" >"$out/version"
	until_served 'uses version 99'
	ip netns exec "$a" bash -c "exec 3<>/dev/tcp/10.78.0.2/$port; printf 'anynetPR\0\0\0\2\xff\xff\xff\xff' >&3; cat <&3" >"$out/long"
	until_served 'sent an invalid message'
	ip netns exec "$a" bash -c "exec 3<>/dev/tcp/10.78.0.2/$port; printf 'anynetPR\0\0\0\2\0\0\0\x0e{\"op\":\"sh -c\"}' >&3; cat <&3" >"$out/op"
	until_served 'sent an invalid (message|request)'
	pair 0 10.78.0.2
	said 'ok: '
	# As many silent connections as one address may have delay no other client; afterwards their slots are free
	# again.
	said_nothing=$(grep -c 'sent nothing' "$out/served")
	silent=()
	for _ in $(seq 12); do
		ip netns exec "$a" bash -c "exec 3<>/dev/tcp/10.78.0.2/$port; cat <&3" >"$out/silent" &
		silent+=($!)
	done
	# Seconds in which this machine ran: one after the other, the silent connections would take 36 s.
	while sleep 1; do echo; done >"$out/seconds" &
	ticker=$!
	pair 0 10.78.0.2
	said 'ok: '
	kill "$ticker"
	[ "$(wc -l <"$out/seconds")" -lt 25 ] || fail "silent connections hold the server up"
	wait "${silent[@]}"
	until [ "$(grep -c 'sent nothing' "$out/served")" -ge $((said_nothing + 12)) ]; do
		kill -0 "$server" 2>/dev/null || fail "the server has ended"
		sleep 0.01
	done
	# From one process, so that enough are open at once.
	ip netns exec "$a" bash -c "for fd in {10..49}; do eval \"exec \$fd<>/dev/tcp/10.78.0.2/$port\"; done
		for fd in {10..49}; do cat <&\$fd; done" >"$out/silent" 2>&1 &
	many=$!
	until_served '10.78.0.1: too many clients are waiting: closed'
	wait "$many"
	pair 0 10.78.0.2
	# Clients outside of ANYNET_ALLOW are sent nothing.
	kill "$server"
	wait "$server" 2>/dev/null
	serve_options=(--clients 1)
	serve ANYNET_ALLOW=10.99.0.0/16
	for n in 1 2; do # they do not count as clients
		pair 2 10.78.0.2
		until [ "$(grep -c '10.78.0.1 is not in ANYNET_ALLOW' "$out/served")" = $n ]; do
			kill -0 "$server" 2>/dev/null || fail "the server has ended"
			sleep 0.01
		done
	done
	;;
usage)
	for bad in "" "a b" "--seconds 11 a" "--streams 0 a" "--bytes 0 a" "a:99999" ":5" "[::1]5"; do
		# Word splitting is intended.
		# shellcheck disable=SC2086
		"$tool" pair $bad >"$out/said" 2>&1
		[ $? = 3 ] || fail "accepted: anynet pair $bad"
	done
	"$tool" serve --port x >"$out/said" 2>&1
	[ $? = 3 ] || fail "accepted: --port x"
	"$tool" serve --bind nonsense >"$out/said" 2>&1
	[ $? = 2 ] || fail "a server on nonsense"
	said 'cannot listen on nonsense'
	"$tool" pair no.such.host.invalid >"$out/said" 2>&1
	[ $? = 2 ] || fail "a host without address"
	said "the name of the other host"
	;;
*)
	echo "no case $case"
	exit 1
	;;
esac
exit 0

# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Pairs of network namespaces joined by wires, for the tests that run in the guest, which source this.
# A pair NAME is the namespaces NAME-a and NAME-b; a wire is a veth pair, called eth0, eth1 … at both
# ends, with 10.77.N.1 in a and 10.77.N.2 in b.

# links_make NAME N: a new pair with N wires
#
# Packets are sent one by one, not in bundles of up to 64 KiB: a lost packet is then as large as on a real wire.
# The ends know each other's address, because a damaged answer to an ARP request would misdirect all that follows.
# TCP metrics of a wire are not kept after the connection.
links_make() {
	local i end mac=02:00:00:00
	{
		printf 'netns add %s\n' "$1-a" "$1-b"
		for ((i = 0; i < $2; i++)); do
			echo "link add eth$i netns $1-a address $mac:0$i:01 gso_max_segs 1 type veth" \
				"peer name eth$i netns $1-b address $mac:0$i:02 gso_max_segs 1"
		done
	} | ip -batch -
	for end in a1 b2; do
		for ((i = 0; i < $2; i++)); do
			echo "addr add 10.77.$i.${end#?}/24 dev eth$i"
			echo "link set eth$i up"
			echo "neigh replace 10.77.$i.$((3 - ${end#?})) dev eth$i" \
				"lladdr $mac:0$i:0$((3 - ${end#?}))"
		done | ip -n "$1-${end%?}" -batch -
		ip netns exec "$1-${end%?}" sh -c 'echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save'
	done
	links_await_up "$1-a" "$2" && links_await_up "$1-b" "$2"
}

# The kernel notices the carrier after a moment.
links_await_up() {
	local tries
	for ((tries = 0; tries < 500; tries++)); do
		[ "$(ip -n "$1" -o link show up | grep -c 'eth.*state UP')" != "$2" ] || return 0
		sleep 0.02
	done
	echo "links: those of $1 do not come up" >&2
	return 1
}

# links_netem NAME N ARGUMENT…: from now on netem treats the packets of the N wires like this, in both directions.
# Its queue holds everything that is delayed, so that only intended losses occur. netem keeps parameters that
# are not set again, so it is removed in between.
links_netem() {
	local ns i
	for ns in "$1-a" "$1-b"; do
		for ((i = 0; i < $2; i++)); do
			echo "qdisc replace dev eth$i root pfifo"
			echo "qdisc replace dev eth$i root netem limit 20000 ${*:3}"
		done | tc -n "$ns" -batch -
	done
}

# links_counters NAME: counters of both namespaces together, a line "NAME VALUE" for everything in /proc/net/snmp and
# netstat under nstat's names (TcpInCsumErrors, TcpExtTCPOFOQueue …), and Dropped by the wires since links_netem
links_counters() {
	local ns
	for ns in "$1-a" "$1-b"; do
		ip netns exec "$ns" sh -c 'cat /proc/net/snmp /proc/net/netstat; tc -s qdisc show'
	done | awk '
		match($0, /dropped [0-9]+/) { sum["Dropped"] += substr($0, RSTART + 8, RLENGTH - 8) }
		!/^[A-Z][A-Za-z]*: / { next }
		$1 != group { group = $1; columns = split($0, name); next }
		{
			for (i = 2; i <= columns; i++)
				sum[substr(group, 1, length(group) - 1) name[i]] += $i
			group = ""
		}
		END { for (i in sum) print i, sum[i] }'
}

# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Two RoCE devices of the kernel's software RDMA, rxe0 and rxe1, on the ends of a wire, for the tests
# that run in the guest, which source this.

# Both ends are in one network namespace, since rxe knows only the first one. Packets between them
# are to cross the wire all the same, not the loopback: what is local is looked up only for packets
# that come in by the wire, and the way to the other end has a table of its own.
wire_make() {
	local knob
	for knob in rp_filter=0 accept_local=1 arp_ignore=1 arp_announce=2; do
		for dev in all default; do
			echo "${knob#*=}" >"/proc/sys/net/ipv4/conf/$dev/${knob%=*}"
		done
	done
	ip -batch - <<-END
	rule add pref 500 lookup local
	rule del pref 0
	link add eth0 mtu 4200 type veth peer name eth1 mtu 4200
	link set eth0 up
	link set eth1 up
	addr add 10.77.0.1/24 dev eth0
	addr add 10.77.0.2/24 dev eth1
	rule add pref 100 iif eth0 lookup local
	rule add pref 100 iif eth1 lookup local
	rule add pref 200 from 10.77.0.1 to 10.77.0.2 lookup 1000
	rule add pref 200 from 10.77.0.2 to 10.77.0.1 lookup 1001
	END
	wire_routes
}

wire_routes() {
	ip -batch - <<-END
	route replace 10.77.0.2 dev eth0 src 10.77.0.1 table 1000
	route replace 10.77.0.1 dev eth1 src 10.77.0.2 table 1001
	END
}

# The kernel forgets the routes over a wire that is down, and takes a moment to see that it is up.
wire_set() {
	local tries
	ip link set eth1 "$1"
	[ "$1" = up ] || return 0
	for ((tries = 0; tries < 100; tries++)); do
		! wire_routes 2>/dev/null || return 0
		sleep 0.05
	done
	echo "rxe: the wire does not come up" >&2
	return 1
}

devices_make() {
	rdma link add rxe0 type rxe netdev eth0
	rdma link add rxe1 type rxe netdev eth1
	await_gid rxe0 0a4d:0001
	await_gid rxe1 0a4d:0002
}

# A device gets its GIDs some time after its address.
await_gid() {
	local tries
	for ((tries = 0; tries < 500; tries++)); do
		! grep -qsh "ffff:$2" "/sys/class/infiniband/$1/ports/1/gids/"[0-7] || return 0
		sleep 0.02
	done
	echo "rxe: $1 has no GID" >&2
	return 1
}

# All of it; exits with 77 where it cannot be had.
rxe_make() {
	rxe_library=$(ldconfig -p | awk '/libibverbs\.so\.1 / { print $NF; exit }')
	if [ -z "$rxe_library" ] || ! compgen -G '/etc/libibverbs.d/rxe.driver' >/dev/null; then
		echo "SKIP guest: libibverbs or its driver for rxe is missing; 'tools/deps.sh guest' installs it"
		exit 77
	fi
	modprobe -a rdma_rxe ib_uverbs veth
	wire_make
	devices_make
}

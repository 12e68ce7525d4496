# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# RoCE devices of the kernel's software RDMA on the ends of wires, for the tests that run in the guest,
# which source this. Wire N joins eth<2N> and eth<2N+1> with the addresses 10.77.N.1 and 10.77.N.2; the
# devices on it are rxe<2N> and rxe<2N+1>.

# The ends are in one network namespace, since rxe knows only the first one. Packets between them have to cross the wire
# and not the loopback: the table of local addresses is used only for packets received from a wire, and the route to the
# other end is in a separate table.
wires_make() {
	local knob wire
	for knob in rp_filter=0 accept_local=1 arp_ignore=1 arp_announce=2; do
		for dev in all default; do
			echo "${knob#*=}" >"/proc/sys/net/ipv4/conf/$dev/${knob%=*}"
		done
	done
	ip -batch - <<-END
	rule add pref 500 lookup local
	rule del pref 0
	END
	for ((wire = 0; wire < $1; wire++)); do
		wire_make "$wire"
	done
}

wire_make() {
	local a=eth$(($1 * 2)) b=eth$(($1 * 2 + 1))
	ip -batch - <<-END
	link add $a mtu 4200 type veth peer name $b mtu 4200
	link set $a up
	link set $b up
	addr add 10.77.$1.1/24 dev $a
	addr add 10.77.$1.2/24 dev $b
	rule add pref 100 iif $a lookup local
	rule add pref 100 iif $b lookup local
	rule add pref 200 from 10.77.$1.1 to 10.77.$1.2 lookup $((1000 + $1 * 2))
	rule add pref 200 from 10.77.$1.2 to 10.77.$1.1 lookup $((1001 + $1 * 2))
	END
	wire_routes "$1"
}

wire_routes() {
	ip -batch - <<-END
	route replace 10.77.$1.2 dev eth$(($1 * 2)) src 10.77.$1.1 table $((1000 + $1 * 2))
	route replace 10.77.$1.1 dev eth$(($1 * 2 + 1)) src 10.77.$1.2 table $((1001 + $1 * 2))
	END
}

# wire_set WIRE up|down: the kernel forgets the routes over a wire that is down, and needs a moment to
# notice that it is up.
wire_set() {
	local tries
	ip link set "eth$(($1 * 2 + 1))" "$2"
	[ "$2" = up ] || return 0
	for ((tries = 0; tries < 100; tries++)); do
		! wire_routes "$1" 2>/dev/null || return 0
		sleep 0.05
	done
	echo "rxe: wire $1 does not come up" >&2
	return 1
}

devices_make() {
	local wire end device
	for ((wire = 0; wire < $1; wire++)); do
		for end in 0 1; do
			device=$((wire * 2 + end))
			rdma link add "rxe$device" type rxe netdev "eth$device"
			await_gid "rxe$device" "$(printf '0a4d:%02x%02x' "$wire" $((end + 1)))"
		done
	done
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

# rxe_make [WIRES [WIRES_WITH_DEVICES]]: one of each by default. Exits with 77 if they cannot be created.
rxe_make() {
	rxe_library=$(ldconfig -p | awk '/libibverbs\.so\.1 / && !n++ { print $NF }')
	if [ -z "$rxe_library" ] || ! compgen -G '/etc/libibverbs.d/rxe.driver' >/dev/null; then
		echo "SKIP guest: libibverbs or its driver for rxe is missing; 'tools/deps.sh guest' installs it"
		exit 77
	fi
	modprobe -a rdma_rxe ib_uverbs veth
	wires_make "${1:-1}"
	devices_make "${2:-${1:-1}}"
}

# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Cases of check.sh: interfaces, networks and firewalls.
# shellcheck disable=SC2034,SC2154 # set and used by check.sh and tree.sh

case_interfaces() {
	two=$(nic eth1 192.0.2.1/24; nic eth10 198.51.100.1/24)
	in_namespace "$two"
	status_is 0
	# Interfaces that do not exist, prefixes that match too much, only lo or a bridge.
	in_namespace "$two" NCCL_SOCKET_IFNAME=eth0
	finds ifname-none error "NCCL_SOCKET_IFNAME=eth0" "no socket interface found" "eth1, eth10"
	status_is 2
	in_namespace "$two" ANYNET_SOCKET_IFNAME=eth0
	finds ifname-none warn "ignores it"
	in_namespace "$two" NCCL_SOCKET_IFNAME=eth1
	finds ifname-prefix warn "eth1, eth10" "NCCL_SOCKET_IFNAME==eth1"
	in_namespace "$two" NCCL_SOCKET_IFNAME=eth1,lo
	finds ifname-prefix warn "eth1, eth10" "NCCL_SOCKET_IFNAME==eth1 for"
	in_namespace "$two" NCCL_SOCKET_IFNAME==eth1
	finds_not ifname-prefix
	status_is 0
	in_namespace "$two" NCCL_SOCKET_IFNAME=lo
	finds ifname-loopback warn "only lo" "eth1, eth10"
	in_namespace "$two ip link add docker0 type bridge; ip link set peer_eth1 master docker0
		ip link set docker0 up; ip addr add 172.17.0.1/16 dev docker0" \
		NCCL_SOCKET_IFNAME=docker0
	finds ifname-local warn "only docker0" "eth1"
	in_namespace "$two" GLOO_SOCKET_IFNAME=eth0 TP_SOCKET_IFNAME=eth1
	finds ifname-none error "GLOO_SOCKET_IFNAME=eth0" "eth1, eth10"
	in_namespace "$two" GLOO_SOCKET_IFNAME=eth1,eth10
	finds_not ifname-none
	in_namespace "$two" NCCL_SOCKET_FAMILY=AF_INET6
	finds family-none warn "IPv6"
}

case_network() {
	in_namespace "$(nic eth0 192.0.2.1/24)"
	finds interface ok "eth0 veth" "192.0.2.1: used for TCP"
	finds interface-unused note "lo loopback"
	finds nccls-choice ok "without a plugin: eth0"
	status_is 0
	# A container bridge beside the NIC: NCCL uses both, the first one for its connections.
	bridge="ip link add br-1 type bridge; ip link set peer_eth0 master br-1
		ip link set br-1 up; ip addr add 172.18.0.1/16 dev br-1"
	in_namespace "$(nic eth0 192.0.2.1/24) $bridge"
	finds nccl-takes-bridge warn br-1 "NCCL_SOCKET_IFNAME=^docker,lo,virbr,br-"
	in_namespace "$(nic eth0 192.0.2.1/24) $bridge" "NCCL_SOCKET_IFNAME=^docker,lo,virbr,br-,veth"
	finds_not nccl-takes-bridge
	finds nccls-choice ok "without a plugin: eth0"
	# An exclusion list replaces NCCL's default, so lo is no longer excluded, and comes first.
	in_namespace "$(nic eth0 192.0.2.1/24)" NCCL_SOCKET_IFNAME=^docker0
	finds ifname-lets-in warn "NCCL_SOCKET_IFNAME=^docker0" "not reach other hosts: lo" \
		"export NCCL_SOCKET_IFNAME=^docker0,lo"
	status_is 1
	in_namespace "$(nic eth0 192.0.2.1/24)" NCCL_SOCKET_IFNAME=^docker0,lo
	finds_not ifname-lets-in
	finds nccls-choice ok "without a plugin: eth0"
	status_is 0
	in_namespace "$(nic eth0 192.0.2.1/24) $bridge" NCCL_SOCKET_IFNAME=^=docker0,lo
	finds ifname-lets-in warn "not reach other hosts: br-1" "over all its interfaces" "^=docker0,lo,br-1"
	in_namespace "$(nic eth0 192.0.2.1/24) $bridge" NCCL_SOCKET_IFNAME=^docker0
	finds ifname-lets-in warn "export NCCL_SOCKET_IFNAME=^docker0,lo,br-1 or"
	plant "$plugin" /opt/lib/libnccl-net.so
	in_namespace "$(nic eth0 192.0.2.1/24) $bridge" NCCL_SOCKET_IFNAME=^=docker0,lo \
		LD_LIBRARY_PATH=/opt/lib
	finds_not ifname-lets-in
	# Two NICs in one subnet: the kernel sends by one of them. Then with the fix applied.
	pair="$(nic eth0 192.0.2.1/24; nic eth1 192.0.2.2/24)"
	in_namespace "$pair"
	finds same-subnet warn "packets that eth1 sends from 192.0.2.2 leave through eth0" "eth0 carries the traffic"
	[ "$(findings same-subnet | wc -l)" = 1 ] || fail "eth0 leaves by itself"
	[ -z "$(findings same-subnet | grep "time out")" ] || fail "rp_filter"
	fix=$(findings same-subnet | grep -o "ip rule .*; ip route [^;]*")
	in_namespace "$pair $fix"
	finds_not same-subnet
	status_is 0
	in_namespace "$(nic eth0 "2001:db8::1/64 nodad"; nic eth1 "2001:db8::2/64 nodad")" NCCL_SOCKET_FAMILY=AF_INET6
	[ "$(findings same-subnet | grep -c "ip -6 route add 2001:db8::/64 dev eth")" = 1 ] || fail "IPv6"
	in_namespace "$(nic eth0 192.0.2.1/24; nic eth1 192.0.3.2/24)"
	finds_not same-subnet
	write /proc/sys/net/ipv4/conf/all/rp_filter 0
	write /proc/sys/net/ipv4/conf/eth1/rp_filter 1
	in_namespace "$pair"
	finds same-subnet warn "connections to it time out"
	write /proc/sys/net/ipv4/conf/eth1/rp_filter 2
	in_namespace "ip link set lo down"
	finds nccls-choice warn none
	write /proc/sys/net/ipv4/tcp_rmem "4096 131072 6291456"
	write /proc/sys/net/ipv4/tcp_wmem "4096 16384 65536"
	write /proc/sys/net/core/somaxconn 16
	write /proc/sys/net/ipv4/ip_local_port_range "50000 50099"
	write /proc/net/ip_tables_names filter
	check ANYNET_PORT_RANGE=50000-50003 LOCAL_WORLD_SIZE=8
	finds window ok tcp_rmem 6291456
	finds window warn "tcp_wmem" 65536 "sysctl -w net.ipv4.tcp_wmem="
	finds somaxconn warn 16 "somaxconn=4096"
	finds ports-few warn "100 ports"
	finds port-range-shared note 50000-50003
	finds port-range-small warn "4 ports for 8 processes"
	finds firewall note "must accept ANYNET_PORT_RANGE and MASTER_PORT"
	write /proc/sys/net/ipv4/ip_local_port_range "32768 60999"
	write /proc/sys/net/core/somaxconn 4096
	write /proc/sys/net/ipv4/tcp_wmem "4096 131072 6291456"
	check
	for id in somaxconn ports-few port-range-shared port-range-small; do finds_not $id; done
	status_is 0
	(ulimit -n 256 && check && finds descriptors-few warn 256 "ulimit -n") || fail "descriptors"
	write /proc/sys/net/ipv4/tcp_wmem "a" "%s%n"
	write /proc/sys/net/core/somaxconn ""
	check
	status_is 0
}

case_firewall() {
	# The firewall drops connections from other hosts; with the fix applied it accepts them.
	apart="unshare -n"
	$apart true 2>/dev/null || apart+=" -r"
	PATH=$PATH:/sbin:/usr/sbin $apart nft list ruleset >"$work/why" 2>&1 || {
		echo "SKIP nft does not list rules in a namespace: $(cat "$work/why")"
		exit 77
	}
	nic=$(nic eth0 192.0.2.1/24)
	rules() {
		echo "$nic nft -f - <<-'END'
			table inet filter {
				set known { type inet_service; elements = { 22, 80 }; }
				chain service { tcp dport { 22, 80, 1000-2000 } accept; ip saddr 198.51.100.0/24 accept; }
				chain input {
					type filter hook input priority 0; policy drop;
					iifname lo accept
					ct state established,related accept
					ct state vmap { invalid : drop, established : accept }
					meta l4proto { icmp, udp } accept
					tcp dport @known counter accept
					$1
				}
			}
		END"
	}
	write /proc/sys/net/ipv4/ip_local_port_range "32768 60999"
	master="MASTER_ADDR=192.0.2.1 MASTER_PORT=29500"
	in_namespace "$(rules "tcp dport 29500 accept")" $master
	finds firewall-closed warn "drops connections to ports 32768 to 60999 on eth0: chain inet filter input" "time out"
	status_is 1
	fix=$(findings firewall-closed | grep -o "nft insert rule [^(]* accept")
	in_namespace "$(rules "tcp dport 29500 accept")
		$fix" $master
	finds_not firewall-closed
	finds_not firewall-some
	status_is 0
	in_namespace "$(rules "tcp dport 32768-60999 accept")" $master
	finds firewall-closed warn "connections to port 29500" "rank 0 listens on MASTER_PORT"
	in_namespace "$(rules "tcp dport 32768-60999 accept; tcp dport 20000-20001 reject with tcp reset; tcp dport != 5 accept")" \
		$master ANYNET_PORT_RANGE=20000-20003
	finds firewall-closed warn "rejects connections to 2 of 4 tested ports from 20000 to 20003, such as 20000, on eth0"
	in_namespace "$(rules "iifname { \"eth*\" } goto service")" $master
	finds firewall-some note "to ports 32768 to 60999 on eth0 from some addresses only (chain inet filter input)"
	finds_not firewall-closed
	in_namespace "$(rules "tcp dport vmap { 29500 : accept, 32768-60999 : jump service }")" $master
	finds firewall-some note "ports 32768 to 60999"
	# Rules of other protocols, families and hooks do not count.
	in_namespace "$nic nft -f - <<-'END'
		table ip6 six { chain input { type filter hook input priority 0; policy drop; }; }
		table ip four { chain forward { type filter hook forward priority 0; policy drop; }
			chain input { type filter hook input priority 0; policy accept; udp dport 0-65535 drop
				ip protocol udp drop; iifname lo drop; ct state invalid drop; }; }
		table inet both { chain input { type filter hook input priority 5; ip6 saddr ::1 drop; }; }
	END" $master
	finds_not firewall-closed
	finds_not firewall-some
	status_is 0
}

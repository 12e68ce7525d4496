/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of interfaces by kind, from tables of all sorts of hosts. */
#include "netif_choice.h"

#include <net/if_arp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <nccl_net/util.h>

static void test_a_nic_beats_everything_virtual(void **state)
{
	static const char *const kinds[] = {
		"bridge",    "veth",   "vxlan",       "geneve",       "gre",    "gretap",
		"ip6gre",    "erspan", "ipip",        "sit",          "ip6tnl", "vti",
		"wireguard", "dummy",  "macvlan",     "ipvlan",       "tun",    "ifb",
		"vrf",       "netkit", "openvswitch", "no-such-kind", "wlan",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		table_start(&table);
		table_add(&table, "a0", kinds[i], "172.17.0.1/16");
		table_add(&table, "eth0", "", "10.0.0.2/24");
		expect_chosen("eth0 10.0.0.2");
		expect_reason("a0", "eth0 is preferred to");
		expect_reason("lo", "eth0 is preferred to the loopback interface");
	}
}

static void test_kind_counts_and_not_the_name(void **state)
{
	(void)state;
	table_add(&table, "eth0", "bridge", "172.17.0.1/16");
	table_add(&table, "docker7", "", "10.0.0.2/24");
	table_add(&table, "weird", "", "10.0.1.2/24");
	/* docker7 has no kind: only its name shows it */
	expect_chosen("weird 10.0.1.2");
	expect_reason("eth0", "preferred to bridge");
	expect_reason("docker7", "preferred to a virtual interface");
}

static void test_what_a_container_has_beats_tunnels_and_bridges(void **state)
{
	static const char *const own[] = { "veth", "macvlan", "ipvlan", "netkit" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		table_start(&table);
		table_add(&table, "br0", "bridge", "172.18.0.1");
		table_add(&table, "eth0", own[i], "172.17.0.2/16");
		table_add(&table, "wg0", "wireguard", "10.9.0.1");
		expect_chosen("eth0 172.17.0.2");
	}
}

static void test_wifi_beats_tunnels_and_bridges(void **state)
{
	(void)state;
	table_add(&table, "docker0", "bridge", "172.18.0.1");
	table_add(&table, "wg0", "wireguard", "10.9.0.1");
	table_add(&table, "wlp3s0", "wlan", "192.168.1.7");
	expect_chosen("wlp3s0 192.168.1.7");
}

static void test_a_tap_is_a_nic_of_a_sandbox_and_a_tun_is_a_vpn(void **state)
{
	(void)state;
	table_add(&table, "tap0", "tun", "10.0.2.100");
	table_add(&table, "tun0", "tun", "10.8.0.6")->type = ARPHRD_NONE;
	expect_chosen("tap0 10.0.2.100");
}

static void test_a_tunnel_beats_bridge_dummy_and_lo(void **state)
{
	(void)state;
	table_add(&table, "docker0", "bridge", "172.17.0.1");
	table_add(&table, "dummy0", "dummy", "10.255.0.1");
	table_add(&table, "tailscale0", "tun", "100.64.0.7")->type = ARPHRD_NONE;
	expect_chosen("tailscale0 100.64.0.7");
}

static void test_lo_is_used_only_when_alone(void **state)
{
	(void)state;
	expect_chosen("lo 127.0.0.1");
	table_add(&table, "docker0", "bridge", "172.17.0.1");
	expect_chosen("docker0 172.17.0.1");
	set_subnet("127.0.0.1");
	expect_chosen("lo 127.0.0.1");
}

/* Its NICs have link-local addresses only, and routes lead to it by BGP. */
static void test_the_address_of_a_routed_host_is_on_lo_or_dummy(void **state)
{
	static const char *const kinds[] = { "loopback", "dummy" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		table_start(&table);
		table_add(&table, "docker0", "bridge", "172.17.0.1");
		table_add(&table, "eth0", "", "fe80::1");
		table_add(&table, "a0", kinds[i], "127.0.0.2/8 fe80::7 10.0.0.2/32 fd00::2/128");
		expect_chosen("a0 10.0.0.2");
		expect_reason("docker0", "a0 is preferred to bridge");
		cfg.socket_family = AF_INET6;
		expect_chosen("a0 fd00::2");
		cfg.socket_family = AF_UNSPEC;
		table_add(&table, "eth1", "", "10.0.1.2");
		expect_chosen("eth1 10.0.1.2");
	}
}

static void test_bonds_vlans_and_bridges_on_nics_are_real(void **state)
{
	struct netif_link *bridge;

	(void)state;
	table_add(&table, "bond0", "bond", "10.0.0.2");
	bridge = table_add(&table, "br0", "bridge", "10.0.1.2");
	table_add(&table, "docker0", "bridge", "172.17.0.1");
	table_add(&table, "eth0", "", "")->master = bridge->index;
	table_add(&table, "eth9.5", "vlan", "10.0.3.2");
	expect_chosen("bond0 10.0.0.2, br0 10.0.1.2, eth9.5 10.0.3.2");
	expect_reason("eth0", "has no IP address");
}

static void test_ip_over_infiniband_is_real(void **state)
{
	(void)state;
	table_add(&table, "a0", "veth", "172.17.0.1/16");
	table_add(&table, "ib0", "", "10.0.2.2")->type = ARPHRD_INFINIBAND;
	expect_chosen("ib0 10.0.2.2");
	expect_reason("a0", "ib0 is preferred to veth");
}

/* OpenShift: the host's address is on the bridge br-ex. */
static void test_open_vswitch_on_a_nic_is_real(void **state)
{
	unsigned datapath;

	(void)state;
	datapath = table_add(&table, "ovs-system", "openvswitch", "")->index;
	table_add(&table, "br-ex", "openvswitch", "10.0.0.2");
	table_add(&table, "eth1", "veth", "172.17.0.2");
	table_add(&table, "veth12", "veth", "")->master = datapath;
	expect_chosen("br-ex 10.0.0.2, eth1 172.17.0.2");
	table_add(&table, "eth0", "", "")->master = datapath;
	expect_chosen("br-ex 10.0.0.2");
	table.links[5].master = 0;
	expect_chosen("br-ex 10.0.0.2, eth1 172.17.0.2");
}

static void test_a_bridge_of_veths_is_not_real(void **state)
{
	struct netif_link *bridge;

	(void)state;
	bridge = table_add(&table, "br-1f2e", "bridge", "172.18.0.1");
	table_add(&table, "veth12", "veth", "")->master = bridge->index;
	table_add(&table, "guest0", "veth", "")->master = bridge->index;
	table_add(&table, "enp1s0", "", "192.168.1.7");
	expect_chosen("enp1s0 192.168.1.7");
}

static void test_which_interfaces_copy(void **state)
{
	struct netif_link *bridge;

	(void)state;
	table_add(&table, "eth0", "", "10.0.0.2");
	table_add(&table, "veth0", "veth", "10.0.0.2");
	table_add(&table, "bond0", "bond", "10.0.0.2");
	table_add(&table, "eth1.5", "vlan", "10.0.0.2");
	bridge = table_add(&table, "docker0", "bridge", "10.0.0.2");
	table_add(&table, "wg0", "wireguard", "10.0.0.2");
	assert_true(netif_copies(&table, &table.links[0]));
	assert_false(netif_copies(&table, &table.links[1]));
	assert_true(netif_copies(&table, &table.links[2]));
	assert_false(netif_copies(&table, &table.links[3]));
	assert_false(netif_copies(&table, &table.links[4]));
	assert_true(netif_copies(&table, bridge));
	table.links[1].master = bridge->index;
	assert_false(netif_copies(&table, bridge));
	assert_true(netif_copies(&table, &table.links[6]));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, netif_choice_setup)
	const struct CMUnitTest tests[] = {
		T(test_a_nic_beats_everything_virtual),
		T(test_kind_counts_and_not_the_name),
		T(test_what_a_container_has_beats_tunnels_and_bridges),
		T(test_wifi_beats_tunnels_and_bridges),
		T(test_a_tap_is_a_nic_of_a_sandbox_and_a_tun_is_a_vpn),
		T(test_a_tunnel_beats_bridge_dummy_and_lo),
		T(test_lo_is_used_only_when_alone),
		T(test_the_address_of_a_routed_host_is_on_lo_or_dummy),
		T(test_bonds_vlans_and_bridges_on_nics_are_real),
		T(test_ip_over_infiniband_is_real),
		T(test_open_vswitch_on_a_nic_is_real),
		T(test_a_bridge_of_veths_is_not_real),
		T(test_which_interfaces_copy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

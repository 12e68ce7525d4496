/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of interfaces, from tables of all kinds of hosts. */
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <nccl_net/subnet.h>
#include <nccl_net/util.h>

#include "unit/netif_table.h"

static struct netif_table table;
static struct anynet_config cfg;
static struct netif_verdict verdicts[TEST_LINKS_MAX];
static struct netif_notes notes;

static int setup(void **state)
{
	(void)state;
	memset(&cfg, 0, sizeof(cfg));
	table_start(&table);
	return 0;
}

static void set_ifname(const char *filter)
{
	snprintf(cfg.socket_ifname, sizeof(cfg.socket_ifname), "%s", filter);
}

static void set_subnet(const char *subnet)
{
	snprintf(cfg.socket_subnet, sizeof(cfg.socket_subnet), "%s", subnet);
}

/* The chosen interfaces must be exactly these: "eth0 10.0.0.2, eth1 10.0.1.2". */
static void expect_chosen(const char *expected)
{
	char text[1000] = "";

	netif_choose(&table, &cfg, false, verdicts, &notes);
	for (size_t i = 0; i < table.link_count; i++) {
		char addr[INET6_ADDRSTRLEN];

		if (!verdicts[i].chosen) {
			assert_true(strlen(verdicts[i].reason) > 0);
			continue;
		}
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %s",
			 *text ? ", " : "", table.links[i].name,
			 subnet_ip_text(&verdicts[i].addr->addr, addr));
	}
	assert_string_equal(text, expected);
}

static void expect_reason(const char *name, const char *part)
{
	for (size_t i = 0; i < table.link_count; i++) {
		if (strcmp(table.links[i].name, name))
			continue;
		assert_false(verdicts[i].chosen);
		if (!strstr(verdicts[i].reason, part))
			fail_msg("%s: '%s' is not in '%s'", name, part, verdicts[i].reason);
		return;
	}
	fail_msg("no %s", name);
}

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
	table_add(&table, "ib0", "", "10.0.2.2")->type = ARPHRD_INFINIBAND;
	table_add(&table, "eth9.5", "vlan", "10.0.3.2");
	expect_chosen("bond0 10.0.0.2, br0 10.0.1.2, ib0 10.0.2.2, eth9.5 10.0.3.2");
	expect_reason("eth0", "has no IP address");
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

static void test_down_and_unplugged_nics_are_passed_over(void **state)
{
	(void)state;
	table_add(&table, "eth0", "", "10.0.0.2")->flags &= ~(unsigned)IFF_UP;
	table_add(&table, "eth1", "", "10.0.1.2")->flags &= ~(unsigned)IFF_RUNNING;
	table_add(&table, "eth2", "", "");
	table_add(&table, "eth3", "", "10.0.3.2");
	expect_chosen("eth3 10.0.3.2");
	expect_reason("eth0", "is down");
	expect_reason("eth1", "has no carrier");
	expect_reason("eth2", "has no IP address");
}

static void test_all_real_nics_are_used(void **state)
{
	(void)state;
	table_add(&table, "eth0", "", "10.0.0.2")->speed_mbps = 25000;
	table_add(&table, "eth1", "", "10.0.1.2")->speed_mbps = 100000;
	table_add(&table, "eth2", "", "10.0.2.2");
	expect_chosen("eth0 10.0.0.2, eth1 10.0.1.2, eth2 10.0.2.2");
}

static void test_a_management_port_is_left_out(void **state)
{
	(void)state;
	table_add(&table, "eno1", "", "192.168.0.5")->speed_mbps = 1000;
	table_add(&table, "eth0", "", "10.0.0.2")->speed_mbps = 10000;
	table_add(&table, "eth1", "", "10.0.1.2")->speed_mbps = 10000;
	expect_chosen("eth0 10.0.0.2, eth1 10.0.1.2");
	expect_reason("eno1", "1000 Mb/s, slower than eth0 with 10000");
	set_ifname("eno1");
	expect_chosen("eno1 192.168.0.5");
}

static void test_one_wire_is_one_device(void **state)
{
	struct netif_link *eth0, *eth1, *vlan;

	(void)state;
	eth0 = table_add(&table, "eth0", "", "10.0.0.2");
	table_add(&table, "eth0.5", "vlan", "10.5.0.2")->lower = eth0->index;
	eth1 = table_add(&table, "eth1", "", "");
	vlan = table_add(&table, "eth1.5", "vlan", "10.5.1.2");
	vlan->lower = eth1->index;
	table_add(&table, "eth1.5.6", "vlan", "10.6.1.2")->lower = vlan->index;
	table_add(&table, "eth1.7", "vlan", "10.7.1.2")->lower = eth1->index;
	expect_chosen("eth0 10.0.0.2, eth1.5 10.5.1.2");
	expect_reason("eth0.5", "shares the physical link of eth0");
	expect_reason("eth1.7", "shares the physical link of eth1.5");
	expect_reason("eth1.5.6", "shares the physical link of eth1.5");
	set_ifname("eth0");
	expect_chosen("eth0 10.0.0.2, eth0.5 10.5.0.2");
}

static void test_a_loop_of_stacked_links_ends(void **state)
{
	struct netif_link *a, *b;

	(void)state;
	a = table_add(&table, "a", "vlan", "10.0.0.2");
	b = table_add(&table, "b", "vlan", "10.0.1.2");
	a->lower = b->index;
	b->lower = a->index;
	netif_choose(&table, &cfg, false, verdicts, &notes);
	assert_true(verdicts[1].chosen || verdicts[2].chosen);
}

static void test_ipv4_goes_before_ipv6_unless_asked(void **state)
{
	(void)state;
	table_add(&table, "eth0", "", "fe80::1 2001:db8::2 10.0.0.2");
	table_add(&table, "eth1", "", "fe80::2 fd00::2");
	expect_chosen("eth0 10.0.0.2, eth1 fd00::2");
	cfg.socket_family = AF_INET6;
	expect_chosen("eth0 2001:db8::2, eth1 fd00::2");
	cfg.socket_family = AF_INET;
	expect_chosen("eth0 10.0.0.2");
	expect_reason("eth1", "has no IPv4 address");
	assert_string_equal(notes.family, "");
}

static void test_a_family_without_an_interface_is_ignored(void **state)
{
	(void)state;
	table_add(&table, "eth0", "", "10.0.0.2 fe80::1");
	cfg.socket_family = AF_INET6;
	expect_chosen("eth0 10.0.0.2");
	assert_non_null(strstr(notes.family, "no interface has a usable IPv6 address"));
	assert_string_equal(notes.ifname, "");
}

static void test_loopback_honours_the_family(void **state)
{
	(void)state;
	cfg.socket_family = AF_INET6;
	expect_chosen("lo ::1");
	assert_string_equal(notes.family, "");
}

static void test_link_local_ipv6_is_never_chosen_by_itself(void **state)
{
	(void)state;
	table_add(&table, "eth0", "", "fe80::1");
	expect_chosen("lo 127.0.0.1");
	expect_reason("eth0", "only a link-local IPv6 address");
	set_ifname("eth");
	expect_chosen("lo 127.0.0.1");
	assert_true(*notes.ifname);
	set_ifname("eth0");
	expect_chosen("eth0 fe80::1");
	set_ifname("=eth0");
	expect_chosen("eth0 fe80::1");
	table_add(&table, "eth1", "", "10.0.0.2 fe80::2");
	set_ifname("=eth1");
	expect_chosen("eth1 10.0.0.2");
}

static void test_unroutable_ipv4_is_the_last_choice(void **state)
{
	(void)state;
	table_add(&table, "bmc0", "", "169.254.0.17/16");
	expect_chosen("bmc0 169.254.0.17");
	table_add(&table, "eth0", "", "10.0.0.2");
	expect_chosen("eth0 10.0.0.2");
	expect_reason("bmc0", "preferred to one with a 169.254 address");
	table_start(&table);
	table_add(&table, "eth0", "", "169.254.7.7/16 10.0.0.2");
	expect_chosen("eth0 10.0.0.2");
}

static void test_lasting_addresses_go_before_fading_ones(void **state)
{
	(void)state;
	table_add(&table, "eth0", "", "~2001:db8::aaaa 2001:db8::2");
	table_add(&table, "eth1", "", "~2001:db8:1::aaaa");
	table_add(&table, "eth2", "", "~10.0.2.9 10.0.2.2");
	expect_chosen("eth0 2001:db8::2, eth1 2001:db8:1::aaaa, eth2 10.0.2.2");
}

static void test_unusable_addresses_are_ignored(void **state)
{
	(void)state;
	table_add(&table, "eth0", "", "0.0.0.0 224.0.0.1 :: ff02::1 ::ffff:10.0.0.2");
	expect_chosen("lo 127.0.0.1");
}

static void test_named_interfaces_are_taken_as_they_are(void **state)
{
	(void)state;
	table_add(&table, "docker0", "bridge", "172.17.0.1");
	table_add(&table, "eth0", "", "10.0.0.2");
	table_add(&table, "eth1", "", "10.0.1.2");
	set_ifname("docker");
	expect_chosen("docker0 172.17.0.1");
	expect_reason("eth0", "filtered by NCCL_SOCKET_IFNAME=docker");
	set_ifname("lo");
	expect_chosen("lo 127.0.0.1");
	set_ifname("eth,docker");
	expect_chosen("docker0 172.17.0.1, eth0 10.0.0.2, eth1 10.0.1.2");
	set_ifname("=eth1");
	expect_chosen("eth1 10.0.1.2");
	assert_string_equal(notes.ifname, "");
}

static void test_excluded_interfaces_are_out_and_the_rest_is_chosen_well(void **state)
{
	(void)state;
	table_add(&table, "docker0", "bridge", "172.17.0.1");
	table_add(&table, "eth0", "", "10.0.0.2");
	table_add(&table, "eth1", "", "10.0.1.2");
	set_ifname("^docker0");
	expect_chosen("eth0 10.0.0.2, eth1 10.0.1.2");
	expect_reason("lo", "preferred to the loopback interface");
	set_ifname("^=eth0");
	expect_chosen("eth1 10.0.1.2");
	set_ifname("^eth");
	expect_chosen("docker0 172.17.0.1");
	assert_string_equal(notes.ifname, "");
}

static void test_a_filter_that_leaves_no_interface_is_ignored(void **state)
{
	static const char *const filters[] = { "ens5", "=eth", "^eth,docker", "^=", "eth0" };

	(void)state;
	table_add(&table, "docker0", "bridge", "172.17.0.1")->flags &= ~(unsigned)IFF_RUNNING;
	table_add(&table, "eth0", "", "");
	table_add(&table, "eth1", "", "10.0.1.2");
	for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
		set_ifname(filters[i]);
		expect_chosen("eth1 10.0.1.2");
		assert_non_null(strstr(notes.ifname, filters[i]));
		assert_string_equal(notes.family, "");
	}
}

static void test_family_is_given_up_before_the_filter(void **state)
{
	(void)state;
	table_add(&table, "eth0", "", "10.0.0.2");
	table_add(&table, "eth1", "", "fd00::2");
	set_ifname("eth0");
	cfg.socket_family = AF_INET6;
	expect_chosen("eth0 10.0.0.2");
	assert_true(*notes.family);
	assert_string_equal(notes.ifname, "");
}

static void test_a_subnet_selects_interface_and_address(void **state)
{
	(void)state;
	table_add(&table, "eth0", "", "10.0.0.2/24 10.7.0.2/16");
	table_add(&table, "eth1", "", "10.1.0.2/16");
	table_add(&table, "eth2", "", "fd00:2::2/64 10.2.0.2/16");
	set_subnet("10.1.200.1"); /* an address in the network of eth1 */
	expect_chosen("eth1 10.1.0.2");
	expect_reason("eth0", "is not in the network of 10.1.200.1");
	set_subnet("10.0.0.0/14");
	expect_chosen("eth0 10.0.0.2, eth1 10.1.0.2, eth2 10.2.0.2");
	set_subnet("10.7.3.3");
	expect_chosen("eth0 10.7.0.2");
	set_subnet("fd00:2::99");
	expect_chosen("eth2 fd00:2::2");
	set_subnet("fd00:2::/63");
	expect_chosen("eth2 fd00:2::2");
	set_subnet("127.0.0.1");
	expect_chosen("lo 127.0.0.1");
}

static void test_a_subnet_nobody_is_in_changes_nothing(void **state)
{
	(void)state;
	table_add(&table, "eth0", "", "10.0.0.2/32");
	set_subnet("10.0.0.1");
	expect_chosen("eth0 10.0.0.2");
	assert_true(*notes.subnet);
	set_subnet("10.0.0.2");
	expect_chosen("eth0 10.0.0.2");
	assert_string_equal(notes.subnet, "");
}

static void test_named_interfaces_win_over_the_subnet(void **state)
{
	(void)state;
	table_add(&table, "eth0", "", "10.0.0.2");
	table_add(&table, "eth1", "", "10.1.0.2");
	set_subnet("10.1.0.1");
	set_ifname("eth0");
	expect_chosen("eth0 10.0.0.2");
}

static void test_nothing_at_all_is_survived(void **state)
{
	(void)state;
	table.links[0].flags &= ~(unsigned)IFF_UP;
	expect_chosen("");
	expect_reason("lo", "is down");
	table.link_count = table.addr_count = 0;
	expect_chosen("");
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
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_a_nic_beats_everything_virtual, setup),
		cmocka_unit_test_setup(test_kind_counts_and_not_the_name, setup),
		cmocka_unit_test_setup(test_what_a_container_has_beats_tunnels_and_bridges, setup),
		cmocka_unit_test_setup(test_wifi_beats_tunnels_and_bridges, setup),
		cmocka_unit_test_setup(test_a_tap_is_a_nic_of_a_sandbox_and_a_tun_is_a_vpn, setup),
		cmocka_unit_test_setup(test_a_tunnel_beats_bridge_dummy_and_lo, setup),
		cmocka_unit_test_setup(test_lo_is_used_only_when_alone, setup),
		cmocka_unit_test_setup(test_the_address_of_a_routed_host_is_on_lo_or_dummy, setup),
		cmocka_unit_test_setup(test_bonds_vlans_and_bridges_on_nics_are_real, setup),
		cmocka_unit_test_setup(test_open_vswitch_on_a_nic_is_real, setup),
		cmocka_unit_test_setup(test_a_bridge_of_veths_is_not_real, setup),
		cmocka_unit_test_setup(test_down_and_unplugged_nics_are_passed_over, setup),
		cmocka_unit_test_setup(test_all_real_nics_are_used, setup),
		cmocka_unit_test_setup(test_a_management_port_is_left_out, setup),
		cmocka_unit_test_setup(test_one_wire_is_one_device, setup),
		cmocka_unit_test_setup(test_a_loop_of_stacked_links_ends, setup),
		cmocka_unit_test_setup(test_ipv4_goes_before_ipv6_unless_asked, setup),
		cmocka_unit_test_setup(test_a_family_without_an_interface_is_ignored, setup),
		cmocka_unit_test_setup(test_loopback_honours_the_family, setup),
		cmocka_unit_test_setup(test_link_local_ipv6_is_never_chosen_by_itself, setup),
		cmocka_unit_test_setup(test_unroutable_ipv4_is_the_last_choice, setup),
		cmocka_unit_test_setup(test_lasting_addresses_go_before_fading_ones, setup),
		cmocka_unit_test_setup(test_unusable_addresses_are_ignored, setup),
		cmocka_unit_test_setup(test_named_interfaces_are_taken_as_they_are, setup),
		cmocka_unit_test_setup(test_excluded_interfaces_are_out_and_the_rest_is_chosen_well,
				       setup),
		cmocka_unit_test_setup(test_a_filter_that_leaves_no_interface_is_ignored, setup),
		cmocka_unit_test_setup(test_family_is_given_up_before_the_filter, setup),
		cmocka_unit_test_setup(test_a_subnet_selects_interface_and_address, setup),
		cmocka_unit_test_setup(test_a_subnet_nobody_is_in_changes_nothing, setup),
		cmocka_unit_test_setup(test_named_interfaces_win_over_the_subnet, setup),
		cmocka_unit_test_setup(test_nothing_at_all_is_survived, setup),
		cmocka_unit_test_setup(test_which_interfaces_copy, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

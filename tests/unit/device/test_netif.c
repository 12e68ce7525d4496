/* SPDX-License-Identifier: Apache-2.0 */
/* The choice among interfaces, whatever their kind: by link, speed, addresses and settings. */
#include "netif_choice.h"

#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <nccl_net/util.h>

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

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, netif_choice_setup)
	const struct CMUnitTest tests[] = {
		T(test_down_and_unplugged_nics_are_passed_over),
		T(test_all_real_nics_are_used),
		T(test_a_management_port_is_left_out),
		T(test_one_wire_is_one_device),
		T(test_a_loop_of_stacked_links_ends),
		T(test_ipv4_goes_before_ipv6_unless_asked),
		T(test_a_family_without_an_interface_is_ignored),
		T(test_loopback_honours_the_family),
		T(test_link_local_ipv6_is_never_chosen_by_itself),
		T(test_unroutable_ipv4_is_the_last_choice),
		T(test_lasting_addresses_go_before_fading_ones),
		T(test_unusable_addresses_are_ignored),
		T(test_named_interfaces_are_taken_as_they_are),
		T(test_excluded_interfaces_are_out_and_the_rest_is_chosen_well),
		T(test_a_filter_that_leaves_no_interface_is_ignored),
		T(test_family_is_given_up_before_the_filter),
		T(test_a_subnet_selects_interface_and_address),
		T(test_a_subnet_nobody_is_in_changes_nothing),
		T(test_named_interfaces_win_over_the_subnet),
		T(test_nothing_at_all_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

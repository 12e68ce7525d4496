/* SPDX-License-Identifier: Apache-2.0 */
/* TCP's probe: chosen interfaces become devices, the others get verdicts. */
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

#include "transports/device/tcp_probe.h"
#include "unit/netif_table.h"
#include "unit/sysfs_tree.h"

#define DEVICES_MOST 16

static struct netif_table table;
static struct anynet_config cfg;
static struct anynet_probe probe;

static int setup(void **state)
{
	(void)state;
	memset(&cfg, 0, sizeof(cfg));
	memset(&probe, 0, sizeof(probe));
	cfg.max_recvs = 8;
	table_start(&table);
	return 0;
}

static void run(const char *sysfs)
{
	memset(&probe, 0, sizeof(probe));
	tcp_probe_table(&cfg, &table, sysfs, &probe);
}

static void run_standby(void)
{
	memset(&probe, 0, sizeof(probe));
	probe.stands_by = true;
	tcp_probe_table(&cfg, &table, "/nowhere", &probe);
}

static const struct anynet_candidate *verdict_on(const char *name)
{
	for (int i = 0; i < probe.candidate_count; i++) {
		if (!strcmp(probe.candidates[i].name, name))
			return &probe.candidates[i];
	}
	return NULL;
}

static void expect_devices(const char *expected)
{
	char names[200] = "";

	for (int i = 0; i < probe.device_count; i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i ? " " : "",
			 probe.devices[i].name);
	assert_string_equal(names, expected);
}

/* As in NCCL's Socket net, which uses interfaces called ib... alone. */
static void test_ip_over_infiniband_is_used_alone(void **state)
{
	(void)state;
	table_add(&table, "eth0", "", "10.0.0.2/24");
	table_add(&table, "ib9", "", "10.0.1.2/24"); /* Ethernet, whatever its name */
	run("/nowhere");
	expect_devices("eth0 ib9");
	table_add(&table, "ibp3s0", "", "10.0.2.2/24")->type = ARPHRD_INFINIBAND;
	table_add(&table, "mgmt.8001", "ipoib", "10.0.3.2/24");
	run("/nowhere");
	expect_devices("ibp3s0 mgmt.8001");
	assert_string_equal(verdict_on("eth0")->reason,
			    "ibp3s0 is IP over InfiniBand; anynet uses it alone, as NCCL does");
	run_standby();
	expect_devices("eth0 ib9 ibp3s0 mgmt.8001");
}

/* InfiniBand is ten times as fast as what does not fail together with it. */
static void test_what_is_slow_stands_by_too_and_last(void **state)
{
	(void)state;
	table_add(&table, "eth0", "", "10.0.0.2/24")->speed_mbps = 10000;
	table_add(&table, "eth1", "", "10.0.1.2/24");
	table_add(&table, "ibp3s0", "", "10.0.2.2/24")->type = ARPHRD_INFINIBAND;
	table.links[3].speed_mbps = 200000;
	run("/nowhere");
	expect_devices("ibp3s0");
	run_standby();
	expect_devices("eth1 ibp3s0 eth0");
}

static void test_ip_over_infiniband_is_not_preferred_to_what_is_asked_for(void **state)
{
	(void)state;
	table_add(&table, "eth0", "", "10.0.0.2/24");
	table_add(&table, "ib0", "", "10.0.2.2/24")->type = ARPHRD_INFINIBAND;
	strcpy(cfg.socket_ifname, "eth,ib");
	run("/nowhere");
	expect_devices("eth0 ib0");
	strcpy(cfg.socket_ifname, "^docker");
	run("/nowhere");
	expect_devices("ib0");
	strcpy(cfg.socket_ifname, "^ib");
	run("/nowhere");
	expect_devices("eth0");
	*cfg.socket_ifname = 0;
	strcpy(cfg.socket_subnet, "10.0.0.0/8");
	run("/nowhere");
	expect_devices("eth0 ib0");
}

static void test_a_device_is_described_as_nccl_wants_it(void **state)
{
	const struct anynet_device *dev = &probe.devices[0];
	const struct sockaddr_in *addr = (const void *)&dev->addr;

	(void)state;
	table_add(&table, "eth0", "", "10.0.0.2/24")->speed_mbps = 25000;
	cfg.max_recvs = 3;
	run("/nowhere");
	assert_int_equal(probe.device_count, 1);
	assert_int_equal(dev->transport, ANYNET_TRANSPORT_TCP);
	assert_int_equal(dev->index, 0);
	assert_string_equal(dev->name, "eth0");
	assert_string_equal(dev->ifname, "eth0");
	assert_string_equal(dev->pci_path, "");
	assert_int_equal(dev->speed_mbps, 25000);
	assert_int_equal(dev->port, 0);
	assert_int_equal(dev->max_comms, 65536);
	assert_int_equal(dev->max_recvs, 3);
	assert_int_equal(dev->ptr_support, ANYNET_PTR_HOST);
	assert_int_equal(dev->ifindex, 2);
	assert_false(dev->copies_in_kernel);
	assert_int_equal(addr->sin_family, AF_INET);
	assert_int_equal(addr->sin_port, 0);
	assert_int_equal(ntohl(addr->sin_addr.s_addr), 0x0a000002);
	assert_true(verdict_on("eth0")->usable);
	assert_string_equal(verdict_on("eth0")->reason, "10.0.0.2, 25000 Mb/s");
	assert_false(verdict_on("lo")->usable);
}

static void test_an_unknown_speed_is_assumed_and_said(void **state)
{
	(void)state;
	table_add(&table, "eth0", "veth", "10.0.0.2/24");
	run("/nowhere");
	assert_int_equal(probe.devices[0].speed_mbps, 10000);
	assert_true(probe.devices[0].copies_in_kernel);
	assert_string_equal(verdict_on("eth0")->reason, "10.0.0.2, 10000 Mb/s assumed");
}

static void test_several_devices_differ_in_name_index_and_guid(void **state)
{
	(void)state;
	table_add(&table, "eth0", "", "10.0.0.2");
	table_add(&table, "eth1", "", "fd00::2");
	run("/nowhere");
	assert_int_equal(probe.device_count, 2);
	assert_int_equal(probe.devices[1].index, 1);
	assert_true(probe.devices[0].guid != probe.devices[1].guid);
	assert_string_equal(probe.devices[1].name, "eth1");
	assert_int_equal(probe.devices[1].addr.ss_family, AF_INET6);
}

static void test_devices_come_after_those_of_another_transport(void **state)
{
	(void)state;
	table_add(&table, "eth0", "", "10.0.0.2");
	probe.device_count = 2;
	tcp_probe_table(&cfg, &table, "/nowhere", &probe);
	assert_int_equal(probe.device_count, 3);
	assert_int_equal(probe.devices[2].index, 2);
	assert_true(probe.devices[2].guid == 2);
}

static int usable_count(void)
{
	int usable = 0;

	for (int i = 0; i < probe.candidate_count; i++)
		usable += probe.candidates[i].usable;
	return usable;
}

static void test_more_interfaces_than_devices_are_told_apart(void **state)
{
	(void)state;
	for (int i = 0; i < DEVICES_MOST + 5; i++) {
		char name[16], addr[16];

		snprintf(name, sizeof(name), "eth%d", i);
		snprintf(addr, sizeof(addr), "10.0.%d.2", i);
		table_add(&table, name, "", addr);
	}
	run("/nowhere");
	assert_int_equal(probe.device_count, DEVICES_MOST);
	assert_int_equal(probe.devices[0].ifindex, 2);
	assert_int_equal(probe.devices[DEVICES_MOST - 1].ifindex, DEVICES_MOST + 1);
	assert_int_equal(usable_count(), DEVICES_MOST + 5);
}

/* Without a place of their own they share a node in NCCL, which has room for 31. */
static void test_a_prefix_may_name_many_vlans(void **state)
{
	unsigned below;

	(void)state;
	below = table_add(&table, "bond0", "bond", "10.0.0.2")->index;
	for (int i = 1; i <= 40; i++) {
		char name[16], addr[16];

		snprintf(name, sizeof(name), "bond0.%d", i);
		snprintf(addr, sizeof(addr), "10.0.%d.2", i);
		table_add(&table, name, "vlan", addr)->lower = below;
	}
	strcpy(cfg.socket_ifname, "bond0");
	run("/nowhere");
	assert_int_equal(probe.device_count, DEVICES_MOST);
	assert_string_equal(probe.devices[0].name, "bond0");
	assert_int_equal(usable_count(), 41); /* the selector warns of the difference */
}

static void test_virtual_interfaces_without_address_share_one_line(void **state)
{
	(void)state;
	table_add(&table, "eth0", "", "10.0.0.2");
	table_add(&table, "eth1", "", "");
	for (int i = 0; i < 90; i++) {
		char name[16];

		snprintf(name, sizeof(name), "veth%08x", i);
		table_add(&table, name, "veth", "");
	}
	run("/nowhere");
	assert_int_equal(probe.candidate_count, 4); /* eth0, lo, eth1, the others */
	assert_non_null(verdict_on("eth1"));
	assert_non_null(strstr(verdict_on("others")->reason, "90 virtual interfaces"));
	assert_non_null(strstr(verdict_on("others")->reason, "veth00000000 veth00000001"));
	assert_non_null(strstr(verdict_on("others")->reason, "..."));
}

static void test_settings_that_were_given_up_have_a_verdict(void **state)
{
	(void)state;
	table_add(&table, "eth0", "", "10.0.0.2");
	snprintf(cfg.socket_ifname, sizeof(cfg.socket_ifname), "ens5");
	cfg.socket_family = AF_INET6;
	snprintf(cfg.socket_subnet, sizeof(cfg.socket_subnet), "10.99.0.0/16");
	run("/nowhere");
	assert_int_equal(probe.device_count, 1);
	assert_false(verdict_on("NCCL_SOCKET_IFNAME")->usable);
	assert_false(verdict_on("NCCL_SOCKET_FAMILY")->usable);
	assert_null(verdict_on("10.99.0.0/16")); /* not examined when interfaces are named */
	*cfg.socket_ifname = 0;
	run("/nowhere");
	assert_non_null(
		verdict_on("10.99.0.0/16")); /* the address of NCCL_COMM_ID was only a hint */
	assert_null(verdict_on("NCCL_SOCKET_IFNAME"));
	cfg.socket_subnet_own = true;
	run("/nowhere");
	assert_null(verdict_on("10.99.0.0/16"));
	assert_string_equal(verdict_on("ANYNET_SOCKET_SUBNET")->reason,
			    "no interface is in the network of 10.99.0.0/16; ignored");
}

static int setup_with_tree(void **state)
{
	setup(state);
	return tree_create(state);
}

/* eth0 is this PCI function. */
static void make_eth0(const char *vendor)
{
	tree_dir("bus/pci");
	tree_file("devices/0000:05:00.0/vendor", vendor);
	tree_link("../../bus/pci", "devices/0000:05:00.0/subsystem");
	tree_dir("class/net/eth0");
	tree_link("../../../devices/0000:05:00.0", "class/net/eth0/device");
	table_add(&table, "eth0", "", "10.0.0.2");
}

/* Where NICs have 100 Gb/s and more, and each connection a limit. */
static void test_a_clouds_nic_of_unknown_speed_may_be_faster(void **state)
{
	(void)state;
	make_eth0("0x1d0f\n");
	run(tree_root());
	assert_int_equal(probe.devices[0].speed_mbps, 10000);
	assert_true(probe.devices[0].may_be_faster);
	run("/nowhere"); /* not a PCI function */
	assert_false(probe.devices[0].may_be_faster);
	strcpy(table.links[1].kind, "ipvlan");
	run(tree_root());
	assert_false(probe.devices[0].may_be_faster);
	*table.links[1].kind = 0;
	table.links[1].speed_mbps = 10000;
	run(tree_root());
	assert_false(probe.devices[0].may_be_faster);
}

static void test_a_nic_of_virtio_is_as_fast_as_assumed(void **state)
{
	(void)state;
	make_eth0("0x1af4\n");
	run(tree_root());
	assert_false(probe.devices[0].may_be_faster);
}

static void test_pci_path_comes_from_sysfs(void **state)
{
	(void)state;
	make_eth0("0x15b3\n");
	run(tree_root());
	assert_string_equal(probe.devices[0].pci_path, tree_path("devices/0000:05:00.0"));
}

static void test_this_host_has_a_network(void **state)
{
	(void)state;
	anynet_tcp_probe(&cfg, &probe);
	assert_true(probe.device_count >= 1);
	assert_true(probe.devices[0].speed_mbps > 0);
	assert_true(probe.devices[0].addr.ss_family != AF_UNSPEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_ip_over_infiniband_is_used_alone, setup),
		cmocka_unit_test_setup(test_what_is_slow_stands_by_too_and_last, setup),
		cmocka_unit_test_setup(
			test_ip_over_infiniband_is_not_preferred_to_what_is_asked_for, setup),
		cmocka_unit_test_setup(test_a_device_is_described_as_nccl_wants_it, setup),
		cmocka_unit_test_setup(test_an_unknown_speed_is_assumed_and_said, setup),
		cmocka_unit_test_setup(test_several_devices_differ_in_name_index_and_guid, setup),
		cmocka_unit_test_setup(test_devices_come_after_those_of_another_transport, setup),
		cmocka_unit_test_setup(test_more_interfaces_than_devices_are_told_apart, setup),
		cmocka_unit_test_setup(test_a_prefix_may_name_many_vlans, setup),
		cmocka_unit_test_setup(test_virtual_interfaces_without_address_share_one_line,
				       setup),
		cmocka_unit_test_setup(test_settings_that_were_given_up_have_a_verdict, setup),
		cmocka_unit_test_setup_teardown(test_a_clouds_nic_of_unknown_speed_may_be_faster,
						setup_with_tree, tree_remove),
		cmocka_unit_test_setup_teardown(test_a_nic_of_virtio_is_as_fast_as_assumed,
						setup_with_tree, tree_remove),
		cmocka_unit_test_setup_teardown(test_pci_path_comes_from_sysfs, setup_with_tree,
						tree_remove),
		cmocka_unit_test_setup(test_this_host_has_a_network, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

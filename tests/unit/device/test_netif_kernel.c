/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the kernel's interfaces, in a namespace with one of each kind that this kernel can create. */
#include <errno.h>
#include <limits.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <nccl_net/subnet.h>
#include <nccl_net/util.h>

#include "transports/device/netif.h"
#include "unit/netns.h"

static struct netif_table table;
static struct anynet_config cfg;
static struct netif_notes notes;

/* As for addresses of a VRF, which not every kernel can make. */
static const char *unbound = "";

int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t bytes);
int __real_bind(int fd, const struct sockaddr *addr, socklen_t bytes);

int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t bytes)
{
	struct sockaddr_storage whole = { 0 };
	char text[INET6_ADDRSTRLEN];

	memcpy(&whole, addr, bytes);
	if (strcmp(subnet_ip_text(&whole, text), unbound) != 0)
		return __real_bind(fd, addr, bytes);
	errno = EADDRNOTAVAIL;
	return -1;
}

/* Datagrams from now on in which the kernel says that the table has changed meanwhile. */
static int interruptions;

ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __real_recv(int fd, void *data, size_t bytes, int flags);

ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags)
{
	ssize_t n = __real_recv(fd, data, bytes, flags);

	if (n >= (ssize_t)sizeof(struct nlmsghdr) && interruptions && interruptions--)
		((struct nlmsghdr *)data)->nlmsg_flags |= NLM_F_DUMP_INTR;
	return n;
}

/* Reads them again; returns the first link of that name, or NULL. */
static const struct netif_link *read_link(const char *name)
{
	netif_free(&table);
	assert_int_equal(netif_read(&table), 0);
	for (size_t i = 0; i < table.link_count; i++) {
		if (!strcmp(table.links[i].name, name))
			return &table.links[i];
	}
	return NULL;
}

/* The kernel notices a carrier some time after the link is up (at most a second, when idle). */
static void wait_running(const char *name)
{
	const struct timespec pause = { .tv_nsec = 5 * 1000 * 1000 };
	const struct netif_link *link = read_link(name);

	for (int i = 0; i < 4000 && link && !(link->flags & IFF_RUNNING); i++) {
		nanosleep(&pause, NULL);
		link = read_link(name);
	}
	assert_non_null(link);
	assert_true(link->flags & IFF_RUNNING);
}

static void expect_chosen(const char *expected)
{
	struct netif_verdict *verdicts;
	char text[500] = "", addr[INET6_ADDRSTRLEN];

	read_link("lo");
	verdicts = calloc(table.link_count, sizeof(*verdicts));
	assert_non_null(verdicts);
	netif_choose(&table, &cfg, false, verdicts, &notes);
	for (size_t i = 0; i < table.link_count; i++) {
		if (verdicts[i].chosen)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %s",
				 *text ? ", " : "", table.links[i].name,
				 subnet_ip_text(&verdicts[i].addr->addr, addr));
	}
	free(verdicts);
	assert_string_equal(text, expected);
}

static void ip(const char *arguments)
{
	if (!netns_ip(false, arguments))
		fail_msg("ip %s", arguments);
}

static int teardown(void **state)
{
	(void)state;
	netns_ip(true, "link set lo down");
	for (size_t i = 0; i < table.link_count; i++) {
		char command[64];

		snprintf(command, sizeof(command), "link del dev '%.15s'", table.links[i].name);
		netns_ip(true, command);
	}
	netif_free(&table);
	memset(&cfg, 0, sizeof(cfg));
	unbound = "";
	interruptions = 0;
	return 0;
}

static void test_lo_comes_and_goes(void **state)
{
	const struct netif_link *lo;

	(void)state;
	expect_chosen("");
	lo = read_link("lo");
	assert_non_null(lo);
	assert_false(lo->flags & IFF_UP);
	assert_true(lo->flags & IFF_LOOPBACK);
	ip("link set lo up");
	expect_chosen("lo 127.0.0.1");
}

static void test_kinds_are_the_kernels(void **state)
{
	static const struct {
		const char *kind, *arguments;
	} made[] = {
		{ "veth", "link add a0 type veth peer name a1" },
		{ "bridge", "link add a0 type bridge" },
		{ "dummy", "link add a0 type dummy" },
		{ "vxlan", "link add a0 type vxlan id 7 dstport 4789 local 127.0.0.1" },
		{ "geneve", "link add a0 type geneve id 7 remote 10.0.0.9" },
		{ "gre", "link add a0 type gre local 10.0.0.1 remote 10.0.0.9" },
		{ "ipip", "link add a0 type ipip local 10.0.0.1 remote 10.0.0.9" },
		{ "sit", "link add a0 type sit local 10.0.0.1 remote 10.0.0.9" },
		{ "wireguard", "link add a0 type wireguard" },
		{ "tun", "tuntap add a0 mode tun" },
		{ "bond", "link add a0 type bond" },
		{ "ifb", "link add a0 type ifb" },
	};
	size_t count = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(made); i++) {
		const struct netif_link *link;

		if (!netns_ip(true, made[i].arguments)) {
			printf("this kernel makes no %s here\n", made[i].kind);
			continue;
		}
		link = read_link("a0");
		assert_non_null(link);
		assert_string_equal(link->kind, made[i].kind);
		ip("link del a0");
		count++;
	}
	assert_true(count > 0);
}

static void test_addresses_are_read_in_order_with_prefix_and_scope(void **state)
{
	const struct netif_link *link;
	char text[INET6_ADDRSTRLEN];
	size_t v4 = 0, local = 0;

	(void)state;
	ip("link add a0 type veth peer name a1");
	ip("addr add 10.1.0.2/16 dev a0");
	ip("addr add 10.2.0.2 peer 10.2.0.3/32 dev a0");
	ip("link set a0 up");
	netns_ip(true, "-6 addr add fe80::7/64 dev a0 nodad");
	link = read_link("a0");
	for (size_t i = 0; i < table.addr_count; i++) {
		const struct netif_addr *addr = &table.addrs[i];
		const struct sockaddr_in6 *v6 = (const void *)&addr->addr;

		if (addr->ifindex != link->index)
			continue;
		subnet_ip_text(&addr->addr, text);
		if (addr->addr.ss_family == AF_INET) {
			assert_string_equal(text, v4 ? "10.2.0.2" : "10.1.0.2");
			assert_int_equal(addr->prefix, v4++ ? 32 : 16);
		} else if (!strcmp(text, "fe80::7")) {
			assert_int_equal(v6->sin6_scope_id, link->index);
			local++;
		}
	}
	assert_int_equal(v4, 2);
	if (!local)
		printf("no IPv6 in this kernel\n");
}

static bool has_addr(const char *wanted)
{
	char text[INET6_ADDRSTRLEN];

	for (size_t i = 0; i < table.addr_count; i++)
		if (!strcmp(subnet_ip_text(&table.addrs[i].addr, text), wanted))
			return true;
	return false;
}

/* No socket can be bound to an address before duplicate address detection. */
static void test_an_address_that_is_asked_about_is_none_yet(void **state)
{
	FILE *asks;

	(void)state;
	ip("link add a0 type veth peer name a1");
	asks = fopen("/proc/sys/net/ipv6/conf/a0/dad_transmits", "we");
	/* This many probes, one per second: it does not end meanwhile. */
	if (!asks || fputs("1000\n", asks) < 0 || fclose(asks)) {
		printf("SKIP no IPv6, or /proc/sys may not be written to\n");
		skip();
	}
	ip("link set a1 up");
	ip("link set a0 up");
	ip("-6 addr add fd00::1/64 dev a0");
	ip("-6 addr add fd00::2/64 dev a0 nodad");
	wait_running("a0");
	assert_false(has_addr("fd00::1"));
	assert_true(has_addr("fd00::2"));
	assert_false(read_link("a0")->has_unbound); /* which the user would be told of */
}

static void test_a_table_that_changes_is_read_again(void **state)
{
	(void)state;
	ip("link set lo up");
	interruptions = 3;
	expect_chosen("lo 127.0.0.1");
	assert_false(table.changed);
	assert_int_equal(interruptions, 0);
}

/* On a host where containers start all the time. */
static void test_a_table_that_always_changes_is_used_all_the_same(void **state)
{
	(void)state;
	ip("link set lo up");
	interruptions = INT_MAX;
	expect_chosen("lo 127.0.0.1");
	assert_true(table.changed);
}

static void check_vrf(void)
{
	struct netif_verdict verdicts[8];

	expect_chosen("lo 127.0.0.1");
	assert_false(has_addr("10.1.0.2"));
	netif_choose(&table, &cfg, false, verdicts, &notes);
	for (size_t i = 0; i < table.link_count; i++)
		if (!strcmp(table.links[i].name, "a0"))
			assert_string_equal(verdicts[i].reason,
					    "no socket can be bound to its address; "
					    "does it belong to a VRF?");
}

static void test_an_interface_of_a_vrf_is_not_chosen(void **state)
{
	(void)state;
	if (!netns_ip(true, "link add vrf0 type vrf table 10")) {
		printf("SKIP this kernel makes no VRF\n");
		skip();
	}
	ip("link set lo up");
	ip("link set vrf0 up");
	ip("link add a0 type veth peer name a1");
	ip("link set a0 master vrf0");
	ip("addr add 10.1.0.2/16 dev a0");
	ip("link set a1 up");
	ip("link set a0 up");
	wait_running("a0");
	check_vrf();
}

/* One of two: the other one is used. */
static void test_an_address_that_cannot_be_bound_is_left_out(void **state)
{
	(void)state;
	ip("link set lo up");
	ip("link add a0 type veth peer name a1");
	ip("addr add 10.1.0.2/16 dev a0");
	ip("link set a1 up");
	ip("link set a0 up");
	wait_running("a0");
	expect_chosen("a0 10.1.0.2");
	unbound = "10.1.0.2";
	check_vrf();
	ip("addr add 10.2.0.2/16 dev a0");
	expect_chosen("a0 10.2.0.2");
}

static void test_veth_beats_bridge_and_tunnel(void **state)
{
	(void)state;
	ip("link set lo up");
	ip("link add docker0 type bridge");
	ip("addr add 172.17.0.1/16 dev docker0");
	if (!netns_ip(true, "link add vxlan7 type vxlan id 7 dstport 4789 local 127.0.0.1")) {
		printf("SKIP this kernel makes no vxlan\n");
		skip();
	}
	ip("addr add 10.7.0.1/24 dev vxlan7");
	ip("link add eth0 type veth peer name peer0");
	ip("addr add 10.0.0.2/24 dev eth0");
	ip("link set docker0 up");
	ip("link set vxlan7 up");
	ip("link set eth0 up");
	wait_running("vxlan7");
	expect_chosen("vxlan7 10.7.0.1"); /* the pair has no carrier yet */
	ip("link set peer0 up");
	wait_running("eth0");
	expect_chosen("eth0 10.0.0.2");
	snprintf(cfg.socket_ifname, sizeof(cfg.socket_ifname), "vx");
	expect_chosen("vxlan7 10.7.0.1");
}

static void test_a_vlan_knows_what_it_is_stacked_on(void **state)
{
	const struct netif_link *link;
	unsigned lower;

	(void)state;
	ip("link add a0 type veth peer name a1");
	lower = read_link("a0")->index;
	if (!netns_ip(true, "link add link a0 name a0.5 type vlan id 5")) {
		printf("SKIP this kernel makes no VLAN\n");
		skip();
	}
	link = read_link("a0.5");
	assert_non_null(link);
	assert_string_equal(link->kind, "vlan");
	assert_int_equal(link->lower, lower);
}

static void test_bridge_ports_know_their_bridge(void **state)
{
	unsigned bridge;

	(void)state;
	ip("link add br7 type bridge");
	ip("link add eth0 type veth peer name peer0");
	ip("link set eth0 master br7");
	bridge = read_link("br7")->index;
	assert_int_equal(read_link("eth0")->master, bridge);
	assert_int_equal(read_link("peer0")->master, 0);
}

static void test_a_hundred_interfaces_are_read_in_the_order_of_names(void **state)
{
	(void)state;
	for (int i = 60; i > 0; i--) {
		char command[80];

		snprintf(command, sizeof(command), "link add eth%d type veth peer name v%d", i, i);
		ip(command);
	}
	read_link("lo");
	assert_true(table.link_count > 120);
	for (size_t i = 1; i < table.link_count; i++)
		assert_true(strverscmp(table.links[i - 1].name, table.links[i].name) < 0);
	assert_string_equal(table.links[0].name, "eth1");
	assert_string_equal(table.links[1].name, "eth2");
}

/* Linux allows 1 to 15 bytes, none of them a slash, a colon or white space. */
static void test_short_long_and_odd_names(void **state)
{
	static const char *const names[] = {
		"n",         "n2345678901234", "n23456789012345", "=a",    "^a",
		"a.b-c_d@e", "a\\b",           "\303\274ber",     "a*?[]", "\"a\""
	};
	char expected[80], command[160];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(command, sizeof(command), "link add name '%s' type veth peer name peer%zu",
			 names[i], i);
		ip(command);
		snprintf(command, sizeof(command), "addr add 10.0.%zu.1/24 dev '%s'", i, names[i]);
		ip(command);
		snprintf(command, sizeof(command), "link set dev '%s' up", names[i]);
		ip(command);
		snprintf(command, sizeof(command), "link set dev peer%zu up", i);
		ip(command);
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		wait_running(names[i]);
		snprintf(cfg.socket_ifname, sizeof(cfg.socket_ifname), "=%s", names[i]);
		snprintf(expected, sizeof(expected), "%s 10.0.%zu.1", names[i], i);
		expect_chosen(expected);
		assert_string_equal(notes.ifname, "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_lo_comes_and_goes, teardown),
		cmocka_unit_test_teardown(test_kinds_are_the_kernels, teardown),
		cmocka_unit_test_teardown(test_addresses_are_read_in_order_with_prefix_and_scope,
					  teardown),
		cmocka_unit_test_teardown(test_an_address_that_is_asked_about_is_none_yet,
					  teardown),
		cmocka_unit_test_teardown(test_a_table_that_changes_is_read_again, teardown),
		cmocka_unit_test_teardown(test_a_table_that_always_changes_is_used_all_the_same,
					  teardown),
		cmocka_unit_test_teardown(test_an_interface_of_a_vrf_is_not_chosen, teardown),
		cmocka_unit_test_teardown(test_an_address_that_cannot_be_bound_is_left_out,
					  teardown),
		cmocka_unit_test_teardown(test_veth_beats_bridge_and_tunnel, teardown),
		cmocka_unit_test_teardown(test_a_vlan_knows_what_it_is_stacked_on, teardown),
		cmocka_unit_test_teardown(test_bridge_ports_know_their_bridge, teardown),
		cmocka_unit_test_teardown(test_a_hundred_interfaces_are_read_in_the_order_of_names,
					  teardown),
		cmocka_unit_test_teardown(test_short_long_and_odd_names, teardown),
	};

	netns_enter();
	if (!netns_ip(true, "link show >/dev/null")) {
		printf("SKIP no ip command (iproute2)\n");
		return SKIP_EXIT;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}

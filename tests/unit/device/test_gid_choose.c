/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a port's GID for a GID of the peer. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "transports/device/gid.h"

#define MAX 8

static struct anynet_config cfg;
static struct gid_wish wish;
static struct gid own[MAX], peer;
static int own_count;
static char why[160];

static int setup(void **state)
{
	(void)state;
	memset(&cfg, 0, sizeof(cfg));
	cfg.ib_gid_index = ANYNET_AUTO;
	cfg.ib_roce_version = 2;
	cfg.ib_addr_family = AF_INET;
	cfg.ib_flid_gid_index = 1;
	wish = (struct gid_wish){ .cfg = &cfg, .link_layer = IBV_LINK_LAYER_ETHERNET };
	own_count = 0;
	return 0;
}

static struct gid gid_of(int index, const char *addr, enum ibv_gid_type type)
{
	struct gid gid = { .index = index, .type = type };

	assert_int_equal(inet_pton(AF_INET6, addr, gid.raw.raw), 1);
	return gid;
}

static void add_own(int index, const char *addr, enum ibv_gid_type type)
{
	own[own_count++] = gid_of(index, addr, type);
}

static void set_peer(const char *addr, enum ibv_gid_type type)
{
	peer = gid_of(0, addr, type);
	wish.peer = &peer;
}

/* Linux's table for an interface with one IPv4 address. */
static void add_usual(const char *mapped)
{
	add_own(0, "fe80::1", IBV_GID_TYPE_ROCE_V1);
	add_own(1, "fe80::1", IBV_GID_TYPE_ROCE_V2);
	add_own(2, mapped, IBV_GID_TYPE_ROCE_V1);
	add_own(3, mapped, IBV_GID_TYPE_ROCE_V2);
}

static int choose(void)
{
	*why = 0;
	return gid_choose(&wish, own, own_count, why, sizeof(why));
}

static void expect(int index)
{
	int chosen = choose();

	if (chosen < 0)
		fail_msg("%s", why);
	assert_int_equal(own[chosen].index, index);
}

static void expect_error(int ret, const char *part)
{
	assert_int_equal(choose(), ret);
	if (!strstr(why, part))
		fail_msg("'%s' is not in '%s'", part, why);
}

static void test_version_2_of_the_ipv4_address(void **state)
{
	(void)state;
	add_usual("::ffff:10.0.0.1");
	expect(3);
	cfg.ib_roce_version = 1;
	expect(2);
}

static void test_version_1_where_there_is_no_other(void **state)
{
	(void)state;
	add_own(0, "fe80::1", IBV_GID_TYPE_ROCE_V2);
	add_own(2, "::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V1);
	expect(2);
}

static void test_the_lower_index_last_of_all(void **state)
{
	(void)state;
	add_own(7, "::ffff:10.0.0.7", IBV_GID_TYPE_ROCE_V2);
	add_own(5, "::ffff:10.0.0.5", IBV_GID_TYPE_ROCE_V2);
	expect(5);
}

static void test_the_family_is_a_wish(void **state)
{
	(void)state;
	add_own(1, "fd00::1", IBV_GID_TYPE_ROCE_V2);
	expect(1); /* NCCL would choose the link-local one */
	add_own(3, "::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2);
	expect(3);
	cfg.ib_addr_family = AF_INET6;
	expect(1);
	cfg.ib_addr_family = AF_UNSPEC;
	expect(1);
}

static void test_the_users_index_and_no_other(void **state)
{
	(void)state;
	add_usual("::ffff:10.0.0.1");
	cfg.ib_gid_index = 1;
	expect(1);
	cfg.ib_gid_index = 4;
	expect_error(-EADDRNOTAVAIL, "its GID 4 is not set (NCCL_IB_GID_INDEX)");
}

static void test_a_range_is_a_filter(void **state)
{
	(void)state;
	add_own(1, "::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2);
	add_own(2, "::ffff:192.168.5.1", IBV_GID_TYPE_ROCE_V2);
	add_own(3, "fd00::1", IBV_GID_TYPE_ROCE_V2);
	snprintf(cfg.ib_addr_range, sizeof(cfg.ib_addr_range), "192.168.0.0/16");
	expect(2);
	snprintf(cfg.ib_addr_range, sizeof(cfg.ib_addr_range), "fd00::/8");
	expect(3);
	snprintf(cfg.ib_addr_range, sizeof(cfg.ib_addr_range), "::/0");
	expect(1);
	snprintf(cfg.ib_addr_range, sizeof(cfg.ib_addr_range), "192.168.5.1");
	expect(2);
	add_own(4, "::ffff:192.168.5.2", IBV_GID_TYPE_ROCE_V2);
	snprintf(cfg.ib_addr_range, sizeof(cfg.ib_addr_range), "192.168.5.2");
	expect(4);
	own_count--;
	snprintf(cfg.ib_addr_range, sizeof(cfg.ib_addr_range), "172.16.0.0/12");
	expect_error(-EADDRNOTAVAIL, "none of its 3 GIDs is in NCCL_IB_ADDR_RANGE=172.16.0.0/12");
}

/* Whether the peer is on the same link is unknown: the queue pair has to prove it. */
static void test_link_local_where_there_is_no_other(void **state)
{
	(void)state;
	expect_error(-EADDRNOTAVAIL, "its GID table is empty");
	add_own(0, "fe80::1", IBV_GID_TYPE_ROCE_V1);
	expect(0);
	add_own(1, "fe80::1", IBV_GID_TYPE_ROCE_V2);
	expect(1);
	set_peer("fe80::7", IBV_GID_TYPE_ROCE_V2);
	expect(1);
	add_own(2, "fd00::1",
		IBV_GID_TYPE_ROCE_V1); /* not the preferred version, but routable */
	expect(1);
	set_peer("fd00::8", IBV_GID_TYPE_ROCE_V1);
	expect(2);
	wish.peer = NULL;
	expect(2);
	snprintf(cfg.ib_addr_range, sizeof(cfg.ib_addr_range), "10.0.0.0/8");
	expect_error(-EADDRNOTAVAIL, "none of its 3 GIDs is in NCCL_IB_ADDR_RANGE=10.0.0.0/8");
}

static bool route_by_family(const struct gid *from, const struct gid *to)
{
	return gid_is_ipv4(&from->raw) == gid_is_ipv4(&to->raw);
}

static void test_the_peers_network_decides(void **state)
{
	(void)state;
	add_own(3, "::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2);
	add_own(5, "::ffff:10.0.5.1", IBV_GID_TYPE_ROCE_V2);
	set_peer("::ffff:10.0.5.2", IBV_GID_TYPE_ROCE_V2);
	expect(5);
	set_peer("::ffff:10.0.0.2", IBV_GID_TYPE_ROCE_V2);
	expect(3); /* 10.0.0.1 and .2 have the most in common */
	own_count = 1;
	expect(3);
}

/* The connector does not know the peer's GIDs. It knows the address that it dials. */
static void test_the_address_that_is_dialled_decides(void **state)
{
	struct gid near = gid_of(0, "::ffff:10.0.5.2", IBV_GID_TYPE_IB);

	(void)state;
	add_own(3, "::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2);
	add_own(5, "::ffff:10.0.5.1", IBV_GID_TYPE_ROCE_V2);
	add_own(6, "fd00::1", IBV_GID_TYPE_ROCE_V2);
	expect(3);
	wish.near = &near;
	expect(5);
	near = gid_of(0, "fd00::2", IBV_GID_TYPE_IB);
	wish.routes = route_by_family;
	expect(6);
	/* No match is needed. */
	own_count = 2;
	expect(3);
}

static bool is_of_this_namespace(const struct gid *from, const struct gid *to)
{
	assert_ptr_equal(from, to);
	return from->index != 3;
}

/* A port's table may also hold the GIDs of other network namespaces. The kernel has no route from their addresses, not
 * even to themselves. */
static void test_while_no_peer_is_known_an_address_of_this_namespace(void **state)
{
	(void)state;
	add_own(3, "::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2);
	add_own(5, "::ffff:10.0.0.5", IBV_GID_TYPE_ROCE_V2);
	expect(3);
	wish.routes = is_of_this_namespace;
	expect(5);
	own_count = 1;
	expect(3);
}

/* If they differ in one byte, the bits count. */
static void test_the_peers_network_may_end_within_a_byte(void **state)
{
	(void)state;
	add_own(3, "::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2);
	add_own(5, "::ffff:10.0.64.1", IBV_GID_TYPE_ROCE_V2);
	set_peer("::ffff:10.0.80.2", IBV_GID_TYPE_ROCE_V2);
	expect(5);
}

static bool route_of_version_1_only(const struct gid *from, const struct gid *to)
{
	(void)to;
	return from->type == IBV_GID_TYPE_ROCE_V1;
}

static void test_the_version_counts_more_than_a_route(void **state)
{
	(void)state;
	add_usual("::ffff:10.0.0.1");
	wish.routes = route_of_version_1_only;
	expect(3);
}

static void test_both_ends_must_speak_the_same(void **state)
{
	(void)state;
	add_usual("::ffff:10.0.0.1");
	set_peer("::ffff:10.0.0.2", IBV_GID_TYPE_ROCE_V1);
	expect(2);
	set_peer("fd00::2", IBV_GID_TYPE_ROCE_V2);
	expect_error(-EHOSTUNREACH, "(RoCE v1) does not match the peer's fd00::2 (RoCE v2)");
	add_own(5, "fd00::1", IBV_GID_TYPE_ROCE_V2);
	expect(5);
}

static bool route_to_ipv6_only(const struct gid *from, const struct gid *to)
{
	(void)to;
	return !gid_is_ipv4(&from->raw);
}

static void test_a_route_counts_more_than_family_and_network(void **state)
{
	struct gid near = gid_of(0, "::ffff:10.0.0.2", IBV_GID_TYPE_IB);

	(void)state;
	wish.near = &near;
	add_own(1, "::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2);
	add_own(2, "fd00::1", IBV_GID_TYPE_ROCE_V2);
	expect(1);
	wish.routes = route_to_ipv6_only;
	expect(2);
	own_count = 1;
	expect(1); /* one without a route is better than none */
}

static void test_infiniband_takes_the_first_or_a_routable_one(void **state)
{
	(void)state;
	wish.link_layer = IBV_LINK_LAYER_INFINIBAND;
	expect_error(-EADDRNOTAVAIL, "its GID table is empty");
	add_own(0, "fe80::1", IBV_GID_TYPE_IB);
	expect(0);
	add_own(1, "fe80::2", IBV_GID_TYPE_IB);
	add_own(2, "fec0:0:7:1::2", IBV_GID_TYPE_IB);
	expect(0);
	cfg.ib_flid_gid_index = 2;
	expect(2);
	cfg.ib_gid_index = 1; /* is for RoCE */
	expect(2);
}

static void test_infiniband_and_roce_do_not_meet(void **state)
{
	(void)state;
	wish.link_layer = IBV_LINK_LAYER_INFINIBAND;
	add_own(0, "fe80::1", IBV_GID_TYPE_IB);
	set_peer("::ffff:10.0.0.2", IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(choose(), -EHOSTUNREACH);
	assert_non_null(strstr(why, "InfiniBand"));
	set_peer("fe80::9", IBV_GID_TYPE_IB);
	expect(0);
	wish.link_layer = IBV_LINK_LAYER_ETHERNET;
	own[0] = gid_of(0, "::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V1);
	assert_int_equal(choose(), -EHOSTUNREACH);
}

static void test_the_best_of_those_that_are_left(void **state)
{
	static const int best_first[] = { 3, 4, 2, 1, 0 };

	(void)state;
	add_usual("::ffff:10.0.0.1");
	add_own(4, "fd00::1", IBV_GID_TYPE_ROCE_V2);
	for (int i = 0; i < 5; i++) {
		expect(best_first[i]);
		own[choose()] = own[own_count - 1];
		own_count--;
	}
}

static void test_the_kernel_knows_the_routes(void **state)
{
	const struct gid lo = gid_of(0, "::ffff:127.0.0.1", IBV_GID_TYPE_ROCE_V2);
	const struct gid other = gid_of(0, "::ffff:127.0.0.2", IBV_GID_TYPE_ROCE_V2);
	const struct gid not_ours = gid_of(0, "::ffff:192.0.2.77", IBV_GID_TYPE_ROCE_V2);

	(void)state;
	assert_true(gid_has_route(&lo, &other));
	assert_true(gid_has_route(&lo, &lo));
	assert_false(gid_has_route(&not_ours, &lo));
	assert_false(gid_has_route(&not_ours, &not_ours));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_version_2_of_the_ipv4_address, setup),
		cmocka_unit_test_setup(test_version_1_where_there_is_no_other, setup),
		cmocka_unit_test_setup(test_the_lower_index_last_of_all, setup),
		cmocka_unit_test_setup(test_the_family_is_a_wish, setup),
		cmocka_unit_test_setup(test_the_users_index_and_no_other, setup),
		cmocka_unit_test_setup(test_a_range_is_a_filter, setup),
		cmocka_unit_test_setup(test_link_local_where_there_is_no_other, setup),
		cmocka_unit_test_setup(test_the_peers_network_decides, setup),
		cmocka_unit_test_setup(test_the_address_that_is_dialled_decides, setup),
		cmocka_unit_test_setup(test_while_no_peer_is_known_an_address_of_this_namespace,
				       setup),
		cmocka_unit_test_setup(test_the_peers_network_may_end_within_a_byte, setup),
		cmocka_unit_test_setup(test_the_version_counts_more_than_a_route, setup),
		cmocka_unit_test_setup(test_both_ends_must_speak_the_same, setup),
		cmocka_unit_test_setup(test_a_route_counts_more_than_family_and_network, setup),
		cmocka_unit_test_setup(test_infiniband_takes_the_first_or_a_routable_one, setup),
		cmocka_unit_test_setup(test_infiniband_and_roce_do_not_meet, setup),
		cmocka_unit_test_setup(test_the_best_of_those_that_are_left, setup),
		cmocka_unit_test_setup(test_the_kernel_knows_the_routes, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

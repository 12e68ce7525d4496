/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of streams: which NICs and ports of two hosts they join. */
#include "wire_addr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "transports/wire/hello.h"

/* `from` and `to`: addresses separated by blanks; the plan as "0>0 1>2". */
static const char *plan_of(const char *from, const char *to, int per_nic, int max)
{
	static char text[1024];
	struct anynet_wire_addr addrs[2][ANYNET_HELLO_ADDRS];
	struct anynet_wire_pair plan[ANYNET_STREAMS_MAX];
	const char *lists[2] = { from, to };
	int counts[2] = { 0, 0 }, streams;

	for (int side = 0; side < 2; side++) {
		char list[512], *rest = list, *word;

		snprintf(list, sizeof(list), "%s", lists[side]);
		while ((word = strsep(&rest, " ")))
			addrs[side][counts[side]++] = addr_of(word);
	}
	streams = stream_plan((struct nic_addrs){ addrs[0], counts[0] },
			      (struct nic_addrs){ addrs[1], counts[1] }, per_nic, plan, max);
	text[0] = '\0';
	for (int i = 0; i < streams; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%d>%d", i ? " " : "",
			 plan[i].from, plan[i].to);
	return text;
}

/* A connector may list NICs that are only for recovery; older ones do not say so. */
static void test_a_connector_says_over_which_nics_it_spreads(void **state)
{
	struct anynet_wire_hello hello = { .type = ANYNET_HELLO };

	(void)state;
	for (int i = 0; i < 3; i++)
		hello.addrs[i] = addr_of("10.0.0.1");
	assert_int_equal(hello_spread(&hello), 3);
	hello.plan[0].from = 2;
	assert_int_equal(hello_spread(&hello), 2);
	hello.plan[0].from = 200;
	assert_int_equal(hello_spread(&hello), 3);
}

static void test_one_nic_each_is_one_stream(void **state)
{
	(void)state;
	assert_string_equal(plan_of("10.0.0.1", "10.0.0.2", 1, 64), "0>0");
	/* Its own pair is used however far apart the addresses are. */
	assert_string_equal(plan_of("10.0.0.1", "192.168.0.2", 1, 64), "0>0");
}

static void test_nics_pair_by_network_not_by_position(void **state)
{
	(void)state;
	assert_string_equal(plan_of("10.0.0.1 10.1.0.1 10.2.0.1", "10.0.0.2 10.1.0.2 10.2.0.2", 1,
				    64),
			    "0>0 1>1 2>2");
	assert_string_equal(plan_of("10.0.0.1 10.1.0.1 10.2.0.1", "10.0.0.2 10.2.0.2 10.1.0.2", 1,
				    64),
			    "0>0 1>2 2>1");
	assert_string_equal(plan_of("10.0.0.1 fd00:1::1 fd00:2::1", "10.0.0.2 fd00:2::2 fd00:1::2",
				    1, 64),
			    "0>0 1>2 2>1");
}

static void test_a_nic_without_a_near_one_carries_no_stream(void **state)
{
	(void)state;
	assert_string_equal(plan_of("10.0.0.1 10.1.0.1", "10.0.0.2 172.16.0.2", 1, 64), "0>0");
	assert_string_equal(plan_of("10.0.0.1 10.1.0.1", "10.0.0.2 fd00::2", 1, 64), "0>0");
	assert_string_equal(plan_of("10.0.0.1 10.1.0.1 10.1.0.3", "10.0.0.2 10.1.0.2", 1, 64),
			    "0>0 1>1");
	assert_string_equal(plan_of("10.0.0.1", "10.0.0.2 10.1.0.2", 1, 64), "0>0");
	/* 16 common bits are near, 15 are not. */
	assert_string_equal(plan_of("10.0.0.1 10.1.0.1", "10.0.0.2 10.1.128.2", 1, 64), "0>0 1>1");
	assert_string_equal(plan_of("10.0.0.1 10.2.0.1", "10.0.0.2 10.3.0.2", 1, 64), "0>0");
	assert_string_equal(plan_of("10.0.0.1 fd00:0:1::1", "10.0.0.2 fd00:0:1:8000::2", 1, 64),
			    "0>0 1>1");
}

static void test_the_longest_common_prefix_wins(void **state)
{
	(void)state;
	assert_string_equal(plan_of("10.0.0.1 10.1.2.1", "10.0.0.2 10.1.99.2 10.1.2.2", 1, 64),
			    "0>0 1>2");
}

static void test_streams_per_nic_are_interleaved(void **state)
{
	(void)state;
	assert_string_equal(plan_of("10.0.0.1 10.1.0.1", "10.0.0.2 10.1.0.2", 2, 64),
			    "0>0 1>1 0>0 1>1");
}

static void test_no_more_streams_than_allowed(void **state)
{
	(void)state;
	assert_string_equal(plan_of("10.0.0.1 10.1.0.1", "10.0.0.2 10.1.0.2", 64, 3),
			    "0>0 1>1 0>0");
}

/* Between IB devices with this many ports: the acceptor plans and the connector completes. */
static const char *plan_between(int from_ports, int to_ports, int wanted, int max)
{
	static char text[1024];
	struct anynet_wire_pair plan[ANYNET_STREAMS_MAX];
	int streams = stream_plan_ports(to_ports, wanted, plan, max);

	for (int i = 0; i < streams; i++)
		assert_int_equal(plan[i].from, 0);
	stream_plan_own_ports(from_ports, plan, streams);
	text[0] = '\0';
	for (int i = 0; i < streams; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%d>%d", i ? " " : "",
			 plan[i].from, plan[i].to);
	return text;
}

static void test_ports_of_fused_devices_are_joined_in_turn(void **state)
{
	(void)state;
	assert_string_equal(plan_between(1, 1, 1, 64), "0>0");
	assert_string_equal(plan_between(1, 1, 3, 64), "0>0 0>0 0>0");
	assert_string_equal(plan_between(2, 2, 2, 64), "0>0 1>1");
	assert_string_equal(plan_between(2, 2, 4, 64), "0>0 1>1 0>0 1>1");
	assert_string_equal(plan_between(2, 1, 2, 64), "0>0 1>0");
	assert_string_equal(plan_between(1, 2, 2, 64), "0>0 0>1");
	assert_string_equal(plan_between(3, 2, 3, 64), "0>0 1>1 2>0");
	assert_string_equal(plan_between(2, 4, 4, 64), "0>0 1>1 0>2 1>3");
	assert_string_equal(plan_between(8, 8, 64, 3), "0>0 1>1 2>2");
}

static void test_a_plan_spreads_if_pairs_differ(void **state)
{
	struct anynet_wire_pair plan[ANYNET_STREAMS_MAX];

	(void)state;
	assert_false(stream_plan_spreads(plan, stream_plan_ports(1, 1, plan, 64)));
	assert_false(stream_plan_spreads(plan, stream_plan_ports(1, 64, plan, 64)));
	assert_true(stream_plan_spreads(plan, stream_plan_ports(2, 2, plan, 64)));
	stream_plan_ports(1, 3, plan, 64);
	stream_plan_own_ports(3, plan, 3);
	assert_true(stream_plan_spreads(plan, 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_nic_each_is_one_stream),
		cmocka_unit_test(test_nics_pair_by_network_not_by_position),
		cmocka_unit_test(test_a_nic_without_a_near_one_carries_no_stream),
		cmocka_unit_test(test_the_longest_common_prefix_wins),
		cmocka_unit_test(test_a_connector_says_over_which_nics_it_spreads),
		cmocka_unit_test(test_streams_per_nic_are_interleaved),
		cmocka_unit_test(test_no_more_streams_than_allowed),
		cmocka_unit_test(test_ports_of_fused_devices_are_joined_in_turn),
		cmocka_unit_test(test_a_plan_spreads_if_pairs_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

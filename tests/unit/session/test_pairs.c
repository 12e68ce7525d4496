/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which a stream's addresses are dialled again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "transports/device/carrier.h"
#include "transports/session/pairs.h"

static struct anynet_device nics[ANYNET_HELLO_ADDRS];
static struct anynet_stream broken, other;
static struct anynet_stream *streams[] = { &broken, &other };
static struct session session;
static struct anynet_comm comm;

/* One stream, which was connected from the first NIC to the peer's first, and belongs there; another one without a
 * connection. */
static int setup(void **state)
{
	(void)state;
	comm = (struct anynet_comm){ .is_send = true,
				     .dev = nics,
				     .stream_count = 2,
				     .streams = streams,
				     .session = &session };
	broken = (struct anynet_stream){ .comm = &comm, .path.fd = -1 };
	other = (struct anynet_stream){ .comm = &comm, .path.fd = -1, .index = 1 };
	for (int i = 0; i < ANYNET_HELLO_ADDRS; i++) {
		nics[i].index = i;
		carrier_set_port(&nics[i], false);
		session.paths.own[i] = &nics[i];
		session.paths.own_addrs[i] =
			(struct anynet_wire_addr){ .family = 4, .device = (uint8_t)i, .port = 1 };
		session.paths.peer[i] = session.paths.own_addrs[i];
	}
	session.paths.own_count = session.paths.peer_count = 2;
	return 0;
}

static struct anynet_wire_pair pair(unsigned from, unsigned to)
{
	return (struct anynet_wire_pair){ (uint8_t)from, (uint8_t)to };
}

static void check_list(const struct anynet_wire_pair *pairs, unsigned count, const char *wanted)
{
	char text[PAIRS_MAX * 8] = "";

	for (unsigned i = 0; i < count; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u>%u", i ? " " : "",
			 pairs[i].from, pairs[i].to);
	assert_string_equal(text, wanted);
}

static void check(enum redial_aim aim, const char *wanted)
{
	struct anynet_wire_pair pairs[PAIRS_MAX];

	check_list(pairs, pairs_list(&comm, &broken, aim, pairs), wanted);
}

static void test_its_own_pair_comes_first_then_those_side_by_side(void **state)
{
	(void)state;
	check(REDIAL_AGAIN, "0>0 1>1 0>1 1>0");
	broken.home = broken.path.pair = pair(1, 0);
	check(REDIAL_AGAIN, "1>0 0>0 1>1 0>1");
}

static void test_the_pair_that_is_left_comes_last(void **state)
{
	(void)state;
	check(REDIAL_ELSEWHERE, "1>1 0>1 1>0 0>0");
	broken.path.pair = pair(1, 1);
	check(REDIAL_ELSEWHERE, "0>0 0>1 1>0 1>1");
}

static void test_where_another_stream_works_is_tried_early(void **state)
{
	(void)state;
	other.path.pair = pair(1, 0);
	check(REDIAL_AGAIN, "0>0 1>1 0>1 1>0"); /* it does not */
	other.state = STREAM_UP;
	check(REDIAL_AGAIN, "0>0 1>0 1>1 0>1");
	check(REDIAL_ELSEWHERE, "1>0 1>1 0>1 0>0");
	other.state = STREAM_SUSPECT;
	check(REDIAL_AGAIN, "0>0 1>1 0>1 1>0");
}

/* Also those of a PROBE, which belongs to no stream. */
static void test_a_probe_goes_where_streams_were_first(void **state)
{
	struct anynet_wire_pair pairs[PAIRS_MAX];

	(void)state;
	broken.home = pair(1, 0);
	other.home = PAIRS_NONE; /* not known */
	assert_int_equal(pairs_list(&comm, NULL, REDIAL_AGAIN, pairs), 4);
	assert_true(pairs_equal(pairs[0], pair(1, 0)));
	assert_true(pairs_equal(pairs[1], pair(0, 0)));
}

static void test_nics_without_carrier_come_last(void **state)
{
	(void)state;
	carrier_set_port(&nics[0], true);
	check(REDIAL_AGAIN, "1>1 1>0 0>0 0>1");
	check(REDIAL_ELSEWHERE, "1>1 1>0 0>0 0>1");
	carrier_set_port(&nics[1], true);
	check(REDIAL_AGAIN, "0>0 1>1 0>1 1>0");
}

static void test_ipv4_and_ipv6_are_the_last_choice(void **state)
{
	(void)state;
	session.paths.own_addrs[1].family = 6;
	check(REDIAL_AGAIN, "0>0 0>1 1>1 1>0");
	session.paths.peer[1].family = 6;
	check(REDIAL_AGAIN, "0>0 1>1 0>1 1>0");
	check(REDIAL_ELSEWHERE, "1>1 0>0 0>1 1>0");
}

/* NICs of one number are usually on one network. */
static void test_nics_of_one_number_come_first(void **state)
{
	(void)state;
	session.paths.peer[0].device = 1;
	session.paths.peer[1].device = 0;
	check(REDIAL_AGAIN, "0>0 0>1 1>0 1>1");
}

static void check_connect(const char *wanted)
{
	struct anynet_wire_pair pairs[PAIRS_MAX];

	check_list(pairs, pairs_to_connect(&session.paths, pairs), wanted);
}

static void test_a_new_connection_tries_all_pairs(void **state)
{
	(void)state;
	check_connect("0>0 1>1 0>1 1>0");
	session.paths.peer[0].device = 1; /* NCCL connects NICs of different numbers */
	session.paths.peer[1].device = 0;
	check_connect("0>0 0>1 1>0 1>1");
	carrier_set_port(&nics[0], true);
	check_connect("1>0 1>1 0>1 0>0");
	session.paths.peer[0].port = 0;
	check_connect("1>1 0>1");
	session.paths.own_addrs[1].family = 6;
	check_connect("0>1 1>1");
}

static void test_a_peer_that_does_not_listen_there_is_left_out(void **state)
{
	(void)state;
	session.paths.peer[0].port = 0;
	check(REDIAL_AGAIN, "1>1 0>1");
}

static void test_home_is_its_own_pair_if_that_has_its_carrier(void **state)
{
	(void)state;
	check(REDIAL_HOME, "0>0");
	assert_false(pairs_away(&comm, &broken));
	broken.path.pair = pair(1, 1);
	assert_true(pairs_away(&comm, &broken));
	check(REDIAL_HOME, "0>0");
	carrier_set_port(&nics[0], true);
	check(REDIAL_HOME, "");
}

/* Also the pair that comes last. */
static void test_the_list_has_all_pairs(void **state)
{
	struct anynet_wire_pair pairs[PAIRS_MAX];

	(void)state;
	session.paths.own_count = session.paths.peer_count = ANYNET_HELLO_ADDRS;
	assert_int_equal(pairs_list(&comm, NULL, REDIAL_AGAIN, pairs), PAIRS_MAX);
	assert_int_equal(pairs_list(&comm, &broken, REDIAL_ELSEWHERE, pairs), PAIRS_MAX);
	assert_true(pairs_equal(pairs[PAIRS_MAX - 1], broken.path.pair));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, setup)
		TEST(test_its_own_pair_comes_first_then_those_side_by_side),
		TEST(test_the_pair_that_is_left_comes_last),
		TEST(test_where_another_stream_works_is_tried_early),
		TEST(test_a_probe_goes_where_streams_were_first),
		TEST(test_nics_without_carrier_come_last),
		TEST(test_ipv4_and_ipv6_are_the_last_choice),
		TEST(test_nics_of_one_number_come_first),
		TEST(test_a_new_connection_tries_all_pairs),
		TEST(test_a_peer_that_does_not_listen_there_is_left_out),
		TEST(test_home_is_its_own_pair_if_that_has_its_carrier),
		TEST(test_the_list_has_all_pairs),
	};

	return cmocka_run_group_tests_name("pairs", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Which connections are accepted while a comm is set up (endpoint.c), and the effects of a lost WELCOME. test_ready.c
 * continues with READY. */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/check.h"
#include "transports/base/socket.h"
#include "transports/session/connect.h"
#include "transports/session/pairs.h"
#include "unit/session/connector.h"

/* The connector does not know that it is connected: it tries again, and there is no comm meanwhile. */
static void test_without_its_welcome_there_is_no_comm(void **state)
{
	(void)state;
	test.lost = 2;
	for (uint32_t epoch = 0; epoch < 2; epoch++) {
		assert_int_equal(say(of_one_stream(hello_of(ANYNET_KIND_COMM, 0, epoch))),
				 NO_REPLY);
		accept_once();
		assert_null(test.comm);
	}
	assert_int_equal(say(of_one_stream(hello_of(ANYNET_KIND_COMM, 0, 2))), ANYNET_STATUS_OK);
	accept_once();
	assert_null(test.comm); /* of several connects in progress NCCL will use only one */
	make_ready(2);
	assert_int_equal(test.comm->streams[0]->epoch, 2);
}

/* Another communicator of this process is independent. */
static void test_a_half_built_comm_ends_with_its_own_communicator(void **state)
{
	static const int another;

	(void)state;
	assert_int_equal(say_comm(0), ANYNET_STATUS_OK);
	listen_drop_half_built(&another);
	stands(0);
	listen_drop_half_built(&local_dev); /* as passed to listen */
	is_closed(0);
}

static void test_another_comm_may_come_after_a_lost_welcome(void **state)
{
	struct anynet_wire_hello other = of_one_stream(hello_of(ANYNET_KIND_COMM, 0, 0));

	(void)state;
	test.lost = 1;
	assert_int_equal(say(other), NO_REPLY);
	other.comm_id++;
	assert_int_equal(say(other), ANYNET_STATUS_OK);
}

/* The connector continues without that stream, and its comm is established. */
static void test_without_its_welcome_a_stream_alone_is_given_up(void **state)
{
	(void)state;
	assert_int_equal(say_comm(0), ANYNET_STATUS_OK);
	test.lost = 1;
	assert_int_equal(say_stream(1, 0), NO_REPLY);
	stands(0);
	make_ready_with(0, 1);
	assert_null(test.comm->streams[1]);
	assert_int_equal(test.comm->streams[0]->state, STREAM_UP);
}

static void test_a_hello_heard_before_changes_nothing(void **state)
{
	(void)state;
	assert_int_equal(say_comm(3), ANYNET_STATUS_OK);
	assert_int_equal(say_comm(3), NO_REPLY);
	assert_int_equal(say_comm(2), NO_REPLY);
	stands(0);
	assert_int_equal(say_stream(1, 0), ANYNET_STATUS_OK);
	make_ready(0);
	assert_int_equal(say_comm(3), NO_REPLY);
	assert_int_equal(say_comm(4), NO_REPLY); /* it is established */
	stands(0);
}

static void test_a_later_try_takes_the_place_of_the_first(void **state)
{
	(void)state;
	assert_int_equal(say_comm(0), ANYNET_STATUS_OK);
	assert_int_equal(say_comm(1), ANYNET_STATUS_OK);
	is_closed(0);
	stands(1);
	assert_int_equal(say_stream(1, 0), ANYNET_STATUS_OK);
	make_ready(1);
	for (int i = 0; i < 2; i++)
		assert_true(pairs_equal(test.comm->streams[i]->home, (struct anynet_wire_pair){ 0, 0 }));
}

static void test_another_comm_has_no_place_beside_the_first(void **state)
{
	struct anynet_wire_hello other = hello_of(ANYNET_KIND_COMM, 0, 9);
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the first one's end");

	(void)state;
	other.comm_id++;
	assert_int_equal(say_comm(0), ANYNET_STATUS_OK);
	assert_int_equal(say(other), NO_REPLY);
	stands(0);
	/* … unless that is gone. */
	shutdown(test.fds[0], SHUT_RDWR);
	while (test.listener->comm) {
		accept_once();
		deadline_turn(&deadline);
	}
	assert_int_equal(say(other), ANYNET_STATUS_OK);
}

/* NCCL may never call accept again. */
static void test_a_half_built_comm_whose_sender_is_gone_ends_without_accept(void **state)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the comm's end");

	(void)state;
	assert_true(listen_in_use());
	assert_int_equal(say_comm(0), ANYNET_STATUS_OK);
	shutdown(test.fds[0], SHUT_RDWR);
	while (test.listener->comm) {
		listen_look();
		deadline_turn(&deadline);
	}
}

static void test_only_streams_of_the_plan_join_once_and_in_time(void **state)
{
	struct anynet_wire_hello other = hello_of(ANYNET_KIND_STREAM, 1, 0);

	(void)state;
	other.comm_id++;
	assert_int_equal(say_stream(1, 0), NO_REPLY); /* of an unknown comm */
	assert_int_equal(say_comm(0), ANYNET_STATUS_OK);
	assert_int_equal(say(other), NO_REPLY);
	assert_int_equal(say_stream(2, 0), ANYNET_STATUS_STALE);
	assert_int_equal(say_stream(0, 0), ANYNET_STATUS_STALE);
	assert_int_equal(say_stream(1, 1), ANYNET_STATUS_STALE);
	make_ready(1); /* it continues without stream 1 */
	assert_int_equal(say_stream(1, 0), ANYNET_STATUS_STALE);
	assert_null(test.comm->streams[1]);
}

static void test_a_stream_does_not_join_twice(void **state)
{
	(void)state;
	assert_int_equal(say_comm(0), ANYNET_STATUS_OK);
	assert_int_equal(say_stream(1, 0), ANYNET_STATUS_OK);
	assert_int_equal(say_stream(1, 0), ANYNET_STATUS_STALE);
	stands(1);
}

/* --- options that either side sets for both --- */

static void test_the_connector_may_want_checksums(void **state)
{
	struct anynet_wire_hello hello = of_one_stream(hello_of(ANYNET_KIND_COMM, 0, 0));

	(void)state;
	hello.features |= ANYNET_FEATURE_CHECKSUM;
	assert_int_equal(say(hello), ANYNET_STATUS_OK);
	assert_true(test.listener->comm->checksum);
}

/* The test as acceptor, with its own listening socket. It may be probed before it is established. */
static void test_the_acceptor_may_want_checksums(void **state)
{
	struct anynet_wire_hello probe = hello_of(ANYNET_KIND_PROBE, 0, 1);
	struct anynet_connect_options opts = { .traffic_class = -1, .owner = &local_dev };
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a connection");
	int listener = socket_listen(&local_dev.addr, &local_cfg), fd = -1;
	struct anynet_wire_handle handle = test.handle.wire;
	struct sockaddr_storage from;
	struct anynet_wire_hello hello, welcome;
	struct anynet_comm *comm = NULL;
	size_t got = 0;

	(void)state;
	handle.addrs[0].port = (uint16_t)socket_port(listener);
	while (fd < 0 || socket_recv_some(fd, &hello, sizeof(hello), &got)) {
		assert_int_equal(anynet_connect(&local_dev, &opts, &handle, &comm), 0);
		fd = fd < 0 ? socket_accept(listener, &from) : fd;
		deadline_turn(&deadline);
	}
	assert_int_equal(say(probe), ANYNET_STATUS_GONE);
	probe.comm_id = hello.comm_id;
	assert_int_equal(say(probe), ANYNET_STATUS_OK);
	hello_fill(&welcome, &local_dev, handle.addrs, 1);
	hello_answer(&welcome, &hello);
	welcome.streams = 1;
	welcome.features |= ANYNET_FEATURE_CHECKSUM;
	assert_int_equal(send(fd, &welcome, sizeof(welcome), 0), sizeof(welcome));
	while (!comm) {
		assert_int_equal(anynet_connect(&local_dev, &opts, &handle, &comm), 0);
		deadline_turn(&deadline);
	}
	assert_true(comm->checksum);
	close(fd);
	close(listener);
	anynet_close(comm);
}

/* --- two NICs at either end, of the same addresses --- */

static struct anynet_device nics[2];

static int setup_two_nics(void **state)
{
	int ret = connector_setup(state);

	anynet_close_listener(test.listener);
	for (int i = 0; i < 2; i++) {
		nics[i] = local_dev;
		nics[i].index = i + 1;
		snprintf(nics[i].ifname, sizeof(nics[i].ifname), "eth%d", i);
		((struct sockaddr_in *)&nics[i].addr)->sin_addr.s_addr =
			htonl(INADDR_LOOPBACK + (uint32_t)i);
	}
	local_cfg.stripe = ANYNET_SWITCH_ON;
	anynet_net_start(&local_cfg, nics, 2);
	return ret || anynet_listen(&nics[0], &local_dev, test.handle.bytes, &test.listener);
}

static int teardown_two_nics(void **state)
{
	int ret = connector_teardown(state);

	local_net_start();
	return ret;
}

static struct anynet_wire_hello of_two_nics(struct anynet_wire_hello hello)
{
	memcpy(hello.addrs, test.handle.wire.addrs, 2 * sizeof(hello.addrs[0]));
	return of_one_stream(hello);
}

static void stream_0_joins(uint8_t nic)
{
	assert_true(pairs_equal(test.listener->comm->streams[0]->home,
				(struct anynet_wire_pair){ nic, nic }));
}

/* The first ones did not reach each other. That the peer's process has ended shows there. */
static void test_the_first_stream_is_at_home_where_it_came_from(void **state)
{
	(void)state;
	test.nic = 1;
	assert_int_equal(say(of_two_nics(hello_of(ANYNET_KIND_COMM, 0, 0))), ANYNET_STATUS_OK);
	assert_int_equal(test.answer.streams, 2);
	stream_0_joins(1);
}

/* With address translation between the hosts. */
static void test_from_an_unknown_address_it_is_at_home_as_planned(void **state)
{
	struct anynet_wire_hello hello = of_two_nics(hello_of(ANYNET_KIND_COMM, 0, 0));

	(void)state;
	test.nic = 1;
	hello.addrs[1].ip[3] = 77;
	assert_int_equal(say(hello), ANYNET_STATUS_OK);
	stream_0_joins(0);
}

/* Its further addresses are of other ports, and of NICs that only stand by. */
static void test_an_ib_device_is_joined_by_the_first_pair_only(void **state)
{
	struct anynet_wire_hello hello = of_two_nics(hello_of(ANYNET_KIND_COMM, 0, 0));

	(void)state;
	hello.transports |= 1u << ANYNET_TRANSPORT_IB;
	hello.streams = 4;
	assert_int_equal(say(hello), ANYNET_STATUS_OK);
	assert_int_equal(test.answer.streams, 4);
	for (int i = 0; i < 4; i++)
		assert_true(pairs_equal(test.answer.plan[i], (struct anynet_wire_pair){ 0, 0 }));
}

#define TEST(name)          cmocka_unit_test_setup_teardown(name, connector_setup, connector_teardown)
#define TEST_TWO_NICS(name) cmocka_unit_test_setup_teardown(name, setup_two_nics, teardown_two_nics)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_without_its_welcome_there_is_no_comm),
		TEST(test_a_half_built_comm_ends_with_its_own_communicator),
		TEST(test_another_comm_may_come_after_a_lost_welcome),
		TEST(test_without_its_welcome_a_stream_alone_is_given_up),
		TEST(test_a_hello_heard_before_changes_nothing),
		TEST(test_a_later_try_takes_the_place_of_the_first),
		TEST(test_another_comm_has_no_place_beside_the_first),
		TEST(test_a_half_built_comm_whose_sender_is_gone_ends_without_accept),
		TEST(test_only_streams_of_the_plan_join_once_and_in_time),
		TEST(test_a_stream_does_not_join_twice),
		TEST(test_the_connector_may_want_checksums),
		TEST(test_the_acceptor_may_want_checksums),
		TEST_TWO_NICS(test_the_first_stream_is_at_home_where_it_came_from),
		TEST_TWO_NICS(test_from_an_unknown_address_it_is_at_home_as_planned),
		TEST_TWO_NICS(test_an_ib_device_is_joined_by_the_first_pair_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

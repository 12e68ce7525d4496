/* SPDX-License-Identifier: Apache-2.0 */
/* When a receive comm with broken streams fails or ends (give_up.c): because its sender is gone, or in time. */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/base/socket.h"
#include "transports/message/recv_internal.h"
#include "transports/session/recovery.h"
#include "transports/session/redial.h"
#include "transports/session/watch.h"
#include "unit/session/broken_comm.h"

#define GONE_MS 500 /* no peer for this long */

/* Each time that it asks it is answered, until its sender has ended. */
static void asks_until_its_sender_ends(void)
{
	for (int i = 0; i < 2; i++) {
		hear(ANYNET_KIND_PROBE);
		answer(ANYNET_STATUS_OK);
		assert_false(is_over());
	}
	hear(ANYNET_KIND_PROBE);
	answer(ANYNET_STATUS_GONE);
}

static void test_a_receiver_asks_whether_its_sender_lives(void **state)
{
	(void)state;
	test.network = ANSWERED;
	open_recv();
	pair_irecv(&test.pair, pair_in, sizeof(pair_in), 0);
	cut();
	asks_until_its_sender_ends();
	assert_int_equal(comm_error(test.comm), -ECONNRESET);
	warned_of("the peer has ended this connection");
}

static struct anynet_device second_nic;

/* Both ends have another NIC, where a connection from that of the peer arrives. */
static int arrive_at_second_nic(void)
{
	struct comm_paths *paths = &test.comm->session->paths;
	struct sockaddr_in *addr = (struct sockaddr_in *)&second_nic.addr;
	int listener, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage from;
	struct sockaddr_in to;

	second_nic = local_dev;
	addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
	listener = socket_listen(&second_nic.addr, &local_cfg);
	assert_true(listener >= 0);
	to = *addr;
	to.sin_port = htons((uint16_t)socket_port(listener));
	paths->own_count = paths->peer_count = 2;
	paths->own[1] = &second_nic;
	assert_true(socket_to_wire(&second_nic.addr, ntohs(to.sin_port), 1, &paths->own_addrs[1]));
	assert_true(socket_to_wire(&second_nic.addr, PORT + 1, 1, &paths->peer[1]));
	assert_int_equal(bind(fd, (struct sockaddr *)addr, sizeof(*addr)), 0);
	assert_int_equal(syscall(SYS_connect, fd, &to, sizeof(to)),
			 0); /* connect() is the test's */
	test.pair.fds[0] = fd;
	fd = socket_accept(listener, &from);
	assert_true(fd >= 0);
	close(listener);
	return fd;
}

static void resume_over_second_nic(void)
{
	struct anynet_wire_hello resume;

	pair_hang_up(&test.pair, 0);
	hello_fill(&resume, &local_dev, NULL, 0);
	resume.type = ANYNET_HELLO;
	resume.kind = ANYNET_KIND_RESUME;
	resume.epoch = test.comm->streams[0]->epoch + 1;
	assert_int_equal(recovery_post(test.comm, arrive_at_second_nic(), &resume, NULL), 0);
	comm_poke(test.comm);
	assert_true(stream_works(test.comm->streams[0]));
}

/* The stream's own NIC is dead, so there is no answer at home. */
static void test_a_sender_that_has_ended_is_believed_where_its_stream_was_last(void **state)
{
	(void)state;
	test.network = ANSWERED;
	test.lost_port = PORT;
	open_recv();
	pair_irecv(&test.pair, pair_in, sizeof(pair_in), 0);
	resume_over_second_nic();
	cut();
	hear(ANYNET_KIND_PROBE);
	answer(ANYNET_STATUS_GONE);
	assert_int_equal(comm_error(test.comm), -ECONNRESET);
	warned_of("the peer has ended this connection");
}

static void test_with_a_receive_it_waits_no_longer_than_the_sender(void **state)
{
	(void)state;
	test.network = ANSWERED;
	open_recv();
	pair_irecv(&test.pair, pair_in, sizeof(pair_in), 0);
	cut();
	hear(ANYNET_KIND_PROBE);
	answer(ANYNET_STATUS_OK);
	test.network = UNREACHABLE;
	pass(2 * RECOVERY_MS);
	assert_int_equal(test.now - test.start, RECOVERY_MS);
	assert_int_equal(comm_error(test.comm), -ETIMEDOUT);
	warned_of("did not come back");
}

/* Its sender knows, and may have nothing to send for long. */
static void test_an_idle_one_waits_once_it_has_been_answered(void **state)
{
	(void)state;
	test.network = ANSWERED;
	open_recv();
	cut();
	hear(ANYNET_KIND_PROBE);
	answer(ANYNET_STATUS_OK);
	test.network = REFUSES;
	pass(10 * RECOVERY_MS);
	assert_false(is_over());
}

/* Its sender may have everything confirmed by then, and close without another word. */
static void test_a_closed_one_asks_until_its_sender_ends(void **state)
{
	(void)state;
	test.network = ANSWERED;
	open_recv();
	cut();
	drain_start(test.comm);
	asks_until_its_sender_ends();
	assert_true(test.comm->peer_closed);
	assert_int_equal(comm_error(test.comm), 0);
}

/* A switch may be gone for minutes while the program does something else. The time counts from the call that waits. */
static void test_an_idle_one_that_nobody_answers_has_time_until_it_is_used(void **state)
{
	(void)state;
	test.network = UNREACHABLE;
	open_recv();
	cut();
	assert_int_equal(pass(10 * RECOVERY_MS), 10 * RECOVERY_MS);
	pair_irecv(&test.pair, pair_in, sizeof(pair_in), 0);
	watch_comm(test.comm, test.now);
	assert_int_equal(pass(2 * RECOVERY_MS), RECOVERY_MS);
	assert_int_equal(comm_error(test.comm), -ETIMEDOUT);
	warned_of("did not come back");
}

/* --- READY has not arrived: accept has not returned, and NCCL calls nothing --- */

static void open_half_built(void)
{
	open_recv();
	to_recv(test.comm)->ready = false;
}

/* The sender may have been probed just before it could react, and has nothing to send that would show the break. */
static void test_a_half_built_one_asks_until_its_sender_comes_back(void **state)
{
	(void)state;
	test.network = ANSWERED;
	open_half_built();
	cut();
	for (int i = 0; i < 3; i++) {
		hear(ANYNET_KIND_PROBE);
		answer(ANYNET_STATUS_OK);
	}
	assert_false(is_over());
}

/* The failure would not be noticed: accept would wait for a connect that returned long ago. */
static void test_a_half_built_one_waits_as_long_as_its_sender_may_live(void **state)
{
	(void)state;
	test.network = UNREACHABLE;
	open_half_built();
	cut();
	pass(10 * RECOVERY_MS);
	assert_false(is_over());
	test.network = ANSWERED;
	hear(ANYNET_KIND_PROBE);
	answer(ANYNET_STATUS_OK);
	assert_false(is_over());
}

static void test_a_half_built_one_ends_with_its_sender(void **state)
{
	(void)state;
	open_half_built();
	cut();
	assert_int_equal(pass(2 * RECOVERY_MS), GONE_MS);
	assert_true(test.comm->peer_closed);
	pair_close(&test.pair);
	test.network = ANSWERED;
	open_half_built();
	cut();
	hear(ANYNET_KIND_PROBE);
	answer(ANYNET_STATUS_GONE);
	assert_true(test.comm->peer_closed);
}

/* --- what had arrived --- */

/* Data that it had sent by a remaining stream waits for the message that was lost with another one. */
static void test_a_peer_that_is_gone_leaves_a_receiver_with_half_of_it(void **state)
{
	struct anynet_wire_frame second = frame_data(1, 0, 1, 5);
	struct anynet_request *req;

	(void)state;
	capture_allow_warn();
	pair_open_recv(&test.pair, 2);
	test.comm = test.pair.recv;
	know_paths(2);
	test.network = REFUSES;
	req = pair_irecv(&test.pair, pair_in, 8, 0);
	frame_put(test.pair.fds[1], &second, "after");
	for (int i = 0; i < 5; i++)
		comm_turn(test.comm);
	pair_hang_up(&test.pair, 0);
	pair_hang_up(&test.pair, 1);
	for (int i = 0; i < 5; i++)
		comm_turn(test.comm);
	assert_true(test.comm->streams[1]->path.parked);
	assert_true(pass(RECOVERY_MS) >= GONE_MS);
	pair_fails(req, -ECONNRESET);
}

/* It was sent before its sender was gone, and stays until NCCL posts the receive. */
static void test_received_data_is_kept_when_the_peer_is_gone(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 0, 1, 5);

	(void)state;
	for (int refused = 0; refused < 2; refused++) {
		struct anynet_request *req;
		int size;

		pair_open_recv(&test.pair, 2);
		test.comm = test.pair.recv;
		know_paths(2);
		test.network = refused ? REFUSES : ANSWERED;
		frame_put(test.pair.fds[1], &frame, "after");
		pair_hang_up(&test.pair, 0);
		for (int i = 0; i < 5; i++)
			comm_turn(test.comm);
		assert_true(test.comm->streams[1]->path.parked);
		comm_stream_change(test.comm, test.comm->streams[1], STREAM_SUSPECT, "no answer");
		if (refused) {
			pass(2 * GONE_MS);
		} else {
			hear(ANYNET_KIND_PROBE);
			answer(ANYNET_STATUS_GONE);
		}
		assert_false(is_over());
		req = pair_irecv(&test.pair, pair_in, 8, 0);
		recovery_stream(test.comm, test.comm->streams[0],
				false); /* attention is served before the streams */
		pair_finish(&req, 1, &size);
		assert_int_equal(size, 5);
		assert_memory_equal(pair_in, "after", 5);
		pair_close(&test.pair);
		hang_up();
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, broken_setup, broken_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_receiver_asks_whether_its_sender_lives),
		TEST(test_a_sender_that_has_ended_is_believed_where_its_stream_was_last),
		TEST(test_with_a_receive_it_waits_no_longer_than_the_sender),
		TEST(test_an_idle_one_waits_once_it_has_been_answered),
		TEST(test_a_closed_one_asks_until_its_sender_ends),
		TEST(test_an_idle_one_that_nobody_answers_has_time_until_it_is_used),
		TEST(test_a_half_built_one_asks_until_its_sender_comes_back),
		TEST(test_a_half_built_one_waits_as_long_as_its_sender_may_live),
		TEST(test_a_half_built_one_ends_with_its_sender),
		TEST(test_a_peer_that_is_gone_leaves_a_receiver_with_half_of_it),
		TEST(test_received_data_is_kept_when_the_peer_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

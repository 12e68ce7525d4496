/* SPDX-License-Identifier: Apache-2.0 */
/* Comms that NCCL has closed: they stay until the peer has what was promised to it, over a new
 * connection if the old one broke, and no longer. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "carrier.h"
#include "environment.h"
#include "narrow.h"
#include "support/capture.h"
#include "support/check.h"
#include "transports/common/heal.h"
#include "transports/common/socket.h"

#define LARGE (LOCAL_RING_BYTES * 3)

static struct pair pair;
static uint8_t data[LARGE], in[LARGE];

static int setup(void **state)
{
	(void)state;
	log_to_capture();
	local_net_start();
	local_cfg.heal_timeout_ms = 60000;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 251);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	narrow_socket(-1, 0);
	if (pair.send || pair.recv)
		pair_close(&pair);
	memset(&pair, 0, sizeof(pair));
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 0);
	capture_check();
	return 0;
}

/* As the guardian does it, some times. */
static bool is_over(struct anynet_comm *comm)
{
	bool over = false;

	for (int i = 0; i < 5 && !over; i++) {
		comm_turn(comm);
		over = linger_over(comm);
	}
	return over;
}

static void send_one(struct anynet_comm *comm, const void *from, size_t bytes)
{
	struct anynet_request *req;

	assert_int_equal(anynet_isend(comm, from, bytes, 0, NULL, NULL, &req), 0);
	assert_non_null(req);
	pair_finish(&req, 1, NULL);
}

static void expect_frame(unsigned rail, enum anynet_frame_type type, uint32_t seq)
{
	struct anynet_wire_frame frame;

	assert_true(frame_get(pair.fds[rail], &frame, in, sizeof(in)));
	assert_int_equal(frame.type, type);
	assert_int_equal(frame.seq, seq);
	assert_memory_equal(in, data, frame.length);
}

static void expect_end(unsigned rail)
{
	assert_int_equal(recv(pair.fds[rail], in, 1, MSG_DONTWAIT), 0);
}

static void put_ack(unsigned rail, uint16_t slot)
{
	struct anynet_wire_frame ack = { .type = ANYNET_FRAME_ACK, .length = ANYNET_ACK_BYTES };
	uint8_t bits[ANYNET_ACK_BYTES] = { 0 };

	bits[slot / 8] = (uint8_t)(1u << slot % 8);
	frame_put(pair.fds[rail], &ack, bits);
}

/* --- senders --- */

static void test_a_sender_stays_until_all_is_read(void **state)
{
	(void)state;
	pair_open_send(&pair, 2);
	send_one(pair.send, data, 50);
	narrow_socket(pair.send->rails[0]->fd, 0);
	assert_true(linger_start(pair.send));
	expect_frame(0, ANYNET_FRAME_DATA, 0);
	expect_frame(1, ANYNET_FRAME_BYE, 1);
	assert_false(is_over(pair.send)); /* BYE is not out */
	narrow_socket(-1, 0);
	pair.send->rails[0]->writable = true; /* for want of an event */
	assert_false(is_over(pair.send));     /* BYE is not read */
	expect_frame(0, ANYNET_FRAME_BYE, 1);
	assert_true(is_over(pair.send));
	expect_end(0);
	expect_end(1);
}

/* Sends were reported done, and nobody has them yet. */
static void stays_for_its_rail(bool broke_before)
{
	pair_open_send(&pair, 1);
	for (int i = 0; i < 3; i++)
		send_one(pair.send, data, 50);
	if (broke_before) {
		pair_hang_up(&pair, 0);
		assert_int_equal(comm_turn(pair.send), 0);
		assert_int_equal(pair.send->rails[0]->fd, -1);
		assert_true(linger_start(pair.send));
	} else {
		assert_true(linger_start(pair.send));
		pair_hang_up(&pair, 0);
		assert_false(linger_over(pair.send));
	}
	assert_false(is_over(pair.send));
	resume_send(&pair, 0, 1, 0);
	assert_false(is_over(pair.send));
	expect_frame(0, ANYNET_FRAME_DATA, 1);
	expect_frame(0, ANYNET_FRAME_DATA, 2);
	assert_false(is_over(pair.send));
	expect_frame(0, ANYNET_FRAME_BYE, 3);
	assert_true(is_over(pair.send));
	expect_end(0);
	pair_close(&pair);
	memset(&pair, 0, sizeof(pair));
}

static void test_a_sender_whose_rail_broke_stays_until_it_is_back(void **state)
{
	(void)state;
	stays_for_its_rail(true);
	stays_for_its_rail(false);
}

static void test_a_sender_that_owes_nothing_does_not_wait_for_its_rail(void **state)
{
	(void)state;
	for (int broke_before = 0; broke_before < 2; broke_before++) {
		pair_open_send(&pair, 1);
		send_one(pair.send, data, 50);
		expect_frame(0, ANYNET_FRAME_DATA, 0);
		put_ack(0, 0);
		assert_int_equal(comm_turn(pair.send), 0);
		assert_true(send_confirmed(pair.send));
		if (!broke_before)
			assert_true(linger_start(pair.send)); /* BYE is not read */
		pair_hang_up(&pair, 0);
		assert_int_equal(comm_turn(pair.send), 0);
		if (broke_before)
			assert_false(linger_start(pair.send));
		assert_true(is_over(pair.send));
		pair_close(&pair);
	}
	memset(&pair, 0, sizeof(pair));
}

static void test_with_sends_in_flight_nothing_more_is_said(void **state)
{
	(void)state;
	pair_open_send(&pair, 1);
	pair_isend(&pair, data, LARGE, 0);
	assert_int_equal(comm_turn(pair.send), 0);
	assert_false(linger_start(pair.send));
	comm_turn(pair.send);
	expect_frame(0, ANYNET_FRAME_DATA, 0);
	assert_int_equal(recv(pair.fds[0], in, 1, MSG_DONTWAIT), -1);
}

static void test_it_stays_no_longer_than_the_peer_timeout(void **state)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	(void)state;
	pair_open_send(&pair, 1);
	send_one(pair.send, data, 50);
	pair_hang_up(&pair, 0);
	comm_turn(pair.send);
	local_cfg.user_timeout_ms = 20;
	assert_true(linger_start(pair.send));
	for (int i = 0; !linger_over(pair.send); i++) {
		assert_true(i < 10000);
		nanosleep(&pause, NULL);
	}
	assert_false(send_confirmed(pair.send));
}

/* --- a sender that dials --- */

static int listen_here(struct anynet_comm *send)
{
	struct sockaddr_storage addr = local_dev.addr;
	struct comm_paths *paths = &send->paths;
	int fd = socket_listen(&addr, &local_cfg);

	assert_true(fd >= 0);
	paths->own_count = paths->peer_count = 1;
	paths->own[0] = &local_dev;
	assert_true(socket_to_wire(&addr, 0, 0, &paths->own_addrs[0]));
	assert_true(socket_to_wire(&addr, (uint16_t)socket_port(fd), 0, &paths->peer[0]));
	return fd;
}

static int accept_hello(struct anynet_comm *send, int listener, struct anynet_wire_hello *hello)
{
	struct pollfd ready = { .fd = listener, .events = POLLIN };
	struct sockaddr_storage from;
	size_t done = 0;
	int fd;

	comm_turn(send);
	assert_int_equal(poll(&ready, 1, TEST_PATIENCE_MS), 1);
	fd = socket_accept(listener, &from);
	assert_true(fd >= 0);
	ready.fd = fd;
	while (socket_recv_some(fd, hello, sizeof(*hello), &done) == -EAGAIN) {
		comm_turn(send);
		poll(&ready, 1, 1);
	}
	assert_int_equal(done, sizeof(*hello));
	assert_int_equal(hello->kind, ANYNET_KIND_RESUME);
	return fd;
}

/* The receiver that gets the hello throws away what it has not read of the old connection, even if
 * its kernel has all of it. */
static void test_a_sender_that_has_said_resume_stays_until_it_is_answered(void **state)
{
	struct anynet_wire_hello hello, answer;
	struct pollfd ready = { .events = POLLIN };
	int listener;

	(void)state;
	pair_open_send(&pair, 1);
	listener = listen_here(pair.send);
	send_one(pair.send, data, 50);
	heal_rail(pair.send, pair.send->rails[0], false); /* its path is in doubt */
	ready.fd = accept_hello(pair.send, listener, &hello);
	assert_true(linger_start(pair.send));
	expect_frame(0, ANYNET_FRAME_DATA, 0);
	expect_frame(0, ANYNET_FRAME_BYE, 1);
	assert_false(is_over(pair.send));
	hello_fill(&answer, &local_dev, NULL, 0);
	hello_answer(&answer, &hello);
	answer.frames = 1;
	assert_int_equal(send(ready.fd, &answer, sizeof(answer), 0), sizeof(answer));
	for (int i = 0; pair.send->rails[0]->epoch != hello.epoch; i++) {
		assert_true(i < 10000);
		comm_turn(pair.send);
		linger_over(pair.send);
	}
	expect_end(0);
	pair_hang_up(&pair, 0);
	pair.fds[0] = ready.fd;
	assert_int_equal(poll(&ready, 1, TEST_PATIENCE_MS), 1);
	expect_frame(0, ANYNET_FRAME_BYE, 1);
	for (int i = 0; !linger_over(pair.send); i++)
		assert_true(i < 100000);
	close(listener);
}

/* --- receivers --- */

static void receive_one(unsigned rail, uint32_t seq)
{
	struct anynet_wire_frame frame = frame_data(seq, 0, ANYNET_FLAG_ACK, 8);
	struct anynet_request *req = pair_irecv(&pair, in, 8, 0);

	frame_put(pair.fds[rail], &frame, data);
	pair_finish(&req, 1, NULL);
}

static struct anynet_wire_frame take_word(unsigned rail)
{
	struct anynet_wire_frame frame = { 0 };

	assert_true(word_get(pair.fds[rail], &frame, in, ANYNET_ACK_BYTES));
	return frame;
}

static void test_a_receiver_says_bye_and_stays_until_that_is_read(void **state)
{
	(void)state;
	pair_open_recv(&pair, 2);
	receive_one(1, 0);
	assert_true(linger_start(pair.recv));
	assert_false(is_over(pair.recv));
	assert_int_equal(take_word(0).type, ANYNET_FRAME_ACK);
	assert_int_equal(take_word(0).type, ANYNET_FRAME_BYE);
	assert_false(is_over(pair.recv));
	assert_int_equal(take_word(1).type, ANYNET_FRAME_BYE);
	assert_true(is_over(pair.recv));
	expect_end(0);
	expect_end(1);
}

static void test_a_receiver_stays_to_tell_a_lost_ack_again(void **state)
{
	struct anynet_wire_frame word;

	(void)state;
	for (int broke_before = 0; broke_before < 2; broke_before++) {
		pair_open_recv(&pair, 1);
		receive_one(0, 0);
		if (!broke_before)
			assert_true(linger_start(pair.recv));
		pair_hang_up(&pair, 0);
		comm_turn(pair.recv);
		if (broke_before)
			assert_true(linger_start(pair.recv));
		assert_false(is_over(pair.recv));
		resume_recv_ok(&pair, 0, NULL);
		assert_false(is_over(pair.recv));
		word = take_word(0);
		assert_int_equal(word.type, ANYNET_FRAME_ACK);
		assert_int_equal(word.length, 0);
		assert_int_equal(word.seq, 0);
		word = take_word(0);
		assert_int_equal(word.type, ANYNET_FRAME_BYE);
		assert_true(is_over(pair.recv));
		expect_end(0);
		pair_close(&pair);
	}
	memset(&pair, 0, sizeof(pair));
}

static void test_a_receiver_that_has_told_nothing_does_not_wait_for_its_rail(void **state)
{
	(void)state;
	pair_open_recv(&pair, 2);
	receive_one(1, 0); /* told on rail 0 */
	assert_int_equal(take_word(0).type, ANYNET_FRAME_ACK);
	pair_hang_up(&pair, 1);
	comm_turn(pair.recv);
	assert_int_equal(pair.recv->rails[1]->fd, -1);
	linger_start(pair.recv);
	assert_int_equal(take_word(0).type, ANYNET_FRAME_BYE);
	assert_true(is_over(pair.recv));
}

/* The sender may not know yet that nobody wants it. */
static void test_what_comes_after_close_is_thrown_away_in_whatever_pieces(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 0, 0, LARGE);
	const uint8_t *bytes = (const uint8_t *)&frame;

	(void)state;
	for (size_t first = 1; first < sizeof(frame); first++) {
		pair_open_recv(&pair, 1);
		assert_true(linger_start(pair.recv));
		assert_int_equal(send(pair.fds[0], bytes, first, 0), first);
		assert_false(linger_over(pair.recv));
		assert_int_equal(send(pair.fds[0], bytes + first, sizeof(frame) - first, 0),
				 sizeof(frame) - first);
		assert_int_equal(send(pair.fds[0], data, LARGE, 0), LARGE);
		assert_false(is_over(pair.recv));
		assert_int_equal(take_word(0).type, ANYNET_FRAME_BYE);
		assert_true(is_over(pair.recv));
		assert_int_equal(comm_error(pair.recv), 0);
		pair_close(&pair);
	}
	memset(&pair, 0, sizeof(pair));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_a_sender_stays_until_all_is_read),
		TEST(test_a_sender_whose_rail_broke_stays_until_it_is_back),
		TEST(test_a_sender_that_owes_nothing_does_not_wait_for_its_rail),
		TEST(test_with_sends_in_flight_nothing_more_is_said),
		TEST(test_it_stays_no_longer_than_the_peer_timeout),
		TEST(test_a_sender_that_has_said_resume_stays_until_it_is_answered),
		TEST(test_a_receiver_says_bye_and_stays_until_that_is_read),
		TEST(test_a_receiver_stays_to_tell_a_lost_ack_again),
		TEST(test_a_receiver_that_has_told_nothing_does_not_wait_for_its_rail),
		TEST(test_what_comes_after_close_is_thrown_away_in_whatever_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

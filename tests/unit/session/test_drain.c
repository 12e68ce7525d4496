/* SPDX-License-Identifier: Apache-2.0 */
/* Comms that NCCL has closed: they stay until the peer has all data due to it, over a new connection if the old one
 * broke, and no longer. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/capture.h"
#include "support/check.h"
#include "transports/base/socket.h"
#include "transports/session/recovery.h"
#include "transports/session/redial.h"
#include "unit/carrier.h"
#include "unit/narrow.h"

static struct pair pair;

static int teardown(void **state)
{
	narrow_socket(-1, 0);
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 0);
	return pair_teardown(state);
}

/* As the background thread does, several times. */
static bool is_over(struct anynet_comm *comm)
{
	bool over = false;

	for (int i = 0; i < 5 && !over; i++) {
		comm_turn(comm);
		over = drain_over(comm);
	}
	return over;
}

static void expect_end(unsigned stream)
{
	assert_int_equal(recv(pair.fds[stream], pair_in, 1, MSG_DONTWAIT), 0);
}

/* --- senders --- */

static void test_a_sender_stays_until_all_is_read(void **state)
{
	(void)state;
	pair_open_send(&pair, 2);
	pair_send(&pair, pair_out, 50);
	narrow_socket(pair.send->streams[0]->path.fd, 0);
	assert_true(drain_start(pair.send));
	pair_expect(&pair, 0, ANYNET_FRAME_DATA, 0);
	pair_expect(&pair, 1, ANYNET_FRAME_BYE, 1);
	assert_false(is_over(pair.send)); /* BYE is not out */
	narrow_socket(-1, 0);
	pair.send->streams[0]->path.writable = true; /* no event reports it here */
	assert_false(is_over(pair.send));       /* BYE is not read */
	pair_expect(&pair, 0, ANYNET_FRAME_BYE, 1);
	assert_true(is_over(pair.send));
	expect_end(0);
	expect_end(1);
}

/* An iteration ends after a limited amount: retransmissions may be sent and BYE not yet. */
static void test_a_stream_is_not_shut_before_bye_is_out(void **state)
{
	struct anynet_stream *stream;

	(void)state;
	pair_open_send(&pair, 1);
	stream = pair.send->streams[0];
	send_bye(pair.send);
	assert_int_equal(stream->ops->drain(stream), -EAGAIN);
	assert_int_equal(comm_transmit(pair.send), 0);
	pair_expect(&pair, 0, ANYNET_FRAME_BYE, 0);
	assert_int_equal(stream->ops->drain(stream), 0);
	expect_end(0);
}

/* Sends were reported done, and the receiver does not have them yet. */
static void stays_for_its_stream(bool broke_before)
{
	pair_open_send(&pair, 1);
	for (int i = 0; i < 3; i++)
		pair_send(&pair, pair_out, 50);
	if (broke_before) {
		pair_hang_up(&pair, 0);
		assert_int_equal(comm_turn(pair.send), 0);
		assert_int_equal(pair.send->streams[0]->path.fd, -1);
		assert_true(drain_start(pair.send));
	} else {
		assert_true(drain_start(pair.send));
		pair_hang_up(&pair, 0);
		assert_false(drain_over(pair.send));
	}
	assert_false(is_over(pair.send));
	resume_send(&pair, 0, 1, 0);
	assert_false(is_over(pair.send));
	pair_expect(&pair, 0, ANYNET_FRAME_DATA, 1);
	pair_expect(&pair, 0, ANYNET_FRAME_DATA, 2);
	assert_false(is_over(pair.send));
	pair_expect(&pair, 0, ANYNET_FRAME_BYE, 3);
	assert_true(is_over(pair.send));
	expect_end(0);
	pair_close(&pair);
}

static void test_a_sender_whose_stream_broke_stays_until_it_is_back(void **state)
{
	(void)state;
	stays_for_its_stream(true);
	stays_for_its_stream(false);
}

static void test_a_sender_that_owes_nothing_does_not_wait_for_its_stream(void **state)
{
	uint16_t slot;

	(void)state;
	for (int broke_before = 0; broke_before < 2; broke_before++) {
		pair_open_send(&pair, 1);
		pair_send(&pair, pair_out, 50);
		slot = pair_expect(&pair, 0, ANYNET_FRAME_DATA, 0).slot;
		frame_put_ack(pair.fds[0], &slot, 1);
		assert_int_equal(comm_turn(pair.send), 0);
		assert_true(send_confirmed(pair.send));
		if (!broke_before)
			assert_true(drain_start(pair.send)); /* BYE is not read */
		pair_hang_up(&pair, 0);
		assert_int_equal(comm_turn(pair.send), 0);
		if (broke_before)
			assert_false(drain_start(pair.send));
		assert_true(is_over(pair.send));
		pair_close(&pair);
	}
}

/* Accept at the other end waits for it, and nothing else may come. */
static void test_a_sender_stays_for_ready(void **state)
{
	(void)state;
	for (uint64_t arrived = 0; arrived < 2; arrived++) {
		pair_open_send(&pair, 1);
		send_ready(pair.send);
		assert_int_equal(comm_turn(pair.send), 0);
		assert_false(send_confirmed(pair.send));
		pair_hang_up(&pair, 0);
		assert_int_equal(comm_turn(pair.send), 0);
		assert_true(drain_start(pair.send));
		assert_false(is_over(pair.send));
		resume_send(&pair, 0, arrived, 0);
		comm_turn(pair.send);
		if (!arrived)
			pair_expect(&pair, 0, ANYNET_FRAME_READY, 0);
		pair_expect(&pair, 0, ANYNET_FRAME_BYE, 0);
		assert_true(is_over(pair.send));
		pair_close(&pair);
	}
}

/* The receiver acknowledges what NCCL has received, after accept. */
static void test_an_acknowledgement_tells_that_ready_has_come(void **state)
{
	uint16_t slot;

	(void)state;
	pair_open_send(&pair, 1);
	send_ready(pair.send);
	pair_send(&pair, pair_out, 50);
	pair_expect(&pair, 0, ANYNET_FRAME_READY, 0);
	slot = pair_expect(&pair, 0, ANYNET_FRAME_DATA, 0).slot;
	frame_put_ack(pair.fds[0], &slot, 1);
	assert_int_equal(comm_turn(pair.send), 0);
	assert_true(send_confirmed(pair.send));
}

static void test_with_sends_in_flight_nothing_more_is_said(void **state)
{
	(void)state;
	pair_open_send(&pair, 1);
	pair_isend(&pair, pair_out, PAIR_LARGE, 0);
	assert_int_equal(comm_turn(pair.send), 0);
	assert_false(drain_start(pair.send));
	comm_turn(pair.send);
	pair_expect(&pair, 0, ANYNET_FRAME_DATA, 0);
	assert_int_equal(recv(pair.fds[0], pair_in, 1, MSG_DONTWAIT), -1);
}

/* The receiver ends each stream when it has read its BYE. */
static void test_the_end_of_one_stream_is_not_that_of_the_others(void **state)
{
	(void)state;
	local_cfg.recovery_timeout_ms = 0;
	pair_open_send(&pair, 2);
	assert_true(drain_start(pair.send));
	pair_expect(&pair, 0, ANYNET_FRAME_BYE, 0);
	pair_hang_up(&pair, 0);
	assert_false(is_over(pair.send));
	assert_true(stream_stands(pair.send->streams[1]));
	pair_expect(&pair, 1, ANYNET_FRAME_BYE, 0);
	assert_true(is_over(pair.send));
}

static void test_it_stays_no_longer_than_the_peer_timeout(void **state)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	(void)state;
	pair_open_send(&pair, 1);
	pair_send(&pair, pair_out, 50);
	pair_hang_up(&pair, 0);
	comm_turn(pair.send);
	local_cfg.peer_timeout_ms = 20;
	assert_true(drain_start(pair.send));
	for (int i = 0; !drain_over(pair.send); i++) {
		assert_true(i < 10000);
		nanosleep(&pause, NULL);
	}
	assert_false(send_confirmed(pair.send));
}

/* --- a sender that dials --- */

static int accept_hello(struct anynet_comm *send, int listener, struct anynet_wire_hello *hello)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a hello");
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
		deadline_turn(&deadline);
	}
	assert_int_equal(done, sizeof(*hello));
	assert_int_equal(hello->kind, ANYNET_KIND_RESUME);
	return fd;
}

/* The receiver that gets the hello discards what it has not read from the old connection, even if its kernel has all of
 * it. */
static void test_a_sender_that_has_said_resume_stays_until_it_is_answered(void **state)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the sender's next step");
	struct anynet_wire_hello hello, answer;
	struct pollfd ready = { .events = POLLIN };
	int listener;

	(void)state;
	pair_open_send(&pair, 1);
	resume_listen(&pair, &listener, 1);
	pair_send(&pair, pair_out, 50);
	recovery_stream(pair.send, pair.send->streams[0], false); /* its path is suspect */
	ready.fd = accept_hello(pair.send, listener, &hello);
	pair_expect(&pair, 0, ANYNET_FRAME_DATA, 0);
	assert_true(drain_has_unsent(pair.send)); /* also if the program only exits */
	assert_true(drain_start(pair.send));
	pair_expect(&pair, 0, ANYNET_FRAME_BYE, 1);
	assert_false(is_over(pair.send));
	hello_fill(&answer, &local_dev, NULL, 0);
	hello_answer(&answer, &hello);
	answer.frames = 1;
	assert_int_equal(send(ready.fd, &answer, sizeof(answer), 0), sizeof(answer));
	while (pair.send->streams[0]->epoch != hello.epoch) {
		comm_turn(pair.send);
		drain_over(pair.send);
		deadline_turn(&deadline);
	}
	expect_end(0);
	pair_hang_up(&pair, 0);
	pair.fds[0] = ready.fd;
	assert_int_equal(poll(&ready, 1, TEST_PATIENCE_MS), 1);
	pair_expect(&pair, 0, ANYNET_FRAME_BYE, 1);
	while (!drain_over(pair.send))
		deadline_turn(&deadline);
	close(listener);
}

/* --- receivers --- */

static void receive_one(unsigned stream, uint32_t seq)
{
	struct anynet_wire_frame frame = frame_data(seq, 0, ANYNET_FLAG_ACK, 8);
	struct anynet_request *req = pair_irecv(&pair, pair_in, 8, 0);

	frame_put(pair.fds[stream], &frame, pair_out);
	pair_finish(&req, 1, NULL);
}

static struct anynet_wire_frame take_word(unsigned stream)
{
	struct anynet_wire_frame frame = { 0 };

	assert_true(word_get(pair.fds[stream], &frame, pair_in, ANYNET_ACK_BYTES));
	return frame;
}

static void test_a_receiver_says_bye_and_stays_until_that_is_read(void **state)
{
	(void)state;
	pair_open_recv(&pair, 2);
	receive_one(1, 0);
	assert_true(drain_start(pair.recv));
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
			assert_true(drain_start(pair.recv));
		pair_hang_up(&pair, 0);
		comm_turn(pair.recv);
		if (broke_before)
			assert_true(drain_start(pair.recv));
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
}

/* The stream broke right behind the message, before anybody could tell that it has come. */
static void test_a_receiver_stays_for_an_ack_that_was_never_sent(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 0, ANYNET_FLAG_ACK, 8), word;
	struct anynet_request *req;

	(void)state;
	pair_open_recv(&pair, 1);
	req = pair_irecv(&pair, pair_in, 8, 0);
	frame_put(pair.fds[0], &frame, pair_out);
	pair_hang_up(&pair, 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(comm_turn(pair.recv), 0); /* as an I/O thread does */
	assert_int_equal(pair.recv->streams[0]->path.fd, -1);
	assert_true(pair_done(req, NULL));
	assert_true(drain_start(pair.recv));
	assert_false(is_over(pair.recv));
	resume_recv_ok(&pair, 0, NULL);
	assert_false(is_over(pair.recv));
	word = take_word(0);
	assert_int_equal(word.type, ANYNET_FRAME_ACK);
	assert_int_equal(take_word(0).type, ANYNET_FRAME_BYE);
	assert_true(is_over(pair.recv));
}

/* … unless the sender has ended: it is asked, although the other stream has not broken. */
static void test_a_receiver_whose_sender_has_ended_asks_it(void **state)
{
	(void)state;
	pair_open_recv(&pair, 2);
	receive_one(0, 0);
	pair_hang_up(&pair, 0);
	assert_true(drain_start(pair.recv));
	assert_false(is_over(pair.recv));
	comm_attend(pair.recv);
	assert_int_equal(pair.recv->session->recovery->since_ms, 0);
	assert_int_equal(take_word(1).type, ANYNET_FRAME_BYE);
	pair_hang_up(&pair, 1);
	assert_false(is_over(pair.recv));
	comm_attend(pair.recv);
	assert_int_not_equal(pair.recv->session->recovery->since_ms, 0);
}

static void test_a_receiver_that_has_told_nothing_does_not_wait_for_its_stream(void **state)
{
	(void)state;
	pair_open_recv(&pair, 2);
	receive_one(1, 0); /* sent on stream 0 */
	assert_int_equal(take_word(0).type, ANYNET_FRAME_ACK);
	pair_hang_up(&pair, 1);
	comm_turn(pair.recv);
	assert_int_equal(pair.recv->streams[1]->path.fd, -1);
	drain_start(pair.recv);
	assert_int_equal(take_word(0).type, ANYNET_FRAME_BYE);
	assert_true(is_over(pair.recv));
}

/* The sender may not know yet that the receiver is closed. */
static void test_data_after_close_is_discarded_in_any_pieces(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 0, 0, PAIR_LARGE);
	const uint8_t *bytes = (const uint8_t *)&frame;

	(void)state;
	for (size_t first = 1; first < sizeof(frame); first++) {
		pair_open_recv(&pair, 1);
		assert_true(drain_start(pair.recv));
		assert_int_equal(send(pair.fds[0], bytes, first, 0), first);
		assert_false(drain_over(pair.recv));
		assert_int_equal(send(pair.fds[0], bytes + first, sizeof(frame) - first, 0),
				 sizeof(frame) - first);
		assert_int_equal(send(pair.fds[0], pair_out, PAIR_LARGE, 0), PAIR_LARGE);
		assert_false(is_over(pair.recv));
		assert_int_equal(take_word(0).type, ANYNET_FRAME_BYE);
		assert_true(is_over(pair.recv));
		assert_int_equal(comm_error(pair.recv), 0);
		pair_close(&pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) \
	cmocka_unit_test_prestate_setup_teardown(name, pair_setup_recovery, teardown, &pair)
		TEST(test_a_sender_stays_until_all_is_read),
		TEST(test_a_stream_is_not_shut_before_bye_is_out),
		TEST(test_a_sender_whose_stream_broke_stays_until_it_is_back),
		TEST(test_a_sender_that_owes_nothing_does_not_wait_for_its_stream),
		TEST(test_a_sender_stays_for_ready),
		TEST(test_an_acknowledgement_tells_that_ready_has_come),
		TEST(test_with_sends_in_flight_nothing_more_is_said),
		TEST(test_the_end_of_one_stream_is_not_that_of_the_others),
		TEST(test_it_stays_no_longer_than_the_peer_timeout),
		TEST(test_a_sender_that_has_said_resume_stays_until_it_is_answered),
		TEST(test_a_receiver_says_bye_and_stays_until_that_is_read),
		TEST(test_a_receiver_stays_to_tell_a_lost_ack_again),
		TEST(test_a_receiver_stays_for_an_ack_that_was_never_sent),
		TEST(test_a_receiver_whose_sender_has_ended_asks_it),
		TEST(test_a_receiver_that_has_told_nothing_does_not_wait_for_its_stream),
		TEST(test_data_after_close_is_discarded_in_any_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The other side of a closed comm: BYE, and the ends of connections that may lose the last frames. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/capture.h"
#include "unit/carrier.h"
#include "unit/narrow.h"

static struct pair pair;
static struct carrier carrier;

static int teardown(void **state)
{
	carrier_close(&carrier);
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 0);
	return pair_teardown(state);
}

/* --- the receiver's BYE at the sender --- */

static void put_bye(unsigned stream)
{
	struct anynet_wire_frame bye = { .type = ANYNET_FRAME_BYE };

	frame_put(pair.fds[stream], &bye, NULL);
	pair_hang_up(&pair, stream);
}

static void turns(void)
{
	for (int i = 0; i < 5; i++)
		comm_turn(pair.send);
}

static void test_a_bye_ends_an_idle_sender_without_an_error(void **state)
{
	(void)state;
	pair_open_send(&pair, 2);
	pair_send(&pair, pair_out, 50);
	put_bye(0);
	turns();
	assert_null(pair.send->streams[0]);
	assert_false(pair.send->peer_closed);
	/* The other stream continues. */
	pair_send(&pair, pair_out, 50);
	pair_expect(&pair, 1, ANYNET_FRAME_DATA, 1);
	put_bye(1);
	turns();
	assert_true(pair.send->peer_closed);
	assert_int_equal(comm_error(pair.send), 0);
	assert_false(drain_start(pair.send));
}

/* A sender has closed whose message of tag 1 the receiver has kept and acknowledged. */
static void keep_one_and_end(void)
{
	struct anynet_wire_frame kept = frame_data(0, 1, ANYNET_FLAG_MULTI, 100),
				 wanted = frame_data(1, 2, ANYNET_FLAG_MULTI, 100);
	struct anynet_request *req;

	pair_open_recv(&pair, 1);
	req = pair_irecv(&pair, pair_in, 100, 2);
	frame_put(pair.fds[0], &kept, pair_out + 1);
	frame_put(pair.fds[0], &wanted, pair_out);
	pair_finish(&req, 1, NULL);
	put_bye(0);
	for (int i = 0; i < 5; i++)
		comm_turn(pair.recv);
	assert_true(pair.recv->peer_closed);
}

/* So many receives of tag 1, as a group. */
static void expect_refusal(int count)
{
	void *data[] = { pair_in, pair_in + 100 };
	size_t bytes[] = { 100, 100 };
	int tags[] = { 1, 1 };
	struct anynet_recv recv = { .n = count, .data = data, .bytes = bytes, .tags = tags };
	struct anynet_request *req;

	assert_int_equal(anynet_irecv(pair.recv, &recv, &req), -ECONNRESET);
	assert_null(req);
	assert_int_equal(capture_count(CAPTURE_WARN, "the peer closed the connection"), 1);
	capture_forget();
}

static void test_what_was_kept_is_received_after_bye(void **state)
{
	struct anynet_request *req;
	int size;

	(void)state;
	keep_one_and_end();
	req = pair_irecv(&pair, pair_in, 100, 1);
	pair_finish(&req, 1, &size);
	assert_int_equal(size, 100);
	assert_memory_equal(pair_in, pair_out + 1, 100);
	expect_refusal(1);
}

static void test_a_group_of_which_one_was_kept_is_refused(void **state)
{
	(void)state;
	keep_one_and_end();
	expect_refusal(2);
}

/* … and a receiver whose sender has sent it: it need not come back. */
static void test_a_resume_after_bye_is_answered_gone(void **state)
{
	struct anynet_wire_hello welcome;

	(void)state;
	pair_open_recv(&pair, 1);
	put_bye(0);
	for (int i = 0; i < 5; i++)
		comm_turn(pair.recv);
	assert_true(pair.recv->peer_closed);
	assert_int_equal(resume_recv(&pair, 0, 1, &welcome), -1);
	assert_int_equal(welcome.status, ANYNET_STATUS_GONE);
}

static void test_an_end_without_bye_is_recovered(void **state)
{
	(void)state;
	pair_open_send(&pair, 1);
	pair_send(&pair, pair_out, 50);
	pair_hang_up(&pair, 0);
	turns();
	assert_non_null(pair.send->streams[0]);
	assert_int_equal(pair.send->streams[0]->path.fd, -1);
	assert_false(pair.send->peer_closed);
	assert_int_equal(comm_error(pair.send), 0);
}

static void test_a_bye_while_a_send_waits_is_an_error(void **state)
{
	struct anynet_request *req;

	(void)state;
	pair_open_send(&pair, 1);
	req = pair_isend(&pair, pair_out, PAIR_LARGE, 0);
	pair_idle(req);
	put_bye(0);
	pair_fails(req, -ECONNRESET);
	assert_int_equal(capture_count(CAPTURE_WARN, "before receiving all data of pending requests"), 1);
	capture_forget();
}

/* Sending fails before anything was read. */
static void test_the_last_frames_on_a_connection_are_read(void **state)
{
	struct anynet_request *req, *next;
	uint16_t slot;

	(void)state;
	pair_open_send(&pair, 1);
	req = pair_isend(&pair, pair_out, PAIR_LARGE, 0);
	assert_int_equal(comm_transmit(pair.send), 0);
	slot = pair_expect(&pair, 0, ANYNET_FRAME_DATA, 0).slot;
	next = pair_isend(&pair, pair_out, 100, 0);
	frame_put_ack(pair.fds[0], &slot, 1);
	pair_hang_up(&pair, 0);
	assert_int_equal(comm_transmit(pair.send), 0);
	assert_int_equal(pair.send->streams[0]->path.fd, -1);
	assert_true(atomic_load(&req->done));
	assert_false(atomic_load(&next->done));
}

/* Its acknowledgement cannot be sent any more. */
static void test_what_a_sender_said_before_it_went_is_received(void **state)
{
	struct anynet_request *req;

	(void)state;
	pair_open_recv(&pair, 1);
	req = pair_irecv(&pair, pair_in, 100, 0);
	for (uint32_t i = 0; i < 2; i++) {
		struct anynet_wire_frame frame = frame_data(i, 0, ANYNET_FLAG_ACK, 100);

		frame_put(pair.fds[0], &frame, pair_out + i);
	}
	pair_hang_up(&pair, 0);
	pair_finish(&req, 1, NULL);
	assert_memory_equal(pair_in, pair_out, 100);
	req = pair_irecv(&pair, pair_in, 100, 0);
	pair_finish(&req, 1, NULL);
	assert_memory_equal(pair_in, pair_out + 1, 100);
}

/* --- both sides, and a connection that ends at any byte --- */

/* Runs until nothing changes; connections that end are replaced while both comms exist. */
static bool finish(bool (*is_done)(void))
{
	for (int turn = 0; turn < 100; turn++) {
		if (carrier.pair.send->peer_closed || carrier.pair.recv->peer_closed)
			return is_done();
		carrier_settle(&carrier);
		if (is_done())
			return true;
	}
	return false;
}

/* While a comm drains; the receiver notices the cut now, or only at the hello. */
static void cut_and_mend(struct anynet_comm *draining, bool noticed)
{
	assert_false(drain_over(draining));
	if (noticed)
		carrier_cut(&carrier, 0);
	else
		carrier_cut_sender(&carrier, 0);
	comm_turn(carrier.pair.recv);
	assert_false(drain_over(draining));
	carrier_mend(&carrier, 0);
}

static struct anynet_request *pending;

static bool send_is_done(void)
{
	return pending->comm->is_send && pair_done(pending, NULL);
}

/* A receive is done, and its comm is closed at once. */
static void close_receiver_behind_ack(uint64_t at, bool noticed)
{
	struct anynet_comm *recv;
	struct anynet_request *req;

	carrier_open(&carrier, 1);
	recv = carrier.pair.recv;
	carrier.streams[0].left[TO_SENDER] = at;
	req = pair_irecv(&carrier.pair, pair_in, PAIR_LARGE, 0);
	pending = pair_isend(&carrier.pair, pair_out, PAIR_LARGE, 0);
	for (int i = 0; !pair_done(req, NULL); i++) {
		assert_true(i < 1000);
		carrier_turn(&carrier);
	}
	assert_memory_equal(pair_in, pair_out, PAIR_LARGE);
	drain_start(recv);
	carrier_settle(&carrier);
	if (!pair_done(pending, NULL)) {
		cut_and_mend(recv, noticed);
		assert_true(finish(send_is_done));
	}
	carrier_close(&carrier);
}

static void test_a_receiver_may_close_whenever_its_receives_are_done(void **state)
{
	const size_t ack = sizeof(struct anynet_wire_frame) + ANYNET_ACK_BYTES;

	(void)state;
	for (uint64_t at = 0; at <= ack + sizeof(struct anynet_wire_frame); at++)
		for (int noticed = 0; noticed < 2; noticed++)
			close_receiver_behind_ack(at, noticed);
}

/* Also of a message for whose acknowledgement nobody waits. */
static void test_a_receiver_acknowledges_all_before_bye(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 0, ANYNET_FLAG_TAIL, 8);
	struct anynet_request *req;

	(void)state;
	pair_open_recv(&pair, 1);
	req = pair_irecv(&pair, pair_in, 8, 0);
	frame_put(pair.fds[0], &frame, pair_out);
	pair_finish(&req, 1, NULL);
	assert_true(drain_start(pair.recv));
	pair_expect(&pair, 0, ANYNET_FRAME_ACK, 1);
	pair_expect(&pair, 0, ANYNET_FRAME_BYE, 0);
}

/* The socket has not taken the byte that the receiver does not need: what is received has been sent. */
static void test_a_receiver_may_close_before_the_tail_is_out(void **state)
{
	struct anynet_request *req, *out;

	(void)state;
	carrier_open(&carrier, 1);
	narrow_socket(carrier.pair.send->streams[0]->path.fd, sizeof(struct anynet_wire_frame) + 10);
	req = pair_irecv(&carrier.pair, pair_in, 10, 0);
	out = pair_isend(&carrier.pair, pair_out, 10, 0);
	carrier_settle(&carrier);
	pair_finish(&req, 1, NULL);
	assert_int_equal(narrow_room(), 0);
	drain_start(carrier.pair.recv);
	carrier_settle(&carrier);
	pair_finish(&out, 1, NULL);
	assert_int_equal(comm_error(carrier.pair.send), 0);
	narrow_socket(-1, 0);
}

static bool receiver_knows_the_end(void)
{
	return carrier.pair.recv->streams[0] == NULL;
}

/* Sends are done, and their comm is closed at once; the receives are posted later. */
static void close_sender_behind_data(uint64_t at, bool noticed)
{
	struct anynet_request *reqs[3];
	struct anynet_comm *send;
	int sizes[3];

	carrier_open(&carrier, 1);
	send = carrier.pair.send;
	carrier.streams[0].left[TO_RECEIVER] = at;
	for (int i = 0; i < 3; i++)
		pair_send(&carrier.pair, pair_out + i, (size_t)(10 + i));
	assert_true(drain_start(send));
	carrier_settle(&carrier);
	cut_and_mend(send, noticed);
	for (int i = 0; i < 3; i++)
		reqs[i] = pair_irecv(&carrier.pair, pair_in + 20 * i, 20, 0);
	for (int i = 0; i < 100 && !drain_over(send); i++)
		carrier_turn(&carrier);
	assert_true(drain_over(send));
	pair_finish(reqs, 3, sizes);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(sizes[i], 10 + i);
		assert_memory_equal(pair_in + 20 * i, pair_out + i, 10 + (size_t)i);
	}
	/* The comm is destroyed now: the connection ends after BYE. */
	carrier_carry(&carrier);
	carrier_cut(&carrier, 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(comm_turn(carrier.pair.recv), 0);
	assert_true(receiver_knows_the_end());
	assert_true(carrier.pair.recv->peer_closed);
	carrier_close(&carrier);
}

static void test_a_sender_may_close_whenever_its_sends_are_done(void **state)
{
	const size_t bytes = 4 * sizeof(struct anynet_wire_frame) + 10 + 11 + 12 + 3;

	(void)state;
	for (uint64_t at = 0; at < bytes; at++)
		for (int noticed = 0; noticed < 2; noticed++)
			close_sender_behind_data(at, noticed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) \
	cmocka_unit_test_prestate_setup_teardown(name, pair_setup_recovery, teardown, &pair)
		TEST(test_a_bye_ends_an_idle_sender_without_an_error),
		TEST(test_what_was_kept_is_received_after_bye),
		TEST(test_a_group_of_which_one_was_kept_is_refused),
		TEST(test_a_resume_after_bye_is_answered_gone),
		TEST(test_an_end_without_bye_is_recovered),
		TEST(test_a_bye_while_a_send_waits_is_an_error),
		TEST(test_the_last_frames_on_a_connection_are_read),
		TEST(test_what_a_sender_said_before_it_went_is_received),
		TEST(test_a_receiver_may_close_whenever_its_receives_are_done),
		TEST(test_a_receiver_acknowledges_all_before_bye),
		TEST(test_a_receiver_may_close_before_the_tail_is_out),
		TEST(test_a_sender_may_close_whenever_its_sends_are_done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

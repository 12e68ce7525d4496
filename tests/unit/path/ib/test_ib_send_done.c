/* SPDX-License-Identifier: Apache-2.0 */
/* A send comm with queue pairs: what has arrived, and what a close waits for. */
#include "ib_comm.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "transports/message/send_internal.h"

static uint64_t now_us;

uint64_t __wrap_os_now_us(void);
uint64_t __wrap_os_now_us(void)
{
	return now_us;
}

/* The statistics of the stream at this time of the clock. */
static struct stream_signs signs_at(uint64_t us)
{
	struct stream_signs signs;

	now_us = us;
	assert_true(pair.send->streams[0]->ops->signs(pair.send->streams[0], &signs));
	return signs;
}

/* Its speed: the bytes that arrived, and the time in which they were in flight. A small frame that the adapter has not
 * reported is not in flight for long. */
static void test_the_time_of_large_frames_is_known(void **state)
{
	struct anynet_request *first, *second;
	struct stream_signs signs;

	(void)state;
	now_us = 1000;
	ib_open_send(&pair, 1, 1);
	pair_send(&pair, pair_out, 100);
	arrive(0);
	signs = signs_at(2000);
	assert_true(!signs.qp.acked && !signs.qp.busy_us && !signs.qp.rtt_us);
	cts(0, 1, LARGE);
	cts(0, 2, LARGE);
	first = pair_isend(&pair, pair_out, LARGE, 0);
	now_us = 2300;
	second = pair_isend(&pair, pair_out, LARGE, 0);
	signs = signs_at(2400);
	assert_true(!signs.qp.acked && signs.qp.busy_us == 400);
	now_us = 2500;
	stub_complete(ib_qp_of(pair.send, 0)->ibv, 1, IBV_WC_SUCCESS);
	assert_true(pair_done(first, NULL));
	signs = signs_at(2700);
	assert_int_equal(signs.qp.acked, LARGE);
	assert_int_equal(signs.qp.busy_us, 700);
	assert_int_equal(signs.qp.rtt_us, 500);
	now_us = 3000;
	stub_complete(ib_qp_of(pair.send, 0)->ibv, 1, IBV_WC_SUCCESS);
	assert_true(pair_done(second, NULL));
	pair_send(&pair, pair_out, 100);
	signs = signs_at(9000);
	assert_int_equal(signs.qp.acked, 2 * LARGE);
	assert_int_equal(signs.qp.busy_us, 1000);
	assert_int_equal(signs.qp.rtt_us, 500); /* the second was posted while the first was timed */
	cts(0, 4, LARGE);
	first = pair_isend(&pair, pair_out, LARGE, 0);
	now_us = 9000 + 1300;
	arrive(0);
	assert_true(pair_done(first, NULL));
	assert_int_equal(signs_at(20000).qp.rtt_us, (7 * 500 + 1300) / 8);
	assert_int_equal(signs_at(20000).qp.busy_us, 2300);
}

/* The adapter has not heard so: its last acknowledgements were lost, and the receiver's queue pair ends. */
static void tell_by_bye(void)
{
	struct anynet_wire_frame bye = { .type = ANYNET_FRAME_BYE };
	struct anynet_request *req;

	ib_open_send(&pair, 1, 1);
	req = pair_isend(&pair, pair_out, LARGE, 0);
	pair_idle(req);
	cts(0, 0, LARGE);
	pair_idle(req);
	bye.offset = pair.send->streams[0]->log.next;
	ib_bring(ib_qp_of(pair.send, 0), &bye, NULL, 0);
	pair_finish(&req, 1, NULL);
}

static void test_bye_tells_what_has_arrived(void **state)
{
	(void)state;
	tell_by_bye();
}

/* The fence then destroys it. */
static void test_a_queue_pair_that_does_not_flush_is_not_used_after_bye(void **state)
{
	(void)state;
	stub_never_flushes = true;
	tell_by_bye();
	stub_never_flushes = false;
}

/* Memory may be deregistered then. The queue pair itself is destroyed later. */
static void test_nothing_is_written_when_a_comm_is_closed(void **state)
{
	const struct ibv_qp *qp;

	(void)state;
	ib_open_send(&pair, 1, 1);
	qp = ib_qp_of(pair.send, 0)->ibv;
	pair_close(&pair);
	assert_int_equal(qp->state, IBV_QPS_ERR);
}

static void test_only_what_has_arrived_is_done(void **state)
{
	struct anynet_request *reqs[3];
	struct ib_qp *qp;

	(void)state;
	ib_open_send(&pair, 1, 1);
	qp = ib_qp_of(pair.send, 0);
	for (uint32_t i = 0; i < 3; i++) {
		cts(0, i, LARGE);
		reqs[i] = pair_isend(&pair, pair_out, LARGE, 0);
	}
	pair_idle(reqs[0]);
	for (int i = 0; i < 3; i++) {
		stub_complete(qp->ibv, 1, IBV_WC_SUCCESS);
		assert_true(pair_done(reqs[i], NULL));
		if (i < 2)
			pair_idle(reqs[i + 1]);
	}
}

/* The receiver acknowledges what came by several paths, before this end's adapter completes it. A message before it gets
 * no acknowledgement: only the completion tells that it has arrived. */
static void test_frames_stay_in_the_log_until_they_complete(void **state)
{
	enum {
		FIRST = STREAM_LOG_FRAMES - 1 /* then the log is full with one more */
	};
	uint8_t bits[ANYNET_ACK_BYTES] = { 0 };
	const struct anynet_wire_frame ack = { .type = ANYNET_FRAME_ACK, .length = sizeof(bits) };
	const struct stream_log *log;
	struct ib_qp *qp;

	(void)state;
	ib_open_send(&pair, 1, 1);
	qp = ib_qp_of(pair.send, 0);
	log = &pair.send->streams[0]->log;
	for (unsigned i = 0; i < FIRST; i++) {
		uint32_t consumed = qp->credits.posted;

		pair_send(&pair, pair_out, 8);
		assert_true(stub_write(qp->ibv, (uintptr_t)&qp->memory.cts_ring->consumed,
				       qp->memory.mr->rkey, &consumed, sizeof(consumed)));
		bits[i / 8] |= (uint8_t)(i ? 1u << i % 8 : 0);
	}
	ib_bring(qp, &ack, bits, sizeof(bits));
	ib_turn(pair.send);
	assert_int_equal(to_send(pair.send)->unconfirmed, 1);
	for (int i = 0; i < 3; i++) /* two in the places of the first frames, if those were dropped */
		pair_send(&pair, pair_out, 8);
	stub_complete(qp->ibv, FIRST, IBV_WC_SUCCESS);
	ib_turn(pair.send);
	assert_int_equal(to_send(pair.send)->unconfirmed, 3);
	assert_int_equal(ib_stream_of(pair.send, 0)->use.bytes_out,
			 (log->next - log->arrived) * (sizeof(struct anynet_wire_frame) + 8));
}

/* A heartbeat is always signalled, a small message is not. */
static void test_a_heartbeat_confirms_the_frames_before_it(void **state)
{
	struct anynet_stream *stream;

	(void)state;
	ib_open_send(&pair, 1, 1);
	stream = pair.send->streams[0];
	for (int i = 0; i < 2; i++)
		pair_send(&pair, pair_out, 8);
	stream->ops->ping(stream);
	assert_int_equal(to_send(pair.send)->unconfirmed, 2);
	stub_complete(ib_qp_of(pair.send, 0)->ibv, 3, IBV_WC_SUCCESS);
	ib_turn(pair.send);
	assert_int_equal(to_send(pair.send)->unconfirmed, 0);
}

/* Messages that were delivered long ago, in requests that are not signalled, are not stuck. */
static void test_frames_that_nothing_will_confirm_are_not_stuck(void **state)
{
	struct anynet_stream *stream;

	(void)state;
	ib_open_send(&pair, 1, 1);
	stream = pair.send->streams[0];
	for (int i = 0; i < 2; i++)
		pair_send(&pair, pair_out, 8);
	assert_int_equal(stream->ops->moved(stream), STREAM_IDLE);
	stream->ops->ping(stream); /* requests wait */
	assert_int_equal(stream->ops->moved(stream), STREAM_STUCK);
	arrive(0);
	ib_turn(pair.send);
	assert_int_equal(stream->ops->moved(stream), STREAM_MOVED);
}

static void test_a_closed_comm_waits_until_its_bye_is_through(void **state)
{
	struct anynet_stream *stream;

	(void)state;
	ib_open_send(&pair, 1, 1);
	stream = pair.send->streams[0];
	send_bye(pair.send);
	assert_int_equal(stream->ops->drain(stream), -EAGAIN);
	ib_note_posted();
	assert_int_equal(comm_transmit(pair.send), 0);
	assert_int_equal(ib_posted_count, 1);
	assert_int_equal(ib_posted[0].frame.type, ANYNET_FRAME_BYE);
	assert_int_equal(stream->ops->drain(stream), -EAGAIN);
	arrive(0);
	assert_int_equal(stream->ops->drain(stream), 0);
}

/* What a queue pair has reported the receiver has, or it has lost it. It cannot be sent again: the other frames of the
 * message may complete it meanwhile. */
static void test_a_position_before_what_has_arrived_is_refused(void **state)
{
	struct anynet_request *req;

	(void)state;
	for (uint64_t frames = 0; frames < 2; frames++) {
		ib_open_send(&pair, 1, 1);
		to_send(pair.send)->limits.frame = LARGE / 2;
		ib_qp_of(pair.send, 0)->sq.signal_all = true;
		cts(0, 0, LARGE);
		req = pair_isend(&pair, pair_out, LARGE, 0);
		while (pair_idle(req), !pair.send->streams[0]->log.arrived)
			stub_complete(ib_qp_of(pair.send, 0)->ibv, 1, IBV_WC_SUCCESS);
		assert_int_equal(pair.send->streams[0]->log.arrived, 1);
		resume(pair.send->streams[0], frames, NULL);
		assert_int_equal(comm_error(pair.send), frames ? 0 : -EPROTO);
		pair_close(&pair);
	}
}

/* A broken queue pair did not report everything that it has delivered; the receiver does. */
static void test_what_the_receiver_has_is_done(void **state)
{
	struct anynet_request *reqs[2];

	(void)state;
	ib_open_send(&pair, 1, 1);
	for (uint32_t i = 0; i < 2; i++) {
		cts(0, i, LARGE);
		reqs[i] = pair_isend(&pair, pair_out, LARGE, 0);
	}
	pair_idle(reqs[0]);
	resume(pair.send->streams[0], 1, NULL);
	assert_true(pair_done(reqs[0], NULL));
	pair_idle(reqs[1]); /* uses TCP now */
	pair_expect(&pair, 0, ANYNET_FRAME_PING, 0);
	pair_expect(&pair, 0, ANYNET_FRAME_DATA, 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, ib_comm_setup, ib_comm_teardown)
	const struct CMUnitTest tests[] = {
		T(test_the_time_of_large_frames_is_known),
		T(test_bye_tells_what_has_arrived),
		T(test_a_queue_pair_that_does_not_flush_is_not_used_after_bye),
		T(test_nothing_is_written_when_a_comm_is_closed),
		T(test_only_what_has_arrived_is_done),
		T(test_frames_stay_in_the_log_until_they_complete),
		T(test_a_heartbeat_confirms_the_frames_before_it),
		T(test_frames_that_nothing_will_confirm_are_not_stuck),
		T(test_a_closed_comm_waits_until_its_bye_is_through),
		T(test_a_position_before_what_has_arrived_is_refused),
		T(test_what_the_receiver_has_is_done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of several streams takes the next chunk of a message (send_streams.c): each according to its rate, none that
 * would finish much later than another. The test sets rates and backlogs; nothing is sent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transports/message/send_internal.h"
#include "unit/pair.h"

#define CHUNK  LOCAL_CHUNK_BYTES
#define CHUNKS 40

static struct {
	struct pair pair;
	struct anynet_stream_ops ops; /* the real operations, except these */
	size_t backlog[PAIR_STREAMS_MAX];
	bool cleared[PAIR_STREAMS_MAX];
} share;

static size_t scripted_backlog(struct anynet_stream *stream)
{
	return share.backlog[stream->index];
}

static int nothing_leaves(struct anynet_stream *stream)
{
	(void)stream;
	return 0;
}

/* A sender with one message of CHUNKS chunks, which no one reads. */
static void open_streams(unsigned streams)
{
	pair_open_send(&share.pair, streams);
	memset(share.backlog, 0, sizeof(share.backlog));
	share.ops = *share.pair.send->streams[0]->ops;
	share.ops.backlog = scripted_backlog;
	share.ops.transmit = nothing_leaves;
	for (unsigned i = 0; i < streams; i++)
		share.pair.send->streams[i]->ops = &share.ops;
	pair_isend(&share.pair, pair_out, (size_t)CHUNKS * CHUNK, 0);
}

static void set_stream(unsigned stream, double rate, size_t backlog)
{
	share.pair.send->streams[stream]->sent.rate = rate;
	share.backlog[stream] = backlog;
}

/* It is offered the next chunk, and takes it if the chunk is for it. */
static bool takes(unsigned stream)
{
	struct send_comm *comm = (struct send_comm *)share.pair.send;
	struct frame_id id;

	if (!send_next(comm, share.pair.send->streams[stream], &id))
		return false;
	assert_int_equal(id.type, ANYNET_FRAME_DATA);
	assert_int_equal(id.length, CHUNK);
	return true;
}

/* 1.5 times as late is acceptable: rates are estimates. */
static void test_a_chunk_is_left_to_one_that_is_done_with_it_earlier(void **state)
{
	(void)state;
	open_streams(2);
	set_stream(0, 1000, 0);
	set_stream(1, 1000, 0);
	assert_true(takes(0));
	assert_true(takes(1));
	set_stream(0, 1000, CHUNK * 2 / 5); /* 1.4 of the other's time */
	assert_true(takes(0));
	assert_true(takes(1));
	set_stream(0, 1000, CHUNK * 3 / 5);
	assert_false(takes(0));
	assert_true(takes(1));
	set_stream(0, 1000 / 1.4, 0);
	assert_true(takes(0));
	set_stream(0, 1000 / 1.6, 0);
	assert_false(takes(0));
	set_stream(1, 1000, CHUNK); /* by then the other one is busy */
	assert_true(takes(0));
}

/* Otherwise its rate would never be measured again. */
static void test_a_slow_stream_is_tried_again_some_time(void **state)
{
	struct stream_sent *slow, *fast;
	unsigned looks = 0;

	(void)state;
	open_streams(2);
	slow = &share.pair.send->streams[0]->sent;
	fast = &share.pair.send->streams[1]->sent;
	set_stream(0, 100, 0);
	set_stream(1, 1000, 0);
	for (int i = 0; i < 1000; i++)
		send_age_rates(share.pair.send); /* nothing is sent at all: nothing is out of date */
	assert_true(slow->rate <= 100 && !slow->raised);
	for (; !takes(0); looks++) {
		fast->bytes += CHUNK;
		send_age_rates(share.pair.send);
	}
	assert_in_range(looks, 150, 250);
	assert_true(slow->raised);
	for (int i = 0; i < 100; i++) {
		slow->bytes += CHUNK;
		send_age_rates(share.pair.send);
	}
	assert_true(slow->rate < 1000); /* it sends, so it is measured */
	for (int i = 0; i < 1000; i++) {
		fast->bytes += CHUNK;
		send_age_rates(share.pair.send);
	}
	assert_true(slow->rate <= 1000);
}

static void test_the_fastest_of_the_others_counts(void **state)
{
	(void)state;
	open_streams(3);
	set_stream(0, 100, 0);
	set_stream(1, 100, 0);
	set_stream(2, 1000, 0);
	assert_false(takes(0));
	assert_false(takes(1));
	assert_true(takes(2));
	set_stream(1, 1000, 0);
	set_stream(2, 100, 0);
	assert_false(takes(0));
	assert_false(takes(2));
	assert_true(takes(1));
}

static void test_an_unknown_rate_is_no_reason_to_wait(void **state)
{
	(void)state;
	open_streams(2);
	set_stream(0, 10, 10 * CHUNK);
	set_stream(1, 0, 0);
	assert_true(takes(0));
	assert_true(takes(1));
	set_stream(1, 0, 256 << 10); /* this much at first, until its rate is known */
	assert_true(takes(1));
	set_stream(1, 0, (256 << 10) + 1);
	assert_false(takes(1));
	assert_true(takes(0));
}

static void test_nothing_is_left_to_one_that_is_broken(void **state)
{
	(void)state;
	open_streams(2);
	set_stream(0, 10, 10 * CHUNK);
	set_stream(1, 1000, 0);
	assert_false(takes(0));
	comm_sever(share.pair.send, share.pair.send->streams[1], 0);
	assert_true(takes(0));
}

/* … and nothing is left over: no stream waits for it, however fast it was. */
static void test_a_suspect_one_takes_nothing(void **state)
{
	(void)state;
	open_streams(2);
	set_stream(0, 1000, 0);
	set_stream(1, 1000, 0);
	share.pair.send->streams[0]->state = STREAM_SUSPECT;
	assert_false(takes(0));
	assert_true(takes(1));
	set_stream(1, 10, 0);
	assert_true(takes(1));
}

/* Time advances in steps: in each one a stream delivers according to its rate, and its socket has room for 8 chunks. */
static unsigned steps_for_all(const double *rates)
{
	unsigned left = CHUNKS, steps = 0;

	for (; left || share.backlog[0] || share.backlog[1]; steps++) {
		for (unsigned i = 0; i < 2; i++) {
			share.backlog[i] -= anynet_min(share.backlog[i], (size_t)rates[i]);
			while (left && share.backlog[i] <= 7 * CHUNK && takes(i)) {
				share.backlog[i] += CHUNK;
				left--;
			}
		}
	}
	return steps;
}

/* At the end the fast one does not wait for data that the slow one has too much of. */
static void test_all_are_done_at_about_the_same_time(void **state)
{
	static const double slower_by[] = { 1, 2, 4, 10 };

	(void)state;
	for (size_t i = 0; i < sizeof(slower_by) / sizeof(slower_by[0]); i++) {
		const double rates[] = { CHUNK / slower_by[i], CHUNK };
		unsigned ideal = (unsigned)(CHUNKS * CHUNK / (rates[0] + rates[1]));

		open_streams(2);
		set_stream(0, rates[0], 0);
		set_stream(1, rates[1], 0);
		assert_in_range(steps_for_all(rates), ideal, ideal + ideal / 4 + 1);
		pair_close(&share.pair);
	}
}

static bool scripted_cts(struct anynet_stream *stream, const struct send_msg *msg)
{
	(void)msg;
	return share.cleared[stream->index];
}

/* With queue pairs: the stream with the CTS, of several the one with the smallest backlog. */
static void test_the_freest_of_those_with_the_cts_takes_it(void **state)
{
	(void)state;
	local_dev.transport = ANYNET_TRANSPORT_IB;
	open_streams(3);
	share.pair.send->tcp.only =
		false; /* there are none here, but the streams need not know */
	share.ops.cleared = scripted_cts;
	memcpy(share.cleared, (bool[]){ true, true, false }, sizeof(bool[3]));
	set_stream(0, 0, 8 * CHUNK);
	assert_false(takes(0));
	assert_true(takes(1));
	assert_false(takes(2));
	set_stream(1, 0, 9 * CHUNK);
	assert_true(takes(0));
	assert_false(takes(1));
	set_stream(1, 0, 0);
	share.pair.send->streams[1]->state = STREAM_SUSPECT;
	assert_true(takes(0));
	assert_false(takes(1));
}

/* The receiver waits for it on the stream that it knows the comm by. */
static void test_ready_goes_first_on_stream_0(void **state)
{
	struct send_comm *comm;
	struct stream_frame frame;
	struct frame_id id;

	(void)state;
	open_streams(2);
	comm = (struct send_comm *)share.pair.send;
	send_ready(share.pair.send);
	assert_true(send_next(comm, share.pair.send->streams[1], &id));
	assert_int_equal(id.type, ANYNET_FRAME_DATA);
	assert_true(send_next(comm, share.pair.send->streams[0], &id));
	assert_int_equal(id.type, ANYNET_FRAME_READY);
	send_frame(comm, &id, &frame);
	assert_int_equal(frame.header.size, 2);
	assert_int_equal(frame.header.offset, 1 << 0 | 1 << 1); /* which streams are established */
	assert_true(takes(0)); /* once */
}

#define SHARE(test) \
	cmocka_unit_test_prestate_setup_teardown(test, pair_setup, pair_teardown, &share.pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SHARE(test_a_chunk_is_left_to_one_that_is_done_with_it_earlier),
		SHARE(test_a_slow_stream_is_tried_again_some_time),
		SHARE(test_the_fastest_of_the_others_counts),
		SHARE(test_an_unknown_rate_is_no_reason_to_wait),
		SHARE(test_nothing_is_left_to_one_that_is_broken),
		SHARE(test_a_suspect_one_takes_nothing),
		SHARE(test_all_are_done_at_about_the_same_time),
		SHARE(test_the_freest_of_those_with_the_cts_takes_it),
		SHARE(test_ready_goes_first_on_stream_0),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of several tags, and late receives. */
#include "matching.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "transports/message/recv_internal.h"
#include "unit/narrow.h"
#include "unit/pair.h"

void test_a_group_is_filled_by_tag(void **state)
{
	const int tags[3] = { 7, 5, 6 };
	char in[3][16] = { "", "", "" };
	int sizes[ANYNET_RECVS_MAX] = { 0 };
	struct anynet_request *group, *sends[3];

	(void)state;
	pair_open(&pair, 1);
	group = irecv_group(3, in, tags);
	sends[0] = pair_isend(&pair, "five", 5, 5);
	sends[1] = pair_isend(&pair, "six", 4, 6);
	pair_idle(group);
	sends[2] = pair_isend(&pair, "seven", 6, 7);
	pair_finish(sends, 3, NULL);
	pair_finish(&group, 1, sizes);
	assert_string_equal(in[0], "seven");
	assert_string_equal(in[1], "five");
	assert_string_equal(in[2], "six");
	assert_int_equal(sizes[0], 6);
	assert_int_equal(sizes[1], 5);
	assert_int_equal(sizes[2], 4);
}

void test_a_tag_repeated_in_a_group_fills_in_posting_order(void **state)
{
	const int tags[4] = { 1, 2, 1, 1 };
	char in[4][16] = { "", "", "", "" };
	int sizes[ANYNET_RECVS_MAX];
	struct anynet_request *reqs[5];

	(void)state;
	pair_open(&pair, 2);
	reqs[0] = irecv_group(4, in, tags);
	reqs[1] = pair_isend(&pair, "1a", 3, 1);
	reqs[2] = pair_isend(&pair, "1b", 3, 1);
	reqs[3] = pair_isend(&pair, "2a", 3, 2);
	reqs[4] = pair_isend(&pair, "1c", 3, 1);
	pair_finish(reqs + 1, 4, NULL);
	pair_finish(reqs, 1, sizes);
	assert_string_equal(in[0], "1a");
	assert_string_equal(in[1], "2a");
	assert_string_equal(in[2], "1b");
	assert_string_equal(in[3], "1c");
}

void test_a_message_before_its_receive_does_not_block_those_behind_it(void **state)
{
	char in[2][16] = { "", "" };
	struct anynet_request *sends[2], *second, *first;

	(void)state;
	pair_open(&pair, 1);
	second = pair_irecv(&pair, in[1], 16, 2);
	sends[0] = pair_isend(&pair, "unexpected", 11, 1);
	sends[1] = pair_isend(&pair, "awaited", 8, 2);
	pair_finish(sends, 2, NULL);
	pair_finish(&second, 1, NULL);
	assert_string_equal(in[1], "awaited");
	first = pair_irecv(&pair, in[0], 16, 1);
	pair_finish(&first, 1, NULL);
	assert_string_equal(in[0], "unexpected");
}

/* An empty message is kept as unexpected like others, and within the same limit: the sender waits then. */
void test_empty_messages_set_aside_have_a_bound(void **state)
{
	const unsigned most = 1000 + ANYNET_SENDS; /* those with room, and those in flight */
	struct anynet_request *send = NULL, *waits, *recv;
	unsigned taken = 0, tries = 0;
	int got = -1, done;
	char in[16];

	(void)state;
	pair_open(&pair, 1);
	((struct recv_comm *)pair.recv)->unexpected.bytes =
		(64u << 20) - 1000 * 128; /* the rest is delivered */
	waits = pair_irecv(&pair, in, sizeof(in), 9);
	while (tries < 1000 && taken <= most) {
		if (!send)
			assert_int_equal(anynet_isend(pair.send, &(struct anynet_send){ "", 0, 2, NULL, NULL }, &send), 0);
		assert_int_equal(anynet_test(waits, &done, NULL), 0);
		if (send && pair_done(send, NULL)) {
			send = NULL;
			taken++;
			tries = 0;
		}
		tries++;
	}
	assert_in_range(taken, 900, most);
	for (int i = 0; i < 3; i++) {
		recv = pair_irecv(&pair, in, sizeof(in), 2);
		pair_finish(&recv, 1, &got);
		assert_int_equal(got, 0);
	}
}

void test_one_message_after_the_other_may_come_before_its_receive(void **state)
{
	struct anynet_request *waits, *send, *recv;
	char in[3][8] = { "", "", "" };

	(void)state;
	pair_open(&pair, 1);
	waits = pair_irecv(&pair, in[2], 8, 9);
	for (int i = 0; i < 2; i++) {
		send = pair_isend(&pair, i ? "two" : "one", 4, 1);
		pair_finish(&send, 1, NULL);
		pair_idle(waits);
		recv = pair_irecv(&pair, in[i], 8, 1);
		pair_finish(&recv, 1, NULL);
	}
	assert_string_equal(in[0], "one");
	assert_string_equal(in[1], "two");
	send = pair_isend(&pair, "end", 4, 9);
	pair_finish((struct anynet_request *[]){ send, waits }, 2, NULL);
	assert_string_equal(in[2], "end");
}

/* Partly unexpected when its receive is posted. */
void test_a_receive_may_come_in_the_middle_of_its_message(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 1, ANYNET_FLAG_MULTI, 10);
	struct anynet_wire_frame other = frame_data(1, 2, ANYNET_FLAG_MULTI, 1);
	char in[16] = "", end[1];
	struct anynet_request *last, *req;

	(void)state;
	pair_open_recv(&pair, 1);
	last = pair_irecv(&pair, end, sizeof(end), 2);
	frame_put(pair.fds[0], &frame, NULL);
	assert_int_equal(send(pair.fds[0], "01234", 5, 0), 5);
	pair_idle(last);
	req = pair_irecv(&pair, in, sizeof(in), 1);
	assert_int_equal(send(pair.fds[0], "56789", 5, 0), 5);
	frame_put(pair.fds[0], &other, "x");
	pair_finish((struct anynet_request *[]){ req, last }, 2, NULL);
	assert_string_equal(in, "0123456789");
}

void test_many_tags_over_streams_stay_in_order(void **state)
{
	enum {
		ROUNDS = 200,
		TAGS = 3
	};
	uint32_t in[TAGS], out[TAGS];

	(void)state;
	pair_open(&pair, 3);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct anynet_request *reqs[2 * TAGS];

		for (int i = 0; i < TAGS; i++) {
			out[i] = round * TAGS + (uint32_t)i;
			reqs[i] = pair_isend(&pair, &out[i], 4, i);
		}
		for (int i = 0; i < TAGS; i++)
			reqs[TAGS + i] = pair_irecv(&pair, &in[TAGS - 1 - i], 4, TAGS - 1 - i);
		pair_finish(reqs, 2 * TAGS, NULL);
		assert_memory_equal(in, out, sizeof(in));
	}
}

/* Once several tags are in use, a large message waits for a CTS, so that it is never unexpected. */
void test_a_large_message_among_tags_is_announced_and_cleared(void **state)
{
	static uint8_t data[PAIR_LARGE], in[PAIR_LARGE];
	struct anynet_wire_frame frame, cts = { .type = ANYNET_FRAME_CTS };
	struct anynet_request *small, *large;

	(void)state;
	memset(data, 0x5a, sizeof(data));
	pair_open_send(&pair, 1);
	small = pair_isend(&pair, "x", 1, 1);
	large = pair_isend(&pair, data, sizeof(data), 2);
	pair_finish(&small, 1, NULL);
	pair_idle(large);
	assert_true(frame_get(pair.fds[0], &frame, in, sizeof(in)));
	assert_int_equal(frame.type, ANYNET_FRAME_DATA);
	assert_true(frame_get(pair.fds[0], &frame, in, 0));
	assert_int_equal(frame.type, ANYNET_FRAME_RTS);
	assert_int_equal(frame.seq, 1);
	assert_int_equal(frame.tag, 2);
	assert_int_equal(frame.size, PAIR_LARGE);
	assert_true(frame.flags & ANYNET_FLAG_MULTI);
	assert_false(frame_get(pair.fds[0], &frame, in, 0));
	cts.slot = frame.slot;
	cts.seq = frame.seq;
	frame_put(pair.fds[0], &cts, NULL);
	pair_idle(large);
	assert_true(frame_get(pair.fds[0], &frame, in, sizeof(in)));
	assert_int_equal(frame.type, ANYNET_FRAME_DATA);
	assert_int_equal(frame.length, PAIR_LARGE);
	assert_memory_equal(in, data, PAIR_LARGE);
}

void test_an_announced_message_is_cleared_when_its_receive_is_posted(void **state)
{
	struct anynet_wire_frame rts =
		frame_data(0, 1, ANYNET_FLAG_MULTI | ANYNET_FLAG_ACK, PAIR_LARGE);
	static uint8_t in[PAIR_LARGE];
	struct anynet_wire_frame frame;
	struct anynet_request *other, *req;
	char small[4];

	(void)state;
	pair_open_recv(&pair, 1);
	other = pair_irecv(&pair, small, sizeof(small), 2);
	rts.type = ANYNET_FRAME_RTS;
	rts.length = 0;
	rts.slot = 77;
	frame_put(pair.fds[0], &rts, NULL);
	pair_idle(other);
	assert_false(frame_get(pair.fds[0], &frame, NULL, 0));
	req = pair_irecv(&pair, in, sizeof(in), 1);
	pair_idle(req);
	assert_true(frame_get(pair.fds[0], &frame, NULL, 0));
	assert_int_equal(frame.type, ANYNET_FRAME_CTS);
	assert_int_equal(frame.slot, 77);
	assert_false(frame_get(pair.fds[0], &frame, NULL, 0));
}

/* More than fit into one call: 15 CTS and an acknowledgement. */
void test_many_words_at_once_are_told_whole(void **state)
{
	enum {
		LARGE = 15
	};
	static uint8_t in[LARGE][PAIR_LARGE];
	struct anynet_request *reqs[LARGE + 1];
	struct anynet_wire_frame frame;
	uint8_t bits[ANYNET_ACK_BYTES];
	char small[8];

	(void)state;
	pair_open_recv(&pair, 1);
	for (int i = 0; i < LARGE; i++)
		reqs[i] = pair_irecv(&pair, in[i], PAIR_LARGE, i);
	reqs[LARGE] = pair_irecv(&pair, small, sizeof(small), LARGE);
	for (uint32_t i = 0; i < LARGE; i++) {
		frame = frame_data(i, i, ANYNET_FLAG_MULTI | ANYNET_FLAG_ACK, PAIR_LARGE);
		frame.type = ANYNET_FRAME_RTS;
		frame.length = 0;
		frame_put(pair.fds[0], &frame, NULL);
	}
	frame = frame_data(LARGE, LARGE, ANYNET_FLAG_MULTI | ANYNET_FLAG_ACK, 6);
	frame_put(pair.fds[0], &frame, "small");
	pair_idle(reqs[0]);
	for (uint32_t i = 0; i < LARGE; i++) {
		assert_true(frame_get(pair.fds[0], &frame, NULL, 0));
		assert_int_equal(frame.type, ANYNET_FRAME_CTS);
		assert_int_equal(frame.slot, i);
	}
	assert_true(frame_get(pair.fds[0], &frame, bits, sizeof(bits)));
	assert_int_equal(frame.type, ANYNET_FRAME_ACK);
	assert_int_equal(bits[1], 1 << (LARGE - 8));
	assert_false(frame_get(pair.fds[0], &frame, bits, sizeof(bits)));
	assert_true(pair_done(reqs[LARGE], NULL));
	assert_string_equal(small, "small");
}

void test_large_messages_of_several_tags_arrive(void **state)
{
	static uint8_t out[2][PAIR_LARGE], in[2][PAIR_LARGE];
	struct anynet_request *reqs[4];

	(void)state;
	memset(out[0], 1, PAIR_LARGE);
	memset(out[1], 2, PAIR_LARGE);
	pair_open(&pair, 2);
	reqs[0] = pair_isend(&pair, out[0], PAIR_LARGE, 1);
	reqs[1] = pair_isend(&pair, out[1], PAIR_LARGE, 2);
	reqs[2] = pair_irecv(&pair, in[1], PAIR_LARGE, 2);
	reqs[3] = pair_irecv(&pair, in[0], PAIR_LARGE, 1);
	pair_finish(reqs, 4, NULL);
	assert_memory_equal(in, out, sizeof(in));
}

/* Frames behind a stalled head of a stream have already been read, and the socket is empty. */
void test_a_message_read_before_its_receive_was_posted_is_not_forgotten(void **state)
{
	for (unsigned streams = 1; streams <= 2; streams++) {
		struct anynet_wire_frame first = frame_data(0, 0, 0, 5),
					 second = frame_data(1, 0, 0, 6);
		char in[8] = "";
		struct anynet_request *req;

		if (streams > 1)
			pair_close(&pair);
		pair_open_recv(&pair, streams);
		req = pair_irecv(&pair, in, sizeof(in), 0);
		frame_put(pair.fds[0], &first, "first");
		frame_put(pair.fds[0], &second, "second");
		pair_finish(&req, 1, NULL);
		req = pair_irecv(&pair, in, sizeof(in), 0);
		pair_finish(&req, 1, NULL);
		assert_string_equal(in, "second");
	}
	(void)state;
}

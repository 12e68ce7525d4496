/* SPDX-License-Identifier: Apache-2.0 */
/* Which message fills which posted buffer (net-api.md §3.5), over one and several streams. */
#include "matching.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "transports/message/recv_internal.h"
#include "unit/narrow.h"
#include "unit/pair.h"

struct pair pair;

struct anynet_request *irecv_group(int n, char data[][16], const int *tags)
{
	void *buffers[ANYNET_RECVS_MAX];
	size_t bytes[ANYNET_RECVS_MAX];
	struct anynet_request *req;

	for (int i = 0; i < n; i++) {
		buffers[i] = data[i];
		bytes[i] = 16;
	}
	assert_int_equal(anynet_irecv(pair.recv, &(struct anynet_recv){ .n = n, .data = buffers, .bytes = bytes, .tags = tags }, &req), 0);
	assert_non_null(req);
	return req;
}

static void exchange_sizes(unsigned streams)
{
	static const size_t sizes[] = {
		0,         1, 31, LOCAL_EAGER_BYTES, LOCAL_EAGER_BYTES + 1, LOCAL_CHUNK_BYTES + 1,
		PAIR_LARGE
	};
	static uint8_t out[PAIR_LARGE], in[PAIR_LARGE + 1];

	pair_open(&pair, streams);
	for (size_t i = 0; i < PAIR_LARGE; i++)
		out[i] = (uint8_t)(i * 7 + i / 251);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		int got[2] = { -1, -1 };

		memset(in, 0xee, sizeof(in));
		pair_finish((struct anynet_request *[]){ pair_irecv(&pair, in, sizeof(in), 0),
							 pair_isend(&pair, out, sizes[i], 0) },
			    2, got);
		assert_int_equal(got[0], sizes[i]);
		assert_int_equal(got[1], sizes[i]);
		assert_memory_equal(in, out, sizes[i]);
		assert_int_equal(in[sizes[i]], 0xee);
	}
}

static void test_every_size_arrives_over_one_stream(void **state)
{
	(void)state;
	exchange_sizes(1);
}

static void test_every_size_arrives_over_three_streams(void **state)
{
	(void)state;
	exchange_sizes(3);
}

static void test_messages_of_one_tag_fill_receives_in_order(void **state)
{
	char in[8][4] = { { 0 } };
	struct anynet_request *reqs[16];
	int sizes[16];

	(void)state;
	pair_open(&pair, 1);
	for (int i = 0; i < 8; i++)
		reqs[i] = pair_irecv(&pair, in[i], sizeof(in[i]), 3);
	for (int i = 0; i < 8; i++)
		reqs[8 + i] = pair_isend(&pair, &"abcdefgh"[i], 1, 3);
	pair_finish(reqs, 16, sizes);
	for (int i = 0; i < 8; i++)
		assert_int_equal(in[i][0], 'a' + i);
}

/* Numbers begin anywhere, and go on after the last one. */
static void test_only_the_first_receive_sets_the_tag(void **state)
{
	struct anynet_wire_frame seven = frame_data(UINT32_MAX, 7, 0, 5),
				 five = frame_data(0, 5, ANYNET_FLAG_MULTI, 5);
	char in[2][8] = { "", "" };
	struct anynet_request *reqs[2];

	(void)state;
	local_cfg.first_number = UINT32_MAX;
	pair_open_recv(&pair, 1);
	reqs[0] = pair_irecv(&pair, in[0], 8, 5);
	assert_int_equal(((struct recv_comm *)pair.recv)->order, RECV_PLAIN);
	reqs[1] = pair_irecv(&pair, in[1], 8, 7);
	frame_put(pair.fds[0], &seven, "seven");
	frame_put(pair.fds[0], &five, "five!");
	pair_finish(reqs, 2, NULL);
	assert_string_equal(in[0], "five!");
	assert_string_equal(in[1], "seven");
}

/* Chunks of later messages may come first, on another stream. */
static void test_a_later_message_may_arrive_first_on_another_stream(void **state)
{
	struct anynet_wire_frame second = frame_data(1, 0, 0, 5), first = frame_data(0, 0, 0, 5),
				 third = frame_data(2, 0, 0, 5);
	char in[3][8] = { "", "", "" };
	struct anynet_request *reqs[3];

	(void)state;
	pair_open_recv(&pair, 2);
	for (int i = 0; i < 3; i++)
		reqs[i] = pair_irecv(&pair, in[i], 8, 0);
	frame_put(pair.fds[1], &second, "later");
	pair_idle(reqs[0]);
	assert_true(pair_done(reqs[1], NULL));
	assert_string_equal(in[1], "later");
	frame_put(pair.fds[0], &first, "first");
	pair_finish(reqs, 1, NULL);
	assert_string_equal(in[0], "first");
	pair_idle(reqs[2]);
	frame_put(pair.fds[0], &third, "third");
	pair_finish(reqs + 2, 1, NULL);
	assert_string_equal(in[2], "third");
}

/* The sender may have many more messages in flight than there are receives. */
static void test_a_message_far_ahead_waits(void **state)
{
	const uint32_t far = 3 * ANYNET_REQUESTS;
	struct anynet_wire_frame frame = frame_data(far, 0, 0, 4);
	char in[8] = "";

	(void)state;
	pair_open_recv(&pair, 2);
	frame_put(pair.fds[1], &frame, "far");
	for (uint32_t seq = 0; seq <= far; seq++) {
		struct anynet_request *req = pair_irecv(&pair, in, sizeof(in), 0);

		frame = frame_data(seq, 0, 0, 5);
		if (seq < far)
			frame_put(pair.fds[0], &frame, "near");
		pair_finish(&req, 1, NULL);
		assert_string_equal(in, seq < far ? "near" : "far");
	}
}

/* With several tags it waits in its stream for the one before it, and no longer. */
static void test_a_later_message_goes_on_when_the_one_before_it_has_come(void **state)
{
	struct anynet_wire_frame first = frame_data(0, 1, ANYNET_FLAG_MULTI, 5),
				 second = frame_data(1, 2, ANYNET_FLAG_MULTI, 5);
	char in[2][8] = { "", "" };
	struct anynet_request *reqs[2];

	(void)state;
	pair_open_recv(&pair, 2);
	for (int i = 0; i < 2; i++)
		reqs[i] = pair_irecv(&pair, in[i], 8, 1 + i);
	frame_put(pair.fds[1], &second, "later");
	pair_idle(reqs[1]);
	frame_put(pair.fds[0], &first, "first");
	pair_finish(reqs, 2, NULL);
	assert_string_equal(in[0], "first");
	assert_string_equal(in[1], "later");
}

static void test_a_tail_is_no_part_of_the_message(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 0, ANYNET_FLAG_TAIL, 5);
	char in[2][8] = { "xxxxxx", "xxxxxx" };
	struct anynet_request *reqs[2];
	int sizes[2];

	(void)state;
	pair_open_recv(&pair, 1);
	for (int i = 0; i < 2; i++)
		reqs[i] = pair_irecv(&pair, in[i], 8, 0);
	frame_put(pair.fds[0], &frame, "first");
	frame.seq = frame.slot = 1;
	frame.size = frame.length = 0;
	frame_put(pair.fds[0], &frame, NULL);
	pair_finish(reqs, 2, sizes);
	assert_string_equal(in[0], "firstx");
	assert_string_equal(in[1], "xxxxxx");
	assert_int_equal(sizes[0], 5);
	assert_int_equal(sizes[1], 0);
}

/* Cut at every position of header, payload, tail and the next header. */
/* The sender's socket takes this many bytes, and the rest later. */
static void test_frames_leave_in_any_pieces(void **state)
{
	enum {
		FRAME = sizeof(struct anynet_wire_frame) + 6 + ANYNET_TAIL_BYTES
	};

	(void)state;
	for (size_t taken = 0; taken <= 2 * FRAME; taken++) {
		char in[2][8] = { "", "" };
		struct anynet_request *reqs[4];

		pair_open(&pair, 1);
		narrow_socket(pair.send->streams[0]->path.fd, taken);
		for (int i = 0; i < 2; i++) {
			reqs[i] = pair_irecv(&pair, in[i], 8, 0);
			reqs[2 + i] = pair_isend(&pair, i ? "worlds" : "hello", 6, 0);
		}
		pair_idle(reqs[1]);
		narrow_socket(-1, 0);
		pair_finish(reqs, 4, NULL);
		assert_string_equal(in[0], "hello");
		assert_memory_equal(in[1], "worlds", 6);
		pair_close(&pair);
	}
}

static void test_frames_arrive_in_any_pieces(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 0, ANYNET_FLAG_TAIL, 3);
	uint8_t wire[2 * (sizeof(frame) + 4)] = { 0 };

	(void)state;
	memcpy(wire, &frame, sizeof(frame));
	memcpy(wire + sizeof(frame), "abc", 3);
	frame.seq = frame.slot = 1;
	memcpy(wire + sizeof(wire) / 2, &frame, sizeof(frame));
	memcpy(wire + sizeof(wire) / 2 + sizeof(frame), "def", 3);
	for (size_t cut = 1; cut < sizeof(wire) - 1; cut++) {
		char in[2][4] = { "", "" };
		struct anynet_request *reqs[2];

		pair_open_recv(&pair, 1);
		reqs[0] = pair_irecv(&pair, in[0], 3, 0);
		reqs[1] = pair_irecv(&pair, in[1], 3, 0);
		assert_int_equal(send(pair.fds[0], wire, cut, 0), cut);
		pair_idle(reqs[1]);
		assert_int_equal(send(pair.fds[0], wire + cut, sizeof(wire) - cut, 0),
				 sizeof(wire) - cut);
		pair_finish(reqs, 2, NULL);
		assert_string_equal(in[0], "abc");
		assert_string_equal(in[1], "def");
		if (cut + 2 < sizeof(wire))
			pair_close(&pair);
	}
}

static void test_no_more_receives_are_taken_than_there_are_requests(void **state)
{
	struct anynet_request *reqs[ANYNET_REQUESTS], *more;
	char data[4];
	void *buffer = data;
	size_t bytes = sizeof(data);
	int tag = 0;

	(void)state;
	pair_open(&pair, 1);
	for (int i = 0; i < ANYNET_REQUESTS; i++)
		reqs[i] = pair_irecv(&pair, data, sizeof(data), 0);
	assert_int_equal(anynet_irecv(pair.recv, &(struct anynet_recv){ .n = 1, .data = &buffer, .bytes = &bytes, .tags = &tag }, &more), 0);
	assert_null(more);
	pair_finish((struct anynet_request *[]){ pair_isend(&pair, "x", 1, 0), reqs[0] }, 2, NULL);
	pair_irecv(&pair, data, sizeof(data), 0);
}

/* A queue pair's stream needs a place for the rest of a message whose beginning was unexpected. While a frame of
 * another stream arrives there, it stays, and no CTS is sent. */
static void test_no_cts_while_an_unexpected_frame_arrives(void **state)
{
	enum {
		CHUNK = 3000
	};
	struct anynet_wire_frame frame = frame_data(0, 2, ANYNET_FLAG_MULTI, CHUNK), ask, word;
	struct anynet_request *other, *req;
	uint8_t in[2 * CHUNK];
	char none[4];

	(void)state;
	pair_open_recv(&pair, 2);
	other = pair_irecv(&pair, none, sizeof(none), 1);
	frame.size = sizeof(in);
	ask = frame;
	ask.type = ANYNET_FRAME_ASK;
	ask.length = 0;
	frame_put(pair.fds[0], &frame, NULL);
	assert_int_equal(send(pair.fds[0], pair_out, CHUNK / 2, 0), CHUNK / 2);
	pair_idle(other);
	assert_int_equal(recv_asked((struct recv_comm *)pair.recv, pair.recv->streams[1], &ask), 0);
	req = pair_irecv(&pair, in, sizeof(in), 2);
	pair_idle(other);
	assert_false(frame_get(pair.fds[1], &word, NULL, 0));
	assert_int_equal(send(pair.fds[0], pair_out + CHUNK / 2, CHUNK / 2, 0), CHUNK / 2);
	pair_idle(other);
	assert_true(frame_get(pair.fds[1], &word, NULL, 0));
	assert_int_equal(word.type, ANYNET_FRAME_CTS);
	frame.offset = CHUNK;
	frame_put(pair.fds[0], &frame, pair_out + CHUNK);
	pair_finish(&req, 1, NULL);
	assert_memory_equal(in, pair_out, sizeof(in));
}

/* The second chunk has come first, as unexpected: it goes to the buffer as well, and the first one directly. */
static void test_unexpected_data_is_kept_wherever_it_is(void **state)
{
	enum {
		CHUNK = 3000
	};
	struct anynet_wire_frame frame = frame_data(0, 2, ANYNET_FLAG_MULTI, CHUNK);
	struct anynet_request *other, *req;
	struct anynet_wire_cts cts;
	uint8_t in[2 * CHUNK];
	char none[4];

	(void)state;
	pair_open_recv(&pair, 2);
	other = pair_irecv(&pair, none, sizeof(none), 1);
	frame.size = sizeof(in);
	frame.offset = CHUNK;
	frame_put(pair.fds[0], &frame, pair_out + CHUNK);
	pair_idle(other);
	memset(in, 0xee, sizeof(in));
	req = pair_irecv(&pair, in, sizeof(in), 2);
	recv_cts_of((struct recv_comm *)pair.recv, 0, &cts);
	frame.offset = 0;
	frame_put(pair.fds[1], &frame, pair_out);
	pair_finish(&req, 1, NULL);
	assert_memory_equal(in, pair_out, sizeof(in));
}

/* There is no memory for message 1 as unexpected, so it stays in its stream, until message 0, whose receive was posted
 * meanwhile, has arrived completely. Otherwise nothing behind it would ever arrive. */
static void test_a_message_becomes_unexpected_when_another_has_left(void **state)
{
	enum {
		HALF = 100
	};
	struct anynet_wire_frame first = frame_data(0, 2, ANYNET_FLAG_MULTI, 2 * HALF),
				 second = frame_data(1, 3, ANYNET_FLAG_MULTI, HALF),
				 third = frame_data(2, 1, ANYNET_FLAG_MULTI, 4);
	struct anynet_request *other, *req;
	char in[2 * HALF], word[4];

	(void)state;
	pair_open_recv(&pair, 2);
	other = pair_irecv(&pair, word, sizeof(word), 1);
	frame_put(pair.fds[0], &first, NULL);
	assert_int_equal(send(pair.fds[0], pair_out, HALF, 0), HALF);
	pair_idle(other);
	second.size = 64u << 20; /* everything that may be unexpected, unless it is the only one */
	frame_put(pair.fds[1], &second, pair_out);
	pair_idle(other);
	req = pair_irecv(&pair, in, sizeof(in), 2);
	pair_idle(other);
	assert_int_equal(send(pair.fds[0], pair_out + HALF, HALF, 0), HALF);
	frame_put(pair.fds[0], &third, "word");
	pair_finish((struct anynet_request *[]){ req, other }, 2, NULL);
	assert_memory_equal(in, pair_out, sizeof(in));
	assert_memory_equal(word, "word", sizeof(word));
}

/* A sender that has asked where to write a small message learns that frames take it, or goes over to TCP. */
static void test_what_was_asked_for_may_come_in_a_frame(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 2, ANYNET_FLAG_MULTI, 100), ask = frame,
				 last = frame_data(1, 1, ANYNET_FLAG_MULTI, 4);
	struct anynet_request *other;
	char in[100], word[4];

	(void)state;
	pair_open_recv(&pair, 2);
	other = pair_irecv(&pair, word, sizeof(word), 1);
	ask.type = ANYNET_FRAME_ASK;
	ask.length = 0;
	((struct recv_comm *)pair.recv)->order = RECV_BY_TAG;
	assert_int_equal(recv_asked((struct recv_comm *)pair.recv, pair.recv->streams[1], &ask), 0);
	frame_put(pair.fds[0], &frame, pair_out);
	pair_idle(other);
	frame_put(pair.fds[0], &last, "word");
	pair_finish((struct anynet_request *[]){ pair_irecv(&pair, in, sizeof(in), 2), other }, 2, NULL);
	assert_memory_equal(in, pair_out, sizeof(in));
}

/* Its message has arrived by the queue pair of stream 0, whose frames wait, and the sender has used the slot again. */
static void test_a_frame_waits_for_its_slot(void **state)
{
	struct anynet_wire_frame first = frame_data(0, 2, ANYNET_FLAG_MULTI, 100), rts = first,
				 second = frame_data(1, 1, ANYNET_FLAG_MULTI, 4);
	struct anynet_request *reqs[2];
	char in[100], word[4];

	(void)state;
	pair_open_recv(&pair, 2);
	reqs[0] = pair_irecv(&pair, in, sizeof(in), 2);
	reqs[1] = pair_irecv(&pair, word, sizeof(word), 1);
	rts.type = ANYNET_FRAME_RTS;
	rts.length = 0;
	frame_put(pair.fds[1], &rts, NULL);
	second.slot = first.slot;
	frame_put(pair.fds[1], &second, "word");
	pair_idle(reqs[1]);
	frame_put(pair.fds[0], &first, pair_out);
	pair_finish(reqs, 2, NULL);
	assert_memory_equal(in, pair_out, sizeof(in));
	assert_memory_equal(word, "word", sizeof(word));
}

/* Receives are numbered modulo 2^32: the first one without a CTS stays close to those in use, however many groups
 * follow. */
static void test_numbers_of_receives_stay_together(void **state)
{
	const struct recv_comm *comm;
	static const int tags[] = { 1, 2 };
	char in[3][2][16];

	(void)state;
	pair_open(&pair, 1);
	comm = (const struct recv_comm *)pair.recv;
	pair_finish((struct anynet_request *[]){ pair_irecv(&pair, in[0][0], 16, 1),
						 pair_isend(&pair, "x", 1, 1) },
		    2, NULL);
	for (int i = 0; i < 3; i++)
		pair_finish((struct anynet_request *[]){ irecv_group(2, in[i], tags),
							 pair_isend(&pair, "x", 1, 1),
							 pair_isend(&pair, "y", 1, 2) },
			    3, (int[4]){ 0 });
	assert_int_equal(comm->posted.all, 4);
	assert_int_equal(comm->posted.oldest, 4);
	assert_int_equal(comm->posted.clearable, 4);
}

/* The peer sends the same bytes twice: bytes that it has not sent must not be uninitialised memory, which
 * AddressSanitizer fills. */
static void test_bytes_that_were_never_sent_are_zeros(void **state)
{
	enum {
		CHUNK = 200
	};
	struct anynet_wire_frame frame = frame_data(0, 2, ANYNET_FLAG_MULTI, CHUNK);
	static const char zeros[CHUNK];
	struct anynet_request *other, *req;
	char in[2 * CHUNK], none[4];
	int size;

	(void)state;
	pair_open_recv(&pair, 1);
	other = pair_irecv(&pair, none, sizeof(none), 1);
	frame.size = sizeof(in);
	frame_put(pair.fds[0], &frame, pair_out);
	frame_put(pair.fds[0], &frame, pair_out);
	pair_idle(other);
	memset(in, 0xee, sizeof(in));
	req = pair_irecv(&pair, in, sizeof(in), 2);
	pair_finish(&req, 1, &size);
	assert_int_equal(size, sizeof(in));
	assert_memory_equal(in, pair_out, CHUNK);
	assert_memory_equal(in + CHUNK, zeros, CHUNK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_prestate_setup_teardown(name, pair_setup, pair_teardown, &pair)
		TEST(test_every_size_arrives_over_one_stream),
		TEST(test_every_size_arrives_over_three_streams),
		TEST(test_messages_of_one_tag_fill_receives_in_order),
		TEST(test_only_the_first_receive_sets_the_tag),
		TEST(test_a_message_far_ahead_waits),
		TEST(test_a_later_message_may_arrive_first_on_another_stream),
		TEST(test_a_later_message_goes_on_when_the_one_before_it_has_come),
		TEST(test_a_group_is_filled_by_tag),
		TEST(test_a_tag_repeated_in_a_group_fills_in_posting_order),
		TEST(test_a_message_before_its_receive_does_not_block_those_behind_it),
		TEST(test_empty_messages_set_aside_have_a_bound),
		TEST(test_one_message_after_the_other_may_come_before_its_receive),
		TEST(test_a_receive_may_come_in_the_middle_of_its_message),
		TEST(test_many_tags_over_streams_stay_in_order),
		TEST(test_a_large_message_among_tags_is_announced_and_cleared),
		TEST(test_an_announced_message_is_cleared_when_its_receive_is_posted),
		TEST(test_many_words_at_once_are_told_whole),
		TEST(test_large_messages_of_several_tags_arrive),
		TEST(test_a_message_read_before_its_receive_was_posted_is_not_forgotten),
		TEST(test_a_tail_is_no_part_of_the_message),
		TEST(test_frames_leave_in_any_pieces),
		TEST(test_frames_arrive_in_any_pieces),
		TEST(test_no_more_receives_are_taken_than_there_are_requests),
		TEST(test_no_cts_while_an_unexpected_frame_arrives),
		TEST(test_unexpected_data_is_kept_wherever_it_is),
		TEST(test_a_message_becomes_unexpected_when_another_has_left),
		TEST(test_what_was_asked_for_may_come_in_a_frame),
		TEST(test_a_frame_waits_for_its_slot),
		TEST(test_numbers_of_receives_stay_together),
		TEST(test_bytes_that_were_never_sent_are_zeros),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A sender's use of the position that a receiver reports: it is checked against what was sent, and acknowledged data is
 * never retransmitted. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/message/stream_log.h"
#include "unit/carrier.h"
#include "unit/narrow.h"

#define SMALL LOCAL_EAGER_BYTES
#define LARGE 3000

static struct pair pair;

static int teardown(void **state)
{
	narrow_socket(-1, 0);
	return pair_teardown(state);
}

static void put_ack(uint16_t slot)
{
	frame_put_ack(pair.fds[0], &slot, 1);
	assert_int_equal(comm_turn(pair.send), 0);
}

/* The next frame has to be DATA of message `seq`, from `offset` to its end. */
static struct anynet_wire_frame expect_data(uint32_t seq, uint64_t offset)
{
	struct anynet_wire_frame frame = pair_expect(&pair, 0, ANYNET_FRAME_DATA, seq);

	assert_int_equal(frame.offset, offset);
	assert_int_equal(frame.length, frame.size - offset);
	return frame;
}

static void expect_nothing(void)
{
	struct anynet_wire_frame frame;

	for (int i = 0; i < 5; i++)
		assert_int_equal(comm_turn(pair.send), 0);
	assert_false(frame_get(pair.fds[0], &frame, pair_in, sizeof(pair_in)));
}

/* The last reported position is impossible: the comm has failed. */
static void expect_refused(void)
{
	assert_int_equal(comm_error(pair.send), -EPROTO);
	assert_int_equal(capture_count(CAPTURE_WARN, "position in the stream"), 1);
	assert_null(pair.send->streams[0]);
	capture_forget();
}

/* --- positions --- */

struct stream {
	bool checksum;
	bool announced; /* the last message waits for its CTS, after its RTS */
	size_t taken;   /* bytes the socket has taken; 0 = all */
};

/* Frame 0 is a copied message, frame 1 a large one, or its RTS. */
static void resume_at(const struct stream *stream, uint64_t frames, uint32_t part)
{
	local_cfg.checksum = stream->checksum;
	local_cfg.chunk_bytes = LARGE + ANYNET_PART_ALIGN;
	pair_open_send(&pair, 1);
	if (stream->taken)
		narrow_socket(pair.send->streams[0]->path.fd, stream->taken);
	pair_isend(&pair, pair_out, SMALL, 1);
	pair_isend(&pair, pair_out, LARGE, stream->announced ? 2 : 1);
	for (int i = 0; i < 5; i++)
		assert_int_equal(comm_turn(pair.send), 0);
	if (stream->taken)
		assert_int_equal(narrow_room(), 0);
	narrow_socket(-1, 0);
	resume_send(&pair, 0, frames, part);
}

static void possible(struct stream stream, uint64_t frames, uint32_t part)
{
	resume_at(&stream, frames, part);
	assert_int_equal(comm_turn(pair.send), 0);
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 0);
	pair_close(&pair);
}

static void impossible(struct stream stream, uint64_t frames, uint32_t part)
{
	resume_at(&stream, frames, part);
	if (!comm_error(pair.send))
		fail_msg("frame %d, offset %u was believed", (int)frames, part);
	expect_refused();
	pair_close(&pair);
}

static void test_a_position_beyond_what_was_sent_is_impossible(void **state)
{
	const struct stream all = { 0 };
	const struct stream in_part = { .taken = sizeof(struct anynet_wire_frame) + SMALL / 2 };
	const struct stream without_tail = { .taken = sizeof(struct anynet_wire_frame) + SMALL };

	(void)state;
	possible(all, 0, 0);
	possible(all, 1, 0);
	possible(all, 2, 0);
	impossible(all, 3, 0);
	impossible(all, (uint64_t)1 << 32, 0);
	impossible(all, UINT64_MAX, 0);
	possible(in_part, 0, 0);
	impossible(in_part, 1, 0);
	possible(without_tail, 0, 0);
	possible(without_tail, 1, 0);
	impossible(without_tail, 2, 0);
}

static void test_a_part_of_what_has_no_parts_is_impossible(void **state)
{
	(void)state;
	possible((struct stream){ 0 }, 1, ANYNET_PART_ALIGN);
	impossible((struct stream){ 0 }, 1, ANYNET_PART_ALIGN + 1);
	impossible((struct stream){ 0 }, 1, 1);
	/* A copied message; after the last frame; an announcement; with a checksum after it. */
	impossible((struct stream){ 0 }, 0, ANYNET_PART_ALIGN);
	impossible((struct stream){ 0 }, 2, ANYNET_PART_ALIGN);
	impossible((struct stream){ .announced = true }, 1, ANYNET_PART_ALIGN);
	impossible((struct stream){ .checksum = true }, 1, ANYNET_PART_ALIGN);
	possible((struct stream){ .checksum = true }, 1, 0);
}

static void test_a_part_that_was_not_sent_is_impossible(void **state)
{
	const size_t first = 2 * sizeof(struct anynet_wire_frame) + SMALL + ANYNET_TAIL_BYTES;
	const uint32_t last = LARGE / ANYNET_PART_ALIGN * ANYNET_PART_ALIGN;

	(void)state;
	possible((struct stream){ 0 }, 1, last);
	impossible((struct stream){ 0 }, 1, last + ANYNET_PART_ALIGN);
	impossible((struct stream){ 0 }, 1, UINT32_MAX & ~(uint32_t)(ANYNET_PART_ALIGN - 1));
	/* The socket took the payload up to here. */
	possible((struct stream){ .taken = first + 1280 }, 1, 1280);
	impossible((struct stream){ .taken = first + 1279 }, 1, 1280);
	impossible((struct stream){ .taken = first - 1 }, 1, ANYNET_PART_ALIGN);
}

/* A part counts from the start of the message, also in a frame that continued in its middle. */
static void test_parts_are_counted_from_the_beginning_of_the_message(void **state)
{
	static const uint32_t parts[] = { 256, 256, 0, 1024, 1024, 2944 };
	uint32_t at = 0;

	(void)state;
	pair_open_send(&pair, 1);
	pair_idle(pair_isend(&pair, pair_out, LARGE, 0));
	expect_data(0, 0);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		resume_send(&pair, 0, 0, parts[i]);
		assert_int_equal(comm_turn(pair.send), 0);
		at = parts[i] ? parts[i] : at;
		expect_data(0, at);
	}
}

/* --- acknowledged --- */

static void test_acknowledged_data_is_not_retransmitted(void **state)
{
	struct anynet_request *reqs[3];
	struct anynet_wire_frame frame;

	(void)state;
	pair_open_send(&pair, 1);
	for (int i = 0; i < 3; i++)
		reqs[i] = pair_isend(&pair, pair_out, LARGE, 0);
	pair_idle(reqs[0]);
	expect_data(0, 0);
	frame = expect_data(1, 0);
	put_ack(frame.slot);
	pair_finish(&reqs[1], 1, NULL);
	/* Frames are consumed in order: so was the previous one. */
	resume_send(&pair, 0, 2, 0);
	pair_idle(reqs[0]);
	expect_data(2, 0);
	expect_nothing();
	resume_send(&pair, 0, 1, 0);
	expect_refused();
}

/* Small messages are acknowledged late, so this may be all that the sender hears for long. */
static void test_a_position_behind_it_shows_that_ready_has_arrived(void **state)
{
	(void)state;
	pair_open_send(&pair, 1);
	send_ready(pair.send);
	assert_int_equal(comm_turn(pair.send), 0);
	resume_send(&pair, 0, 0, 0);
	assert_false(send_comm_ready(pair.send));
	assert_int_equal(comm_turn(pair.send), 0);
	resume_send(&pair, 0, 1, 0);
	assert_true(send_comm_ready(pair.send));
}

static void send_three_large(void)
{
	pair_open_send(&pair, 1);
	for (int i = 0; i < 3; i++)
		pair_isend(&pair, pair_out, LARGE, 0);
	assert_int_equal(comm_turn(pair.send), 0);
}

/* The log still has these frames: they are impossible because one of them is acknowledged. */
static void test_acknowledged_data_cannot_be_requested(void **state)
{
	(void)state;
	for (uint64_t from = 0; from < 2; from++) {
		send_three_large();
		expect_data(0, 0);
		put_ack(expect_data(1, 0).slot);
		assert_int_equal(pair.send->streams[0]->log.first, 0);
		resume_send(&pair, 0, from, 0);
		expect_refused();
		pair_close(&pair);
	}
}

/* The receiver cannot take back that frames were consumed. */
static void test_a_position_before_the_last_one_is_impossible(void **state)
{
	(void)state;
	for (uint64_t from = 0; from < 2; from++) {
		send_three_large();
		resume_send(&pair, 0, 2, 0);
		assert_int_equal(comm_error(pair.send), 0);
		resume_send(&pair, 0, from, 0);
		expect_refused();
		pair_close(&pair);
	}
}

/* Its slot belongs to another message by now, its memory too. */
static void test_a_slot_used_again_is_not_taken_for_the_old_message(void **state)
{
	struct anynet_request *req;
	struct anynet_wire_frame frame;

	(void)state;
	pair_open_send(&pair, 1);
	req = pair_isend(&pair, pair_out, LARGE, 0);
	pair_idle(req);
	frame = expect_data(0, 0);
	put_ack(frame.slot);
	pair_finish(&req, 1, NULL);
	req = pair_isend(&pair, pair_out, LARGE, 0);
	pair_idle(req);
	assert_int_equal(expect_data(1, 0).slot, frame.slot);
	resume_send(&pair, 0, 1, 0);
	pair_idle(req);
	expect_data(1, 0);
	resume_send(&pair, 0, 0, 0);
	expect_refused();
}

/* --- sends that are done --- */

/* They are retransmitted although NCCL does not call: the background thread comes as long as there is something. */
static void test_what_is_sent_again_has_attention_until_it_is_out(void **state)
{
	struct anynet_request *reqs[3];

	(void)state;
	pair_open_send(&pair, 1);
	for (int i = 0; i < 3; i++)
		reqs[i] = pair_isend(&pair, pair_out, SMALL, 0);
	pair_finish(reqs, 3, NULL);
	comm_attend(pair.send);
	assert_false(atomic_load(&pair.send->attention));
	resume_send(&pair, 0, 0, 0);
	for (size_t room = 0; room < 3 * SMALL; room += SMALL / 2) {
		narrow_socket(pair.send->streams[0]->path.fd, SMALL / 2);
		atomic_store(&pair.send->attention, true);
		assert_int_equal(comm_turn(pair.send), 0);
		assert_true(atomic_load(&pair.send->attention));
	}
	narrow_socket(-1, 0);
	assert_int_equal(comm_turn(pair.send), 0);
	comm_attend(pair.send);
	assert_false(atomic_load(&pair.send->attention));
	for (uint32_t seq = 0; seq < 3; seq++)
		expect_data(seq, 0);
}

/* --- the log --- */

static void open_log(void)
{
	local_cfg.replay_bytes = 64 * LOCAL_RING_BYTES;
	pair_open_send(&pair, 1);
}

static void resume_and_expect(uint32_t from, uint32_t end)
{
	resume_send(&pair, 0, from, 0);
	for (uint32_t turn = from; turn != end; turn++)
		assert_int_equal(comm_turn(pair.send), 0);
	for (uint32_t seq = from; seq != end; seq++)
		assert_int_equal(expect_data(seq, 0).size, seq % 100);
	expect_nothing();
}

static void test_the_log_grows_with_what_is_not_acknowledged(void **state)
{
	enum {
		BEFORE = STREAM_LOG_FRAMES - 10, /* acknowledged: it does not begin at its start */
		COUNT = BEFORE + ANYNET_SENDS - 1
	};
	static const uint32_t from[] = { BEFORE,    BEFORE + 1, STREAM_LOG_FRAMES, 2 * STREAM_LOG_FRAMES,
					 COUNT - 1, COUNT };

	(void)state;
	assert_true(COUNT - BEFORE > 3 * STREAM_LOG_FRAMES);
	open_log();
	for (uint32_t seq = 0; seq < COUNT; seq++) {
		struct anynet_wire_frame frame;

		pair_send(&pair, pair_out, seq % 100);
		frame = expect_data(seq, 0);
		if (seq < BEFORE)
			put_ack(frame.slot);
	}
	for (size_t i = 0; i < ARRAY_SIZE(from); i++)
		resume_and_expect(from[i], COUNT);
	/* Here it continues, with its own numbers. */
	pair_send(&pair, pair_out, COUNT % 100);
	expect_data(COUNT, 0);
	resume_and_expect(COUNT, COUNT + 1);
}

static void test_the_log_forgets_what_is_acknowledged(void **state)
{
	enum {
		ROUNDS = 20,
		EACH = STREAM_LOG_FRAMES / 2
	};
	const struct anynet_stream *stream;
	uint16_t slots[EACH];

	(void)state;
	open_log();
	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (uint32_t i = 0; i < EACH; i++) {
			pair_send(&pair, pair_out, SMALL);
			slots[i] = expect_data(round * EACH + i, 0).slot;
		}
		for (uint32_t i = 0; i < EACH; i++)
			put_ack(slots[i]);
	}
	stream = pair.send->streams[0];
	assert_int_equal(stream->log.room, STREAM_LOG_FRAMES);
	assert_int_equal(stream->log.end, ROUNDS * EACH);
	resume_send(&pair, 0, ROUNDS * EACH, 0);
	expect_nothing();
	resume_send(&pair, 0, 0, 0);
	expect_refused();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) \
	cmocka_unit_test_prestate_setup_teardown(name, pair_setup_recovery, teardown, &pair)
		TEST(test_a_position_beyond_what_was_sent_is_impossible),
		TEST(test_a_position_behind_it_shows_that_ready_has_arrived),
		TEST(test_a_part_of_what_has_no_parts_is_impossible),
		TEST(test_a_part_that_was_not_sent_is_impossible),
		TEST(test_parts_are_counted_from_the_beginning_of_the_message),
		TEST(test_acknowledged_data_is_not_retransmitted),
		TEST(test_acknowledged_data_cannot_be_requested),
		TEST(test_a_position_before_the_last_one_is_impossible),
		TEST(test_a_slot_used_again_is_not_taken_for_the_old_message),
		TEST(test_what_is_sent_again_has_attention_until_it_is_out),
		TEST(test_the_log_grows_with_what_is_not_acknowledged),
		TEST(test_the_log_forgets_what_is_acknowledged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

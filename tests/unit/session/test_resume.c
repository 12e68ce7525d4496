/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cut stream continues exactly at the receiver's position: one small stream with all kinds of frames, cut at every
 * byte, in every way in which a connection can end.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/check.h"
#include "unit/exchange.h"
#include "unit/narrow.h"

#define HEADER_BYTES sizeof(struct anynet_wire_frame)
#define STEP         (TEST_SANITIZED ? 3 : 1) /* bytes between cuts */

enum ending {
	NOTICED, /* both sides read everything that was transferred */
	FENCED,  /* the receiver has read all of it, and learns of the cut by the hello */
	UNREAD,  /* it has not read all of it either */
	ENDINGS,
	IN_TURN = ENDINGS,
};

struct cut {
	enum carrier_way way;
	unsigned stream;
	uint64_t at; /* bytes of that direction that pass */
	enum ending ending;
	bool narrow;   /* the sender's socket takes no more */
	unsigned lost; /* most answers that do not reach the sender */
};

static struct exchange_record reference; /* the stream without a cut */

static int teardown(void **state)
{
	narrow_socket(-1, 0);
	return exchange_teardown(state);
}

/* --- the position of a cut --- */

struct place {
	uint64_t frames;
	uint32_t part;
	size_t at; /* in the reference: start of that frame */
};

static size_t frame_bytes(const struct anynet_wire_frame *frame)
{
	if (frame->type != ANYNET_FRAME_DATA)
		return HEADER_BYTES;
	return HEADER_BYTES + frame->length + (frame->flags & ANYNET_FLAG_CRC ? 4 : 0) +
	       (frame->flags & ANYNET_FLAG_TAIL ? 1 : 0);
}

static struct anynet_wire_frame frame_at(size_t at)
{
	struct anynet_wire_frame frame;

	memcpy(&frame, reference.tape + at, sizeof(frame));
	return frame;
}

/* The receiver's position after the first `bytes` of the stream. */
static struct place place_after(uint64_t bytes)
{
	struct place place = { 0, 0, 0 };

	while (place.at + HEADER_BYTES <= bytes) {
		struct anynet_wire_frame frame = frame_at(place.at);
		size_t end = place.at + frame_bytes(&frame);
		uint32_t placed = (uint32_t)(bytes - place.at - HEADER_BYTES);

		if (end - (frame.flags & ANYNET_FLAG_TAIL ? 1 : 0) > bytes) {
			if (!(frame.flags & (ANYNET_FLAG_TAIL | ANYNET_FLAG_CRC)) &&
			    placed >= ANYNET_PART_ALIGN)
				place.part = (uint32_t)frame.offset +
					     placed / ANYNET_PART_ALIGN * ANYNET_PART_ALIGN;
			break;
		}
		place.frames++;
		place.at = end;
	}
	return place;
}

static size_t place_of_frame(uint64_t frames)
{
	size_t at = 0;

	for (; frames; frames--) {
		struct anynet_wire_frame frame = frame_at(at);

		at += frame_bytes(&frame);
	}
	return at;
}

/* The new connection carried the stream from the position in the WELCOME on, each frame once. */
static void check_tape(const struct carrier_stream *stream, const struct anynet_wire_hello *welcome)
{
	size_t at = place_of_frame(welcome->frames), skipped = 0;
	struct anynet_wire_frame first, wanted;

	if (welcome->part) {
		wanted = frame_at(at);
		skipped = welcome->part - wanted.offset;
		wanted.offset += skipped;
		wanted.length -= (uint32_t)skipped;
		assert_true(stream->tape_bytes >= HEADER_BYTES);
		memcpy(&first, stream->tape, sizeof(first));
		assert_memory_equal(&first, &wanted, sizeof(first));
		at += HEADER_BYTES + skipped;
	}
	assert_int_equal(stream->tape_bytes,
			 reference.bytes - at + (welcome->part ? HEADER_BYTES : 0));
	assert_memory_equal(stream->tape + (welcome->part ? HEADER_BYTES : 0), reference.tape + at,
			    reference.bytes - at);
}

/* --- one run --- */

static void start(const struct exchange_shape *shape, const struct cut *cut)
{
	exchange_open(shape);
	if (cut->narrow)
		narrow_socket(exchange.carrier.pair.send->streams[cut->stream]->path.fd,
			      (size_t)cut->at);
	else
		exchange.carrier.streams[cut->stream].left[cut->way] = cut->at;
	exchange_send();
}

static bool is_reached(const struct cut *cut)
{
	return cut->narrow ? !narrow_room() : !exchange.carrier.streams[cut->stream].left[cut->way];
}

static void mend(const struct cut *cut, struct anynet_wire_hello *welcome)
{
	struct anynet_wire_hello again;

	if (cut->ending == NOTICED) {
		carrier_cut(&exchange.carrier, cut->stream);
		for (int i = 0; i < 5; i++)
			assert_int_equal(comm_turn(exchange.carrier.pair.recv), 0);
	} else {
		carrier_cut_sender(&exchange.carrier, cut->stream);
	}
	narrow_socket(-1, 0);
	carrier_noticed(&exchange.carrier, cut->stream);
	carrier_hello(&exchange.carrier, cut->stream, welcome);
	for (uint64_t i = 0, lost = cut->lost ? 1 + cut->at % cut->lost : 0; i < lost; i++) {
		if (cut->ending == NOTICED) {
			carrier_cut(&exchange.carrier, cut->stream);
			assert_int_equal(comm_turn(exchange.carrier.pair.recv), 0);
		}
		carrier_hello(&exchange.carrier, cut->stream, &again);
		assert_int_equal(again.frames, welcome->frames);
		assert_int_equal(again.part, welcome->part);
	}
	carrier_welcome(&exchange.carrier, cut->stream, welcome);
}

/* One step of everything; returns whether anything was transferred. */
static bool step(const struct cut *cut, bool cut_is_due)
{
	bool moved;

	comm_turn(exchange.carrier.pair.send);
	moved = carrier_carry(&exchange.carrier) > 0;
	if (cut_is_due && cut->ending == UNREAD && is_reached(cut))
		return moved;
	comm_turn(exchange.carrier.pair.recv);
	comm_transmit(exchange.carrier.pair.recv);
	moved |= carrier_carry(&exchange.carrier) > 0;
	moved |= exchange_take_done() > 0;
	return moved;
}

static void run(const struct exchange_shape *shape, const struct cut *cut,
		struct anynet_wire_hello *welcome)
{
	bool due = true;

	start(shape, cut);
	for (int turn = 0, quiet = 0; due || !exchange_all_done(); turn++) {
		assert_true(turn < EXCHANGE_TURNS_MAX);
		quiet = step(cut, due) ? 0 : quiet + 1;
		if (quiet < 2 && !(due && cut->ending == UNREAD && is_reached(cut)))
			continue;
		if (due && (is_reached(cut) || exchange.posted)) {
			mend(cut, welcome);
			due = false;
		} else if (!exchange.posted) {
			exchange_post_late();
		}
		quiet = 0;
	}
	carrier_settle(&exchange.carrier);
	exchange_check();
}

/* As run(), for a known stream. */
static void run_and_check(const struct exchange_shape *shape, const struct cut *cut)
{
	struct place place = place_after(cut->at);
	struct anynet_wire_hello welcome;

	run(shape, cut, &welcome);
	if (cut->way == TO_RECEIVER && !shape->late && cut->ending != UNREAD) {
		assert_int_equal(welcome.frames, place.frames);
		assert_int_equal(welcome.part, place.part);
	}
	check_tape(&exchange.carrier.streams[0], &welcome);
	exchange_close();
}

static void cut_everywhere(const struct exchange_shape *shape, struct cut cut)
{
	bool in_turn = cut.ending == IN_TURN;
	uint64_t bytes;

	exchange_learn(shape, &reference);
	bytes = cut.way == TO_RECEIVER ? reference.bytes : reference.bytes_back;
	assert_true(bytes > 2 * HEADER_BYTES);
	for (cut.at = 0; cut.at <= bytes; cut.at += STEP) {
		if (in_turn)
			cut.ending = cut.at / STEP % ENDINGS;
		run_and_check(shape, &cut);
	}
}

/* --- tests --- */

static void test_a_stream_cut_at_any_byte_goes_on_from_there(void **state)
{
	(void)state;
	for (int ending = 0; ending < ENDINGS; ending++)
		cut_everywhere(&(struct exchange_shape){ .streams = 1 },
			       (struct cut){ .ending = ending });
}

static void test_with_checksums_it_goes_on_from_the_frame_that_was_cut(void **state)
{
	(void)state;
	cut_everywhere(&(struct exchange_shape){ .streams = 1, .checksum = true },
		       (struct cut){ .ending = IN_TURN });
}

/* Parked frames are lost with their connection, unexpected messages are not. */
static void test_late_receives_resume_at_any_byte(void **state)
{
	(void)state;
	cut_everywhere(&(struct exchange_shape){ .streams = 1, .late = true },
		       (struct cut){ .ending = IN_TURN });
}

static void test_a_socket_that_takes_no_more_may_be_cut_at_any_byte(void **state)
{
	(void)state;
	for (int checksum = 0; checksum < 2; checksum++)
		cut_everywhere(&(struct exchange_shape){ .streams = 1, .checksum = checksum },
			       (struct cut){ .narrow = true });
}

static void test_acks_and_cts_may_be_cut_at_any_byte(void **state)
{
	(void)state;
	for (int checksum = 0; checksum < 2; checksum++)
		for (int late = 0; late < 2; late++)
			cut_everywhere(&(struct exchange_shape){ 1, checksum, late },
				       (struct cut){ .way = TO_SENDER });
}

/* Answers are lost, so the position is requested again and again. */
static void test_a_lost_welcome_changes_no_position(void **state)
{
	(void)state;
	cut_everywhere(&(struct exchange_shape){ .streams = 1 },
		       (struct cut){ .ending = IN_TURN, .lost = 2 });
}

/* A sender that cannot know that its BYE has been read, and dials again, is told so. */
static void test_a_stream_that_has_ended_is_gone(void **state)
{
	const struct anynet_wire_frame bye = { .type = ANYNET_FRAME_BYE };
	struct anynet_wire_hello answer;
	struct pair pair;

	pair_setup_recovery(state);
	pair_open_recv(&pair, 2);
	frame_put(pair.fds[0], &bye, NULL);
	assert_int_equal(comm_turn(pair.recv), 0);
	pair_hang_up(&pair, 0);
	assert_int_equal(comm_turn(pair.recv), 0);
	assert_null(pair.recv->streams[0]);
	assert_int_equal(resume_recv(&pair, 0, 1, &answer), -1);
	assert_int_equal(answer.status, ANYNET_STATUS_GONE);
	assert_true(stream_works(pair.recv->streams[1]));
	pair_close(&pair);
}

static void test_one_of_two_streams_may_be_cut_anywhere(void **state)
{
	struct anynet_wire_hello welcome;

	(void)state;
	for (int checksum = 0; checksum < 2; checksum++) {
		struct exchange_shape shape = { 2, checksum, checksum };

		for (unsigned stream = 0; stream < 2; stream++) {
			struct cut cut = { .stream = stream, .at = stream };

			exchange_learn(&shape, &reference);
			for (; cut.at <= 1000; cut.at += 2 * STEP) {
				cut.ending = cut.at / STEP % ENDINGS;
				run(&shape, &cut, &welcome);
				exchange_close();
			}
		}
	}
}

/* No connection lasts long, so most frames need several: received data is counted from the start of the message,
 * whichever frames carried it. */
static void test_connections_of_few_bytes_bring_it_all_in_the_end(void **state)
{
	enum {
		LEAST = HEADER_BYTES + EXCHANGE_EAGER_BYTES + ANYNET_CRC_BYTES + ANYNET_TAIL_BYTES
	};

	(void)state;
	for (int checksum = 0; checksum < 2; checksum++) {
		for (uint64_t each = LEAST; each < 4 * LEAST; each += 7) {
			start(&(struct exchange_shape){ 1, checksum, false },
			      &(struct cut){ .at = each });
			for (int turn = 0; !exchange_all_done(); turn++) {
				assert_true(turn < EXCHANGE_TURNS_MAX);
				carrier_settle(&exchange.carrier);
				exchange_take_done();
				if (exchange.carrier.streams[0].left[TO_RECEIVER])
					continue;
				carrier_mend(&exchange.carrier, 0);
				exchange.carrier.streams[0].left[TO_RECEIVER] = each;
			}
			exchange_check();
			exchange_close();
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, exchange_setup, teardown)
		TEST(test_a_stream_cut_at_any_byte_goes_on_from_there),
		TEST(test_with_checksums_it_goes_on_from_the_frame_that_was_cut),
		TEST(test_late_receives_resume_at_any_byte),
		TEST(test_a_socket_that_takes_no_more_may_be_cut_at_any_byte),
		TEST(test_acks_and_cts_may_be_cut_at_any_byte),
		TEST(test_a_lost_welcome_changes_no_position),
		TEST(test_a_stream_that_has_ended_is_gone),
		TEST(test_one_of_two_streams_may_be_cut_anywhere),
		TEST(test_connections_of_few_bytes_bring_it_all_in_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

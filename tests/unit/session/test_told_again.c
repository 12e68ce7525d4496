/* SPDX-License-Identifier: Apache-2.0 */
/* Acknowledgements and CTS that may be lost with a stream's connection: repeated once on that stream, and no more once
 * the sender is known to have them; late ones do no harm. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/carrier.h"
#include "unit/narrow.h"

static struct pair pair;

static int teardown(void **state)
{
	narrow_socket(-1, 0);
	return pair_teardown(state);
}

/* --- receiver: the test sends, on stream 1; the receiver answers on stream 0 --- */

static void turns(void)
{
	for (int i = 0; i < 5; i++) {
		assert_int_equal(comm_turn(pair.recv), 0);
		assert_int_equal(comm_transmit(pair.recv), 0);
	}
}

static bool told(unsigned stream, struct anynet_wire_frame *frame)
{
	turns();
	return word_get(pair.fds[stream], frame, pair_in, ANYNET_ACK_BYTES);
}

static void told_nothing(void)
{
	struct anynet_wire_frame frame;

	for (unsigned i = 0; i < pair.streams; i++)
		assert_false(told(i, &frame));
}

static void told_once(unsigned stream, enum anynet_frame_type type, uint16_t slot, uint32_t seq)
{
	struct anynet_wire_frame frame;

	assert_true(told(stream, &frame));
	assert_int_equal(frame.type, type);
	assert_int_equal(frame.length, 0);
	assert_int_equal(frame.slot, slot);
	assert_int_equal(frame.seq, seq);
}

/* The next frame is a bitmap with this slot only. */
static void told_by_bitmap(unsigned stream, uint16_t slot)
{
	struct anynet_wire_frame frame;

	assert_true(told(stream, &frame));
	assert_int_equal(frame.type, ANYNET_FRAME_ACK);
	assert_int_equal(frame.length, ANYNET_ACK_BYTES);
	for (unsigned i = 0; i < ANYNET_WIRE_SLOTS; i++)
		assert_int_equal(pair_in[i / 8] >> i % 8 & 1, i == slot);
}

static void put_message(unsigned stream, uint32_t seq, uint16_t slot)
{
	struct anynet_wire_frame frame = frame_data(seq, 0, ANYNET_FLAG_ACK, 8);
	struct anynet_request *req = pair_irecv(&pair, pair_in, 8, 0);

	frame.slot = slot;
	frame_put(pair.fds[stream], &frame, pair_out);
	pair_finish(&req, 1, NULL);
}

static void test_a_lost_ack_is_told_again_on_its_stream(void **state)
{
	(void)state;
	pair_open_recv(&pair, 3);
	put_message(1, 0, 205); /* acknowledged on stream 0 */
	turns();
	for (int again = 0; again < 3; again++) {
		resume_recv_ok(&pair, 0, NULL);
		told_once(0, ANYNET_FRAME_ACK, 205, 0);
		told_nothing();
	}
	/* It was not sent there. */
	resume_recv_ok(&pair, 1, NULL);
	resume_recv_ok(&pair, 2, NULL);
	told_nothing();
}

/* Message 0 has arrived, and this much of its acknowledgement is sent, on stream 0. */
static void tell_in_part(size_t bytes)
{
	pair_open_recv(&pair, 2);
	narrow_socket(pair.recv->streams[0]->path.fd, bytes);
	put_message(1, 0, 205);
	turns();
	assert_int_equal(narrow_room(), 0);
	narrow_socket(-1, 0);
}

static void test_a_frame_half_sent_is_repeated_completely(void **state)
{
	(void)state;
	tell_in_part(10);
	resume_recv_ok(&pair, 0, NULL);
	told_once(0, ANYNET_FRAME_ACK, 205, 0);
	told_nothing();
}

static void test_a_heartbeat_waits_for_the_end_of_a_frame(void **state)
{
	uint8_t bytes[2 * sizeof(struct anynet_wire_frame) + ANYNET_ACK_BYTES];
	struct anynet_stream *stream;
	struct anynet_wire_frame header;

	(void)state;
	tell_in_part(10);
	stream = pair.recv->streams[0];
	assert_int_equal(recv(pair.fds[0], bytes, sizeof(bytes), MSG_DONTWAIT), 10);
	stream->ops->ping(stream); /* nothing is in flight, except what is not sent yet */
	turns();
	assert_int_equal(recv(pair.fds[0], bytes + 10, sizeof(bytes) - 10, MSG_DONTWAIT),
			 sizeof(header) + ANYNET_ACK_BYTES - 10);
	memcpy(&header, bytes, sizeof(header));
	assert_int_equal(header.type, ANYNET_FRAME_ACK);
	assert_int_equal(header.length, ANYNET_ACK_BYTES);
	stream->ops->ping(stream);
	assert_int_equal(recv(pair.fds[0], bytes, sizeof(bytes), MSG_DONTWAIT), sizeof(header));
	assert_int_equal(bytes[0], ANYNET_FRAME_PING);
}

/* When the sender uses the slot again it has received the acknowledgement. */
static void test_a_slot_used_again_needs_no_word_about_before(void **state)
{
	(void)state;
	pair_open_recv(&pair, 2);
	put_message(1, 0, 5);
	told_by_bitmap(0, 5);
	put_message(1, 1, 5);
	told_by_bitmap(0, 5);
	resume_recv_ok(&pair, 0, NULL);
	told_once(0, ANYNET_FRAME_ACK, 5, 1);
	told_nothing();
}

/* No receive is posted for it yet: it concerns the slot all the same. */
static void test_a_message_that_waits_in_its_stream_confirms_too(void **state)
{
	struct anynet_wire_frame frame = frame_data(1, 0, ANYNET_FLAG_ACK, 8);

	(void)state;
	pair_open_recv(&pair, 2);
	put_message(1, 0, 5);
	told_by_bitmap(0, 5);
	frame.slot = 5;
	frame_put(pair.fds[1], &frame, pair_out);
	turns();
	resume_recv_ok(&pair, 0, NULL);
	told_nothing();
}

static void test_an_ack_moves_to_the_stream_that_it_was_told_on_last(void **state)
{
	(void)state;
	pair_open_recv(&pair, 2);
	pair_hang_up(&pair, 0);
	turns();
	assert_int_equal(pair.recv->streams[0]->path.fd, -1);
	put_message(1, 0, 9);
	told_by_bitmap(1, 9);
	resume_recv_ok(&pair, 0, NULL);
	told_nothing();
	resume_recv_ok(&pair, 1, NULL);
	told_once(1, ANYNET_FRAME_ACK, 9, 0);
	told_nothing();
}

/* --- CTS --- */

/* A large message of tag 1 asks on stream 1 and gets its CTS on stream 0. */
static struct anynet_request *clear_large(uint32_t seq, uint16_t slot)
{
	struct anynet_wire_frame rts =
		frame_data(seq, 1, ANYNET_FLAG_MULTI | ANYNET_FLAG_ACK, PAIR_LARGE);
	struct anynet_request *req = pair_irecv(&pair, pair_in, PAIR_LARGE, 1);

	rts.type = ANYNET_FRAME_RTS;
	rts.length = 0;
	rts.slot = slot;
	frame_put(pair.fds[1], &rts, NULL);
	turns();
	return req;
}

static void put_large(uint32_t seq, uint16_t slot, size_t bytes)
{
	struct anynet_wire_frame frame =
		frame_data(seq, 1, ANYNET_FLAG_MULTI | ANYNET_FLAG_ACK, PAIR_LARGE);

	frame.slot = slot;
	frame_put(pair.fds[1], &frame, NULL);
	assert_int_equal(send(pair.fds[1], pair_out, bytes, 0), bytes);
	turns();
}

static void test_a_lost_cts_is_told_again_on_its_stream(void **state)
{
	struct anynet_request *req;

	(void)state;
	pair_open_recv(&pair, 2);
	req = clear_large(0, 77);
	for (int again = 0; again < 3; again++) {
		resume_recv_ok(&pair, 0, NULL);
		told_once(0, ANYNET_FRAME_CTS, 77, 0);
		told_nothing();
	}
	resume_recv_ok(&pair, 1, NULL);
	told_nothing();
	put_large(0, 77, PAIR_LARGE);
	pair_finish(&req, 1, NULL);
	told_by_bitmap(0, 77);
}

static void test_data_that_begins_to_come_shows_that_the_cts_is_known(void **state)
{
	struct anynet_request *req;

	(void)state;
	pair_open_recv(&pair, 2);
	req = clear_large(0, 77);
	put_large(0, 77, PAIR_LARGE - 1);
	resume_recv_ok(&pair, 0, NULL);
	told_nothing();
	assert_int_equal(send(pair.fds[1], pair_out, 1, 0), 1);
	pair_finish(&req, 1, NULL);
	told_by_bitmap(0, 77);
}

/* --- frames that had to wait --- */

/* The descriptor of a new socket is the lowest free one. */
static int next_descriptor(void)
{
	int fd = dup(STDIN_FILENO);

	assert_true(fd >= 0);
	close(fd);
	return fd;
}

/* `count` acknowledgements are sent on stream 0 and lost. */
static void lose_acks(uint16_t count)
{
	for (uint16_t i = 0; i < count; i++) {
		put_message(1, i, i);
		turns();
	}
	pair_hang_up(&pair, 0);
	turns();
	assert_int_equal(pair.recv->streams[0]->path.fd, -1);
}

/* Stream 0 is back, but has room for the answer only. */
static void resume_without_room(void)
{
	narrow_socket(next_descriptor(), sizeof(struct anynet_wire_hello));
	resume_recv_ok(&pair, 0, NULL);
	assert_int_equal(narrow_room(), 0);
	turns();
}

static void give_room(void)
{
	narrow_socket(-1, 0);
}

static void test_newer_words_about_a_slot_replace_those_to_be_told_again(void **state)
{
	enum {
		COUNT = 40,
		WHOLE = 38,
		BEGUN = 39
	};
	struct anynet_wire_frame frame = frame_data(COUNT + 1, 0, ANYNET_FLAG_ACK, 8);
	bool seen[COUNT] = { false };

	(void)state;
	pair_open_recv(&pair, 2);
	lose_acks(COUNT);
	resume_without_room();
	put_message(1, COUNT, WHOLE);
	told_by_bitmap(1, WHOLE);
	pair_irecv(&pair, pair_in, 8, 0);
	frame.slot = BEGUN;
	frame_put(pair.fds[1], &frame, NULL);
	turns();
	give_room();
	for (int i = 0; i < COUNT - 2; i++) {
		assert_true(told(0, &frame));
		assert_int_equal(frame.type, ANYNET_FRAME_ACK);
		assert_int_equal(frame.length, 0);
		assert_true(frame.slot < COUNT && !seen[frame.slot]);
		assert_int_equal(frame.seq, frame.slot);
		seen[frame.slot] = true;
	}
	assert_false(seen[WHOLE] || seen[BEGUN]);
	told_nothing();
}

/* The sender had the CTS after all: its data arrives before the CTS can be repeated. */
static void test_data_may_come_before_the_cts_is_told_again(void **state)
{
	enum {
		COUNT = 20
	};
	struct anynet_wire_frame frame;
	struct anynet_request *req;

	(void)state;
	pair_open_recv(&pair, 2);
	lose_acks(COUNT);
	resume_recv_ok(&pair, 0, NULL);
	req = clear_large(COUNT, 77);
	pair_hang_up(&pair, 0);
	turns();
	resume_without_room();
	put_large(COUNT, 77, PAIR_LARGE);
	pair_finish(&req, 1, NULL);
	told_by_bitmap(1, 77);
	give_room();
	for (int i = 0; i < COUNT; i++) {
		assert_true(told(0, &frame));
		assert_int_equal(frame.type, ANYNET_FRAME_ACK);
		assert_int_equal(frame.slot, i);
	}
	told_nothing();
}

/* --- sender: the test receives, and repeats old frames --- */

static void put_word(enum anynet_frame_type type, uint16_t slot, uint32_t seq)
{
	struct anynet_wire_frame frame = { .type = (uint8_t)type, .slot = slot, .seq = seq };

	frame_put(pair.fds[0], &frame, NULL);
	assert_int_equal(comm_turn(pair.send), 0);
}

static struct anynet_wire_frame take_frame(enum anynet_frame_type type, uint32_t seq)
{
	assert_int_equal(comm_turn(pair.send), 0);
	return pair_expect(&pair, 0, type, seq);
}

static void no_frame(void)
{
	struct anynet_wire_frame frame;

	assert_int_equal(comm_turn(pair.send), 0);
	assert_false(frame_get(pair.fds[0], &frame, pair_in, sizeof(pair_in)));
}

static void test_an_ack_told_again_counts_for_its_message_only(void **state)
{
	struct anynet_request *req, *next;
	uint16_t slot;

	(void)state;
	pair_open_send(&pair, 1);
	req = pair_isend(&pair, pair_out, PAIR_LARGE, 0);
	slot = take_frame(ANYNET_FRAME_DATA, 0).slot;
	put_word(ANYNET_FRAME_ACK, slot, 1); /* of another message */
	put_word(ANYNET_FRAME_ACK, slot, (uint32_t)-1);
	put_word(ANYNET_FRAME_ACK, (uint16_t)(slot + 1), 0); /* of a slot not in use */
	pair_idle(req);
	put_word(ANYNET_FRAME_ACK, slot, 0);
	put_word(ANYNET_FRAME_ACK, slot, 0); /* known, and not tested yet */
	pair_finish(&req, 1, NULL);
	put_word(ANYNET_FRAME_ACK, slot, 0); /* and free */
	next = pair_isend(&pair, pair_out, PAIR_LARGE, 0);
	assert_int_equal(take_frame(ANYNET_FRAME_DATA, 1).slot, slot);
	put_word(ANYNET_FRAME_ACK, slot, 0); /* and in use again */
	pair_idle(next);
	put_word(ANYNET_FRAME_ACK, slot, 1);
	pair_finish(&next, 1, NULL);
	assert_true(send_confirmed(pair.send));
}

static void test_a_cts_told_again_counts_for_its_message_only(void **state)
{
	struct anynet_request *req;
	uint16_t slot;

	(void)state;
	pair_open_send(&pair, 1);
	pair_isend(&pair, pair_out, 1, 1);
	take_frame(ANYNET_FRAME_DATA, 0);
	req = pair_isend(&pair, pair_out, PAIR_LARGE, 2);
	slot = take_frame(ANYNET_FRAME_RTS, 1).slot;
	put_word(ANYNET_FRAME_CTS, slot, 0);
	put_word(ANYNET_FRAME_CTS, slot, 2);
	put_word(ANYNET_FRAME_CTS, (uint16_t)(slot + 1), 1);
	no_frame();
	put_word(ANYNET_FRAME_CTS, slot, 1);
	take_frame(ANYNET_FRAME_DATA, 1);
	put_word(ANYNET_FRAME_CTS, slot, 1); /* it is out */
	no_frame();
	put_word(ANYNET_FRAME_ACK, slot, 1);
	put_word(ANYNET_FRAME_CTS, slot, 1); /* acknowledged */
	pair_finish(&req, 1, NULL);
	put_word(ANYNET_FRAME_CTS, slot, 1); /* complete */
	no_frame();
	req = pair_isend(&pair, pair_out, PAIR_LARGE, 2);
	assert_int_equal(take_frame(ANYNET_FRAME_RTS, 2).slot, slot);
	put_word(ANYNET_FRAME_CTS, slot, 1); /* the slot belongs to another message */
	no_frame();
	put_word(ANYNET_FRAME_CTS, slot, 2);
	take_frame(ANYNET_FRAME_DATA, 2);
}

/* The socket has taken all of it but the byte that the receiver does not need. */
static void test_an_ack_may_come_before_the_tail_is_out(void **state)
{
	const size_t frame = sizeof(struct anynet_wire_frame) + LOCAL_EAGER_BYTES;
	struct anynet_request *req, *next;
	struct anynet_wire_frame first;
	uint16_t slot, slot_of_next;

	(void)state;
	for (int recovered = 0; recovered < 2; recovered++) {
		pair_open_send(&pair, 1);
		narrow_socket(pair.send->streams[0]->path.fd, frame);
		req = pair_isend(&pair, pair_out, LOCAL_EAGER_BYTES, 0);
		pair_finish(&req, 1, NULL);
		assert_int_equal(recv(pair.fds[0], &first, sizeof(first), MSG_DONTWAIT),
				 sizeof(first));
		slot = first.slot;
		assert_int_equal(recv(pair.fds[0], pair_in, sizeof(pair_in), MSG_DONTWAIT),
				 LOCAL_EAGER_BYTES);
		assert_false(send_confirmed(pair.send));
		put_word(ANYNET_FRAME_ACK, slot, 0);
		assert_true(send_confirmed(pair.send));
		next = pair_isend(&pair, pair_out, PAIR_LARGE, 0);
		pair_idle(next);
		narrow_socket(-1, 0);
		if (recovered) {
			resume_send(&pair, 0, 1, 0);
		} else {
			assert_int_equal(comm_turn(pair.send), 0);
			assert_int_equal(recv(pair.fds[0], pair_in, 1, MSG_DONTWAIT), 1);
			assert_int_equal(pair_in[0], 0);
		}
		slot_of_next = take_frame(ANYNET_FRAME_DATA, 1).slot;
		no_frame();
		pair_idle(next);
		put_word(ANYNET_FRAME_ACK, slot_of_next, 1);
		pair_finish(&next, 1, NULL);
		put_word(ANYNET_FRAME_ACK, slot, 0);
		pair_close(&pair);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) \
	cmocka_unit_test_prestate_setup_teardown(name, pair_setup_recovery, teardown, &pair)
		TEST(test_a_lost_ack_is_told_again_on_its_stream),
		TEST(test_a_frame_half_sent_is_repeated_completely),
		TEST(test_a_heartbeat_waits_for_the_end_of_a_frame),
		TEST(test_a_slot_used_again_needs_no_word_about_before),
		TEST(test_a_message_that_waits_in_its_stream_confirms_too),
		TEST(test_an_ack_moves_to_the_stream_that_it_was_told_on_last),
		TEST(test_a_lost_cts_is_told_again_on_its_stream),
		TEST(test_data_that_begins_to_come_shows_that_the_cts_is_known),
		TEST(test_newer_words_about_a_slot_replace_those_to_be_told_again),
		TEST(test_data_may_come_before_the_cts_is_told_again),
		TEST(test_an_ack_told_again_counts_for_its_message_only),
		TEST(test_a_cts_told_again_counts_for_its_message_only),
		TEST(test_an_ack_may_come_before_the_tail_is_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

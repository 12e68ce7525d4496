/* SPDX-License-Identifier: Apache-2.0 */
/* Acknowledgements, from both sides, and control frames that a peer must not send. */
#include "acks.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "support/capture.h"

static uint8_t bitmap[ANYNET_ACK_BYTES];

/* --- how often the socket is read --- */

ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __real_recv(int fd, void *to, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags);

static unsigned reads; /* with data */

/* The peer sends PINGs faster than they are read, until the test's deadline. */
static bool endless;
static size_t endless_bytes;
#define PATIENCE ((size_t)256 << 20)

static ssize_t read_pings(uint8_t *to, size_t bytes)
{
	const struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING };

	if (endless_bytes >= PATIENCE) {
		errno = EAGAIN;
		return -1;
	}
	for (size_t i = 0; i < bytes; i++)
		to[i] = ((const uint8_t *)&ping)[(endless_bytes + i) % sizeof(ping)];
	endless_bytes += bytes;
	return (ssize_t)bytes;
}

ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags)
{
	ssize_t n = endless ? read_pings(to, bytes) : __real_recv(fd, to, bytes, flags);

	reads += n > 0;
	return n;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
	ssize_t n = __real_recvmsg(fd, message, flags);

	reads += n > 0;
	return n;
}

static int setup(void **state)
{
	memset(bitmap, 0, sizeof(bitmap));
	endless_bytes = 0;
	return pair_setup(state);
}

/* --- receiver --- */

/* The test's message `seq` arrives in a receive. */
static void deliver(uint32_t seq, uint8_t flags, size_t bytes)
{
	struct anynet_wire_frame frame = frame_data(seq, 0, flags, bytes);
	struct anynet_request *req = pair_irecv(&pair, data, sizeof(data), 0);

	frame_put(pair.fds[0], &frame, data);
	pair_finish(&req, 1, NULL);
}

/* The next acknowledgement, on any stream; returns the number of slots in it, -1 = there is none. */
static int ack_came(void)
{
	struct anynet_wire_frame ack;
	int count = 0;

	for (unsigned i = 0; i < pair.streams; i++) {
		if (!frame_get(pair.fds[i], &ack, bitmap, sizeof(bitmap)))
			continue;
		assert_int_equal(ack.type, ANYNET_FRAME_ACK);
		assert_int_equal(ack.length, sizeof(bitmap));
		for (size_t bit = 0; bit < 8 * sizeof(bitmap); bit++)
			count += bitmap[bit / 8] >> bit % 8 & 1;
		return count;
	}
	return -1;
}

static void test_a_message_that_requests_an_ack_gets_it_at_once(void **state)
{
	(void)state;
	pair_open_recv(&pair, 1);
	deliver(0, ANYNET_FLAG_ACK, 100);
	assert_int_equal(ack_came(), 1);
	assert_int_equal(bitmap[0], 1);
	assert_int_equal(ack_came(), -1);
}

static void test_small_messages_are_acknowledged_by_the_quarter_of_the_slots(void **state)
{
	(void)state;
	local_cfg.replay_bytes = 64 * LOCAL_RING_BYTES; /* not the limit here */
	pair_open_recv(&pair, 1);
	for (uint32_t seq = 0; seq < ANYNET_SENDS / 4; seq++) {
		deliver(seq, 0, 0);
		assert_int_equal(ack_came(), -1);
	}
	pair_idle(pair_irecv(&pair, data, 8, 0));
	assert_int_equal(ack_came(), ANYNET_SENDS / 4);
	assert_int_equal(bitmap[ANYNET_SENDS / 4 / 8 - 1], 0xff);
	assert_int_equal(bitmap[ANYNET_SENDS / 4 / 8], 0);
}

static void test_acknowledgement_comes_before_the_replay_ring_is_full(void **state)
{
	uint32_t seq = 0;
	int named = -1;

	(void)state;
	pair_open_recv(&pair, 1);
	deliver(seq++, 0, 1000);
	assert_int_equal(ack_came(), -1);
	while (seq < LOCAL_RING_BYTES / 1000 && named < 0) {
		deliver(seq++, 0, 1000);
		named = ack_came();
	}
	assert_in_range(named, 2, LOCAL_RING_BYTES / 1000 - 1);
}

/* In the ring they take space, too. */
static void test_an_ack_comes_before_empty_messages_fill_the_ring(void **state)
{
	const uint32_t headers = 1024 / 4 / sizeof(struct anynet_wire_frame);

	(void)state;
	local_cfg.replay_bytes = 1024;
	pair_open_recv(&pair, 1);
	for (uint32_t seq = 0; seq < headers; seq++) {
		deliver(seq, 0, 0);
		assert_int_equal(ack_came(), -1);
	}
	pair_idle(pair_irecv(&pair, data, 8, 0));
	assert_int_equal(ack_came(), headers);
}

/* The sender's ring is used in order: behind this one it may be full of acknowledged messages. */
static void test_a_message_that_was_overtaken_is_acknowledged_at_once(void **state)
{
	struct anynet_wire_frame frame = frame_data(1, 0, 0, 3);
	struct anynet_request *reqs[3];

	(void)state;
	pair_open_recv(&pair, 2);
	for (int i = 0; i < 3; i++)
		reqs[i] = pair_irecv(&pair, data, 8, 0);
	frame_put(pair.fds[1], &frame, "two");
	pair_finish(&reqs[1], 1, NULL);
	pair_idle(reqs[0]);
	assert_int_equal(ack_came(), -1);
	frame = frame_data(0, 0, 0, 3);
	frame_put(pair.fds[0], &frame, "one");
	pair_finish(&reqs[0], 1, NULL);
	pair_idle(reqs[2]);
	assert_int_equal(ack_came(), 2);
	assert_int_equal(ack_came(), -1);
}

static void test_each_slot_is_acknowledged_once_in_any_order(void **state)
{
	struct anynet_wire_frame frame = frame_data(2, 0, ANYNET_FLAG_ACK, 3);
	struct anynet_request *reqs[3];

	(void)state;
	pair_open_recv(&pair, 2);
	for (int i = 0; i < 3; i++)
		reqs[i] = pair_irecv(&pair, data, 8, 0);
	frame.slot = 200;
	frame_put(pair.fds[1], &frame, "two");
	pair_idle(reqs[0]);
	assert_int_equal(ack_came(), 1);
	assert_int_equal(bitmap[25], 1);
	frame.seq = 0;
	frame.slot = 9;
	frame_put(pair.fds[0], &frame, "one");
	pair_finish(reqs, 1, NULL);
	pair_idle(reqs[1]);
	assert_int_equal(ack_came(), 1);
	assert_int_equal(bitmap[1], 2);
	frame.seq = 1; /* the slot is free again */
	frame_put(pair.fds[0], &frame, "gap");
	pair_finish(reqs + 1, 2, NULL);
	assert_int_equal(ack_came(), 1);
	assert_int_equal(bitmap[1], 2);
}

static void test_an_unexpected_message_is_acknowledged_before_its_receive(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 1, ANYNET_FLAG_MULTI | ANYNET_FLAG_ACK, 100);
	struct anynet_request *req;

	(void)state;
	pair_open_recv(&pair, 1);
	req = pair_irecv(&pair, data, 8, 2);
	frame_put(pair.fds[0], &frame, data);
	pair_idle(req);
	assert_int_equal(ack_came(), 1);
	assert_int_equal(bitmap[0], 1);
}

/* The first read fills the staging buffer. Each other one takes payload, tail byte and the next header. */
static void test_large_copied_messages_are_read_in_one_call_each(void **state)
{
	static uint8_t to[3][20000];
	struct anynet_request *reqs[3];

	(void)state;
	pair_open_recv(&pair, 1);
	for (uint32_t i = 0; i < 3; i++) {
		struct anynet_wire_frame frame = frame_data(i, 0, ANYNET_FLAG_TAIL, sizeof(to[i]));

		reqs[i] = pair_irecv(&pair, to[i], sizeof(to[i]), 0);
		frame_put(pair.fds[0], &frame, data);
	}
	reads = 0;
	pair_finish(reqs, 3, NULL);
	assert_int_equal(reads, 4);
}

/* --- sender --- */

static void test_a_small_send_is_done_without_an_ack_a_large_one_with_it(void **state)
{
	struct anynet_request *small, *large;

	(void)state;
	pair_open_send(&pair, 1);
	small = pair_isend(&pair, data, LOCAL_EAGER_BYTES, 0);
	pair_finish(&small, 1, NULL);
	large = pair_isend(&pair, data, LOCAL_EAGER_BYTES + 1, 0);
	pair_idle(large);
	put_ack(0, 0, 1);
	pair_idle(large);
	put_ack(0, 1, 2);
	pair_finish(&large, 1, NULL);
}

/* A sender that waits for an ACK reads nothing several times, and then a header followed by a bitmap. */
static void test_an_ack_is_read_in_one_call(void **state)
{
	struct anynet_request *req;

	(void)state;
	pair_open_send(&pair, 1);
	req = pair_isend(&pair, data, LOCAL_EAGER_BYTES + 1, 0);
	pair_idle(req);
	put_ack(0, 0, 1);
	reads = 0;
	assert_true(pair_done(req, NULL));
	assert_int_equal(reads, 1);
}

static void test_only_sends_that_wait_ask_for_acks(void **state)
{
	struct anynet_wire_frame frame;

	(void)state;
	pair_open_send(&pair, 1);
	pair_isend(&pair, data, LOCAL_EAGER_BYTES, 0);
	pair_idle(pair_isend(&pair, data, LOCAL_EAGER_BYTES + 1, 0));
	assert_true(frame_get(pair.fds[0], &frame, data, sizeof(data)));
	assert_false(frame.flags & ANYNET_FLAG_ACK);
	assert_true(frame_get(pair.fds[0], &frame, data, sizeof(data)));
	assert_true(frame.flags & ANYNET_FLAG_ACK);
}

static void test_an_ack_completes_what_it_names(void **state)
{
	struct anynet_request *reqs[3];

	(void)state;
	pair_open_send(&pair, 2);
	for (int i = 0; i < 3; i++)
		reqs[i] = pair_isend(&pair, data, LOCAL_EAGER_BYTES + 1, 0);
	pair_idle(reqs[2]);
	put_ack(1, 1, 2);
	assert_false(pair_done(reqs[0], NULL));
	assert_true(pair_done(reqs[1], NULL));
	assert_false(pair_done(reqs[2], NULL));
	put_ack(0, 2, 3);
	put_ack(1, 0, 1);
	pair_finish((struct anynet_request *[]){ reqs[0], reqs[2] }, 2, NULL);
}

static void fails(struct anynet_request *req, const char *text)
{
	pair_fails(req, -EPROTO);
	assert_int_equal(capture_count(CAPTURE_WARN, text), 1);
	capture_forget();
}

static void refused(const struct anynet_wire_frame *frame, const char *text)
{
	struct anynet_request *req;

	pair_open_send(&pair, 1);
	req = pair_isend(&pair, data, PAIR_LARGE, 0);
	frame_put(pair.fds[0], frame, data);
	fails(req, text);
	pair_close(&pair);
}

static void test_control_frames_that_cannot_be_right_are_refused(void **state)
{
	struct anynet_wire_frame ack = { .type = ANYNET_FRAME_ACK, .length = ANYNET_ACK_BYTES + 1 };
	struct anynet_wire_frame cts = { .type = ANYNET_FRAME_CTS };

	(void)state;
	refused(&ack, "frame of 33 bytes");
	ack.length = 16;
	refused(&ack, "frame of type 6 with 16 bytes");
	cts.slot = ANYNET_WIRE_SLOTS;
	refused(&cts, "frame of type 7 for slot 256");
	refused(&(struct anynet_wire_frame){ .type = 99 }, "frame of type 99");
	pair_open_send(&pair, 1);
}

static void test_acks_of_what_is_not_out_are_refused(void **state)
{
	static uint8_t huge[8 << 20]; /* more than a socket takes */
	struct anynet_wire_frame ack = { .type = ANYNET_FRAME_ACK, .length = ANYNET_ACK_BYTES };
	struct anynet_wire_frame first;
	struct anynet_request *req, *other;

	(void)state;
	/* Partly sent. */
	pair_open_send(&pair, 1);
	req = pair_isend(&pair, huge, sizeof(huge), 0);
	pair_idle(req);
	assert_int_equal(recv(pair.fds[0], &first, sizeof(first), MSG_PEEK), sizeof(first));
	bitmap[first.slot / 8] = (uint8_t)(1u << first.slot % 8);
	frame_put(pair.fds[0], &ack, bitmap);
	fails(req, "which has no unacknowledged message");
	pair_close(&pair);
	/* Never used. */
	memset(bitmap, 0, sizeof(bitmap));
	bitmap[31] = 0x80;
	pair_open_send(&pair, 1);
	req = pair_isend(&pair, data, PAIR_LARGE, 0);
	frame_put(pair.fds[0], &ack, bitmap);
	fails(req, "acknowledgement of slot 255,");
	pair_close(&pair);
	/* Sent twice. */
	pair_open_send(&pair, 1);
	req = pair_isend(&pair, data, PAIR_LARGE, 0);
	other = pair_isend(&pair, data, PAIR_LARGE, 0);
	pair_idle(other);
	put_ack(0, 0, 1);
	put_ack(0, 0, 1);
	fails(other, "which has no unacknowledged message");
}

/* --- a peer that sends without end --- */

/* It delays its own comm, and not the thread, which has other comms to serve. */
static void test_a_turn_ends_although_frames_keep_coming(void **state)
{
	struct anynet_request *req;

	(void)state;
	pair_open_send(&pair, 1);
	req = pair_isend(&pair, data, PAIR_LARGE, 0);
	endless = true;
	assert_false(pair_done(req, NULL));
	endless = false;
	assert_in_range(endless_bytes, 1, PATIENCE - 1);
}

static void test_a_closed_receiver_does_not_read_for_ever(void **state)
{
	(void)state;
	pair_open_recv(&pair, 1);
	endless = true;
	assert_true(drain_start(pair.recv));
	pair_close(&pair);
	endless = false;
	assert_in_range(endless_bytes, 1, PATIENCE - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_prestate_setup_teardown(name, setup, pair_teardown, &pair)
		TEST(test_a_message_that_requests_an_ack_gets_it_at_once),
		TEST(test_small_messages_are_acknowledged_by_the_quarter_of_the_slots),
		TEST(test_acknowledgement_comes_before_the_replay_ring_is_full),
		TEST(test_an_ack_comes_before_empty_messages_fill_the_ring),
		TEST(test_a_message_that_was_overtaken_is_acknowledged_at_once),
		TEST(test_each_slot_is_acknowledged_once_in_any_order),
		TEST(test_an_unexpected_message_is_acknowledged_before_its_receive),
		TEST(test_large_copied_messages_are_read_in_one_call_each),
		TEST(test_a_small_send_is_done_without_an_ack_a_large_one_with_it),
		TEST(test_an_ack_is_read_in_one_call),
		TEST(test_only_sends_that_wait_ask_for_acks),
		TEST(test_an_ack_completes_what_it_names),
		TEST(test_control_frames_that_cannot_be_right_are_refused),
		TEST(test_acks_of_what_is_not_out_are_refused),
		TEST(test_a_turn_ends_although_frames_keep_coming),
		TEST(test_a_closed_receiver_does_not_read_for_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

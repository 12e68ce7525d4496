/* SPDX-License-Identifier: Apache-2.0 */
/* The replay ring and the slots of a sender, which acknowledgements free. */
#include "acks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

/* The settings allow eager sends of half the ring (plugin/config.c): such a send is copied. */
static void test_a_small_send_may_take_half_the_ring(void **state)
{
	(void)state;
	local_cfg.eager_bytes = LOCAL_RING_BYTES / 2;
	pair_open_send(&pair, 1);
	pair_send(&pair, pair_out, LOCAL_RING_BYTES / 2);
	pair_expect(&pair, 0, ANYNET_FRAME_DATA, 0);
}

/* Sends without room for a copy are read from their buffers, and wait. */
static void test_sends_beyond_the_replay_ring_wait_for_their_ack(void **state)
{
	enum {
		COUNT = 16
	};
	struct anynet_request *reqs[COUNT];
	int done = 0;

	(void)state;
	pair_open_send(&pair, 1);
	for (int i = 0; i < COUNT; i++)
		reqs[i] = pair_isend(&pair, data, 1000, 0);
	for (int turn = 0; turn < 20; turn++)
		comm_turn(pair.send);
	while (done < COUNT && pair_done(reqs[done], NULL))
		done++;
	/* A frame takes slightly more than its payload. */
	assert_in_range(done, LOCAL_RING_BYTES / 2000, LOCAL_RING_BYTES / 1000);
	for (int i = done; i < COUNT; i++)
		pair_idle(reqs[i]);
	put_ack(0, 0, COUNT);
	pair_finish(reqs + done, COUNT - done, NULL);
	/* The ring is free again. */
	reqs[0] = pair_isend(&pair, data, 1000, 0);
	pair_finish(reqs, 1, NULL);
}

/* Frames that wait for a full socket must not be overwritten. */
static void test_the_ring_keeps_what_is_not_out_yet(void **state)
{
	enum {
		BEFORE = 5,
		COUNT = 20,
		HUGE_BYTES = 4 << 20
	};
	static uint8_t huge[HUGE_BYTES], got[sizeof(struct anynet_wire_frame) + HUGE_BYTES];
	struct anynet_wire_frame frame;
	uint8_t out[COUNT][1000];
	size_t in = 0;

	(void)state;
	pair_open_send(&pair, 1);
	for (int i = 0; i < BEFORE; i++)
		pair_isend(&pair, data, 1000, 0);
	assert_int_equal(comm_turn(pair.send), 0);
	put_ack(0, 0, BEFORE - 1); /* the free part of the ring wraps around its end */
	assert_int_equal(comm_turn(pair.send), 0);
	pair_isend(&pair, huge, sizeof(huge), 0);
	for (int i = 0; i < COUNT; i++) {
		memset(out[i], i + 1, sizeof(out[i]));
		pair_isend(&pair, out[i], sizeof(out[i]), 0);
	}
	for (int turn = 0; turn < 10000 && in < sizeof(got); turn++) {
		ssize_t n = recv(pair.fds[0], got + in, sizeof(got) - in, MSG_DONTWAIT);

		in += n > 0 ? (size_t)n : 0;
		assert_int_equal(comm_turn(pair.send), 0);
	}
	assert_int_equal(in, sizeof(got));
	for (int i = 0; i < COUNT; i++) {
		assert_int_equal(comm_turn(pair.send), 0);
		assert_true(frame_get(pair.fds[0], &frame, data, sizeof(data)));
		assert_int_equal(frame.seq, BEFORE + 1 + i);
		assert_memory_equal(data, out[i], sizeof(out[i]));
	}
}

static void test_the_ring_stays_full_while_its_oldest_frame_is_unacknowledged(void **state)
{
	enum {
		COUNT = 8
	}; /* one more than fits into the ring */
	struct anynet_request *reqs[COUNT], *req;

	(void)state;
	pair_open_send(&pair, 1);
	for (int i = 0; i < COUNT; i++)
		reqs[i] = pair_isend(&pair, data, 1000, 0);
	pair_finish(reqs, COUNT - 1, NULL);
	pair_idle(reqs[COUNT - 1]);
	put_ack(0, 1, COUNT);
	pair_finish(&reqs[COUNT - 1], 1, NULL);
	req = pair_isend(&pair, data, 1000, 0);
	pair_idle(req);
	put_ack(0, 0, 1);
	put_ack(0, COUNT, COUNT + 1);
	pair_finish(&req, 1, NULL);
	req = pair_isend(&pair, data, 1000, 0);
	pair_finish(&req, 1, NULL);
}

static void test_messages_arrive_in_order_around_a_full_ring(void **state)
{
	enum {
		COUNT = 32,
		ROUNDS = 50
	};
	static uint8_t in[COUNT][1000], out[COUNT][1000];
	struct anynet_request *reqs[2 * COUNT];

	(void)state;
	pair_open(&pair, 2);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < COUNT; i++) {
			memset(out[i], round * COUNT + i, sizeof(out[i]));
			reqs[COUNT + i] =
				pair_isend(&pair, out[i], (size_t)(300 + 700 * i / COUNT), 0);
		}
		for (int i = 0; i < COUNT; i++)
			reqs[i] = pair_irecv(&pair, in[i], sizeof(in[i]), 0);
		pair_finish(reqs, 2 * COUNT, NULL);
		for (int i = 0; i < COUNT; i++)
			assert_memory_equal(in[i], out[i], (size_t)(300 + 700 * i / COUNT));
	}
}

/* Copied messages, acknowledged out of order, in a ring that wraps many times. */
static void test_the_ring_is_freed_in_order_whatever_the_order_of_acks(void **state)
{
	enum {
		ROUNDS = 150,
		EACH = 3
	};
	struct anynet_request *reqs[EACH];

	(void)state;
	pair_open_send(&pair, 1);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (uint32_t i = 0; i < EACH; i++)
			reqs[i] = pair_isend(&pair, data, 100 + 300 * i + round, 0);
		/* There is always room for a copy: done without an ACK. */
		pair_finish(reqs, EACH, NULL);
		put_ack(0, round * EACH + 2, round * EACH + 3);
		assert_int_equal(comm_turn(pair.send), 0);
		put_ack(0, round * EACH, round * EACH + 2);
		assert_int_equal(comm_turn(pair.send), 0);
	}
}

/* Sends that are done at once let nobody read their ACKs. */
static void test_acks_in_the_socket_make_room_for_a_copy(void **state)
{
	struct anynet_request *req;
	uint32_t sent = 0;

	(void)state;
	pair_open_send(&pair, 1);
	for (; send_has_room(pair.send, LOCAL_EAGER_BYTES); sent++) {
		req = pair_isend(&pair, data, LOCAL_EAGER_BYTES, 0);
		pair_finish(&req, 1, NULL);
	}
	take_frames();
	put_ack(0, 0, sent);
	req = pair_isend(&pair, data, LOCAL_EAGER_BYTES, 0);
	pair_finish(&req, 1, NULL);
}

static void test_the_number_of_unacknowledged_sends_is_limited(void **state)
{
	struct anynet_request *req;

	(void)state;
	local_cfg.replay_bytes = 8 * LOCAL_RING_BYTES; /* not the limit here */
	pair_open_send(&pair, 1);
	for (int i = 0; i < ANYNET_SENDS; i++) {
		req = pair_isend(&pair, NULL, 0, 0);
		pair_finish(&req, 1, NULL);
		take_frames();
	}
	assert_int_equal(anynet_isend(pair.send, &(struct anynet_send){ "x", 1, 0, NULL, NULL }, &req), 0);
	assert_null(req);
	put_ack(0, 17, 18);
	pair_isend(&pair, "x", 1, 0);
	assert_int_equal(anynet_isend(pair.send, &(struct anynet_send){ "x", 1, 0, NULL, NULL }, &req), 0);
	assert_null(req);
}

static void test_a_message_that_is_never_acknowledged_holds_its_own_slot_only(void **state)
{
	struct anynet_request *req;

	(void)state;
	pair_open_send(&pair, 1);
	pair_isend(&pair, "x", 1, 0);
	for (uint32_t seq = 1; seq < 3 * ANYNET_SENDS; seq++) {
		req = pair_isend(&pair, data, 100, 0);
		for (int i = 0; i < 3 && comm_turn(pair.send) == 0; i++)
			;
		put_ack(0, seq, seq + 1);
		pair_finish(&req, 1, NULL);
		assert_int_equal(comm_turn(pair.send), 0);
	}
}

/* Ten times the slots and many times the ring. */
static void test_numbers_and_ring_go_round(void **state)
{
	uint32_t in = 0;

	(void)state;
	pair_open(&pair, 1);
	for (uint32_t i = 0; i < 10 * ANYNET_SENDS; i++) {
		struct anynet_request *reqs[2] = { pair_isend(&pair, &i, sizeof(i), 0),
						   pair_irecv(&pair, &in, sizeof(in), 0) };

		pair_finish(reqs, 2, NULL);
		assert_int_equal(in, i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_prestate_setup_teardown(name, pair_setup, pair_teardown, &pair)
		TEST(test_a_small_send_may_take_half_the_ring),
		TEST(test_sends_beyond_the_replay_ring_wait_for_their_ack),
		TEST(test_the_ring_keeps_what_is_not_out_yet),
		TEST(test_the_ring_stays_full_while_its_oldest_frame_is_unacknowledged),
		TEST(test_messages_arrive_in_order_around_a_full_ring),
		TEST(test_the_ring_is_freed_in_order_whatever_the_order_of_acks),
		TEST(test_acks_in_the_socket_make_room_for_a_copy),
		TEST(test_the_number_of_unacknowledged_sends_is_limited),
		TEST(test_a_message_that_is_never_acknowledged_holds_its_own_slot_only),
		TEST(test_numbers_and_ring_go_round),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

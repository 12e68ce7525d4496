/* SPDX-License-Identifier: Apache-2.0 */
/* The replay ring: frames are contiguous, and none is reused before it and all earlier ones are released. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "transports/message/replay.h"
#include "transports/wire/hello.h"

#define RING_BYTES  1024u
#define LIVE_MAX    (RING_BYTES / REPLAY_ALIGN)
#define FRAME_MAX   600u
#define STEPS       20000
#define WHOLE_FRAME (RING_BYTES - REPLAY_RECORD_BYTES)

static struct replay_ring ring;

static struct live {
	struct replay_record *record;
	size_t bytes;
	uint8_t mark;
} lives[LIVE_MAX]; /* in any order */
static unsigned live_count;

static int setup(void **state)
{
	(void)state;
	live_count = 0;
	memset(&ring, 0, sizeof(ring));
	return replay_init(&ring, RING_BYTES + 1); /* it may have less, never more */
}

static int teardown(void **state)
{
	(void)state;
	replay_fini(&ring);
	return 0;
}

static uint8_t *frame_of(const struct live *live)
{
	return (uint8_t *)live->record + REPLAY_RECORD_BYTES;
}

static void check_marks(void)
{
	for (unsigned i = 0; i < live_count; i++) {
		assert_false(lives[i].record->acked);
		for (size_t k = 0; k < lives[i].bytes; k++)
			assert_int_equal(frame_of(&lives[i])[k], lives[i].mark);
	}
}

static bool take(size_t bytes)
{
	bool has_room = replay_has_room(&ring, bytes);
	struct live live = { replay_take(&ring, bytes), bytes, (uint8_t)(rand() % 255 + 1) };

	assert_int_equal(live.record != NULL, has_room);
	if (!live.record)
		return false;
	assert_int_equal((uintptr_t)live.record % REPLAY_ALIGN, 0);
	assert_true((uint8_t *)live.record >= ring.memory);
	assert_true(frame_of(&live) + bytes <= ring.memory + RING_BYTES);
	memset(frame_of(&live), live.mark, bytes);
	assert_true(live_count < LIVE_MAX);
	lives[live_count++] = live;
	check_marks();
	return true;
}

static void release(unsigned which)
{
	struct replay_record *record = lives[which].record;

	lives[which] = lives[--live_count];
	replay_release(&ring, record);
	check_marks();
}

static void release_all(void)
{
	while (live_count)
		release((unsigned)rand() % live_count);
}

static void test_frames_stay_as_they_are_until_released(void **state)
{
	(void)state;
	srand(1);
	for (int step = 0; step < STEPS; step++) {
		if (rand() % 2)
			take((size_t)rand() % FRAME_MAX);
		else if (live_count)
			release((unsigned)rand() % live_count);
	}
}

/* Whatever the order of releases, the room is free again. */
static void test_all_room_is_free_again(void **state)
{
	(void)state;
	srand(2);
	for (int round = 0; round < 200; round++) {
		while (take((size_t)rand() % FRAME_MAX))
			;
		release_all();
		assert_true(take(WHOLE_FRAME));
		assert_false(take(0));
		release_all();
	}
	assert_false(take(WHOLE_FRAME + 1));
}

/* With this many units free at the start, a frame of that size must not close the ring: full would look like empty. */
static void test_full_is_not_empty(void **state)
{
	(void)state;
	for (size_t units = 1; units < LIVE_MAX; units++) {
		take(units * REPLAY_ALIGN - REPLAY_RECORD_BYTES);
		take((LIVE_MAX - units) * REPLAY_ALIGN - REPLAY_RECORD_BYTES);
		assert_int_equal(live_count, 2);
		assert_false(take(0));
		release(0);
		while (take(units * REPLAY_ALIGN - REPLAY_RECORD_BYTES) || take(0))
			;
		release_all();
	}
}

/* With few frames in use, a large ring uses few of its pages. */
static void test_a_ring_that_is_never_full_stays_small(void **state)
{
	struct replay_ring large = { 0 };
	struct replay_record *frames[3];
	uint32_t most = 0;

	(void)state;
	assert_int_equal(replay_init(&large, 4 * (size_t)REPLAY_AGAIN_BYTES), 0);
	for (unsigned i = 0; i < 1000; i++) {
		if (i >= 3)
			replay_release(&large, frames[i % 3]);
		frames[i % 3] = replay_take(&large, WHOLE_FRAME);
		assert_non_null(frames[i % 3]);
		most = frames[i % 3]->end > most ? frames[i % 3]->end : most;
	}
	assert_true(most <= REPLAY_AGAIN_BYTES + 4 * RING_BYTES);
	replay_fini(&large);
}

/* A queue pair reports each 16th request only. While fewer are out nothing frees the ring of queue pairs, so it must not be
 * full. */
static void test_fewer_frames_than_are_reported_fit(void **state)
{
	enum {
		REPORTED = 16,
		COUNT = 20000,
		LARGEST = 529 /* of a frame by a queue pair */
	};
	static struct replay_record *frames[COUNT];
	struct replay_ring small = { 0 };
	unsigned freed = 0;

	(void)state;
	srand(3);
	assert_int_equal(replay_init(&small, IB_REPLAY_BYTES), 0);
	for (unsigned i = 0; i < COUNT; i++) {
		bool look = rand() % 8 == 0;

		frames[i] =
			look ? NULL
			     : replay_take(&small, (size_t)rand() % (rand() % 2 ? LARGEST : 64));
		if (!frames[i]) {
			assert_true(look || i - freed >= REPORTED);
			while (freed < i - i % REPORTED)
				replay_release(&small, frames[freed++]);
			frames[i] = replay_take(&small, 41);
		}
		assert_non_null(frames[i]);
	}
	replay_fini(&small);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_frames_stay_as_they_are_until_released, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_all_room_is_free_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_is_not_empty, setup, teardown),
		cmocka_unit_test(test_a_ring_that_is_never_full_stays_small),
		cmocka_unit_test(test_fewer_frames_than_are_reported_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

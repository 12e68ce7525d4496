/* SPDX-License-Identifier: Apache-2.0 */
/* Clock offsets, from artificial times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <nccl_net/util.h>

#include "tools/pair/clock.h"

#define S 1000000000ll
#define T (1700000000 * S)

/* A round trip of `there` and `back` ns to a clock that is `ahead`, with a processing time of `thinking`. */
static struct clock_sample trip(int64_t at, int64_t ahead, int64_t there, int64_t thinking,
				int64_t back)
{
	return (struct clock_sample){
		.asked = at,
		.seen = at + there + ahead,
		.replied = at + there + thinking + ahead,
		.answered = at + there + thinking + back,
	};
}

static void test_best_trip(void **state)
{
	const struct clock_sample samples[] = {
		trip(T, 5 * S, 1000000, 10, 3000000),
		trip(T + S, 5 * S, 2000, 500000, 2000),
		trip(T + 2 * S, 5 * S, 100000, 10, 900000),
	};
	struct clock_offset offset;

	(void)state;
	assert_true(clock_estimate(samples, ARRAY_SIZE(samples), &offset));
	assert_int_equal(offset.offset_ns, 5 * S);
	assert_int_equal(offset.error_ns, 2001);
}

/* The true offset is within the error, however the round trip is divided. */
static void test_offset_within_error(void **state)
{
	(void)state;
	for (int64_t there = 0; there <= 1000; there += 10) {
		struct clock_sample sample = trip(T, -3 * S, there, 77, 1000 - there);
		struct clock_offset o;

		assert_true(clock_estimate(&sample, 1, &o));
		assert_true(o.offset_ns - o.error_ns <= -3 * S);
		assert_true(o.offset_ns + o.error_ns >= -3 * S);
		assert_int_equal(o.error_ns, 501);
	}
}

static void test_impossible_times(void **state)
{
	const struct clock_sample samples[] = {
		trip(T, 0, 100, -50, 100),          /* replied before it was seen */
		trip(T, 0, -500, 10, 100),          /* answered before it was asked */
		{ T, T, T + 10 * S, T + 1 },        /* longer processing than the round trip */
		{ T, -1, -1, T + 1 },               /* the peer sent no number */
		{ T, INT64_MAX, INT64_MAX, T + 1 }, /* impossible times */
		{ T, INT64_MIN, INT64_MAX, T + 1 },
	};
	struct clock_offset offset;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++)
		assert_false(clock_estimate(&samples[i], 1, &offset));
	assert_false(clock_estimate(samples, ARRAY_SIZE(samples), &offset));
	assert_false(clock_estimate(samples, 0, &offset));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_best_trip),
		cmocka_unit_test(test_offset_within_error),
		cmocka_unit_test(test_impossible_times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

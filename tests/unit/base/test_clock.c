/* SPDX-License-Identifier: Apache-2.0 */
/* The time used for deadlines (net.c). clock_gettime() of this program is the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "transports/base/os.h"

#define PAUSE_MS 1000 /* a longer pause counts as this */

static uint64_t clock_ms = 5000000;

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	(void)clock;
	ts->tv_sec = (time_t)(clock_ms / 1000);
	ts->tv_nsec = (long)(clock_ms % 1000 * 1000000);
	return 0;
}

static uint64_t after(uint64_t ms)
{
	clock_ms += ms;
	return os_now_ms();
}

static void test_time_follows_the_clock(void **state)
{
	uint64_t start = after(0);

	(void)state;
	assert_int_equal(after(0), start);
	assert_int_equal(after(1), start + 1);
	assert_int_equal(after(999), start + 1000);
	assert_int_equal(after(PAUSE_MS), start + 1000 + PAUSE_MS);
}

/* The process was stopped, or the machine slept: its deadlines have not passed. */
static void test_a_pause_counts_for_a_second(void **state)
{
	uint64_t start = after(0);

	(void)state;
	assert_int_equal(after(3600 * 1000), start + PAUSE_MS);
	assert_int_equal(after(0), start + PAUSE_MS);
	assert_int_equal(after(10), start + PAUSE_MS + 10);
	assert_int_equal(after(PAUSE_MS + 1), start + 2 * PAUSE_MS + 10);
	assert_int_equal(after(7), start + 2 * PAUSE_MS + 17);
}

static void test_it_never_goes_back(void **state)
{
	uint64_t start = after(100);

	(void)state;
	clock_ms -= 50;
	assert_int_equal(os_now_ms(), start);
	assert_int_equal(after(60), start + 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_time_follows_the_clock),
		cmocka_unit_test(test_a_pause_counts_for_a_second),
		cmocka_unit_test(test_it_never_goes_back),
	};

	return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of one rail, by what they have moved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "local_net.h"
#include "transports/common/pairs.h"
#include "transports/common/progress.h"

#define HEAL_MS 3000

static uint64_t now = 1000000;

uint64_t __wrap_net_now_ms(void);

uint64_t __wrap_net_now_ms(void)
{
	return now;
}

/* --- a rail of which the test says how it is --- */

static enum rail_moved verdict;

static enum rail_moved moved(struct anynet_rail *rail)
{
	(void)rail;
	return verdict;
}

static bool signs(struct anynet_rail *rail, struct rail_signs *told)
{
	(void)rail;
	told->acked = 1000;
	return true;
}

static const struct anynet_rail_ops ops = { .moved = moved, .signs = signs };
static struct anynet_comm comm;
static struct anynet_rail rail;

static int setup(void **state)
{
	(void)state;
	local_net_start();
	local_cfg.heal_timeout_ms = HEAL_MS;
	memset(&comm, 0, sizeof(comm));
	comm.is_send = true;
	rail = (struct anynet_rail){ .ops = &ops, .comm = &comm, .fd = 3 };
	rail.progress.narrow = PAIRS_NONE;
	verdict = RAIL_IDLE;
	progress_begin(&rail, 0, 0);
	return 0;
}

/* A connection of so many ms, then the next one from this position. */
static void live(uint64_t ms, enum rail_moved as, uint64_t frames)
{
	now += ms;
	verdict = as;
	progress_end(&rail, now);
	progress_begin(&rail, frames, 0);
}

static bool is_over(void)
{
	verdict = RAIL_STUCK;
	return progress_is_over(&rail, now);
}

/* --- --- */

static void test_in_vain_for_the_time_out_is_over(void **state)
{
	(void)state;
	comm.watch.since_ms = now;
	for (int i = 0; i < 5; i++) {
		assert_false(is_over());
		live(HEAL_MS / 5, RAIL_STUCK, 0);
	}
	assert_true(is_over());
	verdict = RAIL_MOVED; /* the present one does better */
	assert_false(progress_is_over(&rail, now));
}

static void test_one_that_moves_something_ends_the_row(void **state)
{
	(void)state;
	comm.watch.since_ms = now;
	live(HEAL_MS - 1, RAIL_STUCK, 0);
	live(10, RAIL_MOVED, 0);
	live(10, RAIL_STUCK, 0);
	assert_false(is_over());
}

/* Its kernel was slow to say so, or had more to send. */
static void test_the_receivers_position_counts_whatever_was_acknowledged(void **state)
{
	(void)state;
	comm.watch.since_ms = now;
	for (uint64_t i = 1; i < 10; i++) {
		live(HEAL_MS / 2, RAIL_STUCK, i);
		assert_false(is_over());
	}
}

static void test_a_connection_may_be_idle_for_hours(void **state)
{
	(void)state;
	now += 3600000;
	comm.watch.since_ms = now - 10; /* something is sent, and the connection breaks */
	live(10, RAIL_STUCK, 0);
	assert_false(is_over());
	live(3600000, RAIL_IDLE, 0);
	live(10, RAIL_STUCK, 0);
	assert_false(is_over());
}

/* Of the last one that moved something, too. */
static void test_silence_counts_from_its_beginning(void **state)
{
	(void)state;
	now += 1000;
	rail.silent_ms = now;
	comm.watch.since_ms = now;
	live(HEAL_MS - 100, RAIL_MOVED, 0);
	live(100, RAIL_STUCK, 0);
	assert_true(is_over());
}

static void test_silence_alone_tells_of_lost_packets(void **state)
{
	struct anynet_wire_rail pair = { 0, 0 };

	(void)state;
	live(10, RAIL_STUCK, 0);
	assert_false(progress_is_narrow(&rail, pair)); /* it was reset */
	rail.silent_ms = now;
	live(10, RAIL_STUCK, 0);
	assert_true(progress_is_narrow(&rail, pair));
	assert_false(progress_is_narrow(&rail, (struct anynet_wire_rail){ 1, 1 }));
	live(10, RAIL_MOVED, 0);
	assert_false(progress_is_narrow(&rail, pair)); /* the next one is to find out */
}

static void test_connections_from_the_same_position_pause_longer_and_longer(void **state)
{
	uint64_t last = 0;

	(void)state;
	assert_int_equal(progress_pause_ms(&rail), 0);
	for (int i = 0; i < 100; i++) {
		live(1, RAIL_MOVED, 0);
		assert_true(progress_pause_ms(&rail) > 0);
		assert_in_range(progress_pause_ms(&rail), last, 250);
		last = progress_pause_ms(&rail);
	}
	live(1, RAIL_MOVED, 1);
	assert_int_equal(progress_pause_ms(&rail), 0);
}

static void test_a_thousand_breaks_are_ten_lines(void **state)
{
	unsigned lines = 0;

	(void)state;
	for (uint32_t i = 1; i <= 1000; i++)
		lines += progress_is_news(i);
	assert_int_equal(lines, 10);
	assert_true(progress_is_news(1));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		T(test_in_vain_for_the_time_out_is_over),
		T(test_one_that_moves_something_ends_the_row),
		T(test_the_receivers_position_counts_whatever_was_acknowledged),
		T(test_a_connection_may_be_idle_for_hours),
		T(test_silence_counts_from_its_beginning),
		T(test_silence_alone_tells_of_lost_packets),
		T(test_connections_from_the_same_position_pause_longer_and_longer),
		T(test_a_thousand_breaks_are_ten_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

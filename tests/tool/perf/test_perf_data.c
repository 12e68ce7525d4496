/* SPDX-License-Identifier: Apache-2.0 */
/* The check of results finds each wrong element, in one pass over the data whatever the number of ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "tools/perf/perf.h"

#define SEED  3
#define RANKS 5
#define COUNT ((size_t)3 * PERF_STRIDE * RANKS) /* a part of it exceeds the stride */

static uint64_t check(const char *pattern, int rank, int ranks, int32_t *output, size_t count)
{
	struct group g = { .rank = rank, .size = ranks };
	struct perf_options o = { .pattern = perf_pattern_of(pattern),
				  .ranks = ranks,
				  .type = PERF_INT32 };
	struct perf_rank r = { .group = &g, .opts = &o, .output = output };

	return perf_check(&r, count, SEED);
}

static int32_t sum(size_t i)
{
	uint32_t all = 0;

	for (int rank = 0; rank < RANKS; rank++)
		all += perf_value(rank, i, SEED);
	return (int32_t)all;
}

static void test_each_wrong_element_is_counted(void **state)
{
	int32_t *output = calloc(COUNT, sizeof(*output));
	size_t part = COUNT / RANKS;

	(void)state;
	for (size_t i = 0; i < COUNT; i++)
		output[i] = sum(i);
	assert_int_equal(check("all_reduce", 1, RANKS, output, COUNT), 0);
	assert_int_equal(check("reduce", 0, RANKS, output, COUNT), 0);
	output[0]++;
	output[COUNT - 1]++;
	assert_int_equal(check("all_reduce", 1, RANKS, output, COUNT), 2);
	for (size_t i = 0; i < part; i++)
		output[i] = sum(2 * part + i);
	assert_int_equal(check("reduce_scatter", 2, RANKS, output, COUNT), 0);
	output[part - 1]++;
	assert_int_equal(check("reduce_scatter", 2, RANKS, output, COUNT), 1);
	free(output);
}

#define MANY_RANKS 100000
#define MANY       ((size_t)20000000)

/* To add up the inputs of all ranks for each element would take many minutes. */
static void test_many_ranks_are_checked_in_one_pass(void **state)
{
	int32_t *output = calloc(MANY, sizeof(*output));

	(void)state;
	assert_int_equal(check("all_reduce", 0, MANY_RANKS, output, MANY), MANY);
	free(output);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_wrong_element_is_counted),
		cmocka_unit_test(test_many_ranks_are_checked_in_one_pass),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

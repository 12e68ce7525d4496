/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds: every pair once, no host twice in a round, and the client's part alternates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tools/cluster/rounds.h"

#define MOST 40

static int met[MOST][MOST];

static size_t play(size_t hosts, size_t round)
{
	int busy[MOST] = { 0 };
	size_t pairs = 0, a, b;

	for (size_t p = 0; p < rounds_pairs(hosts); p++) {
		if (!rounds_pair(hosts, round, p, &a, &b))
			continue;
		assert_true(a < hosts && b < hosts && a != b);
		assert_false(busy[a]++);
		assert_false(busy[b]++);
		met[a][b]++;
		pairs++;
	}
	return pairs;
}

static void test_every_pair_once(void **state)
{
	(void)state;
	for (size_t hosts = 2; hosts <= MOST; hosts++) {
		memset(met, 0, sizeof(met));
		assert_int_equal(rounds_count(hosts), hosts - 1 + hosts % 2);
		for (size_t r = 0; r < rounds_count(hosts); r++)
			assert_int_equal(play(hosts, r), hosts / 2);
		for (size_t a = 0; a < hosts; a++) {
			for (size_t b = 0; b < a; b++)
				assert_int_equal(met[a][b] + met[b][a], 1);
		}
	}
}

static void test_roles_are_balanced(void **state)
{
	(void)state;
	memset(met, 0, sizeof(met));
	for (size_t r = 0; r < rounds_count(8); r++)
		play(8, r);
	for (size_t a = 0; a < 8; a++) {
		int asks = 0;

		for (size_t b = 0; b < 8; b++)
			asks += met[a][b];
		assert_in_range(asks, 3, 4);
	}
}

static void test_fewer_than_two_hosts(void **state)
{
	(void)state;
	assert_int_equal(rounds_count(0), 0);
	assert_int_equal(rounds_pairs(1), 0);
	assert_int_equal(rounds_count(1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_pair_once),
		cmocka_unit_test(test_roles_are_balanced),
		cmocka_unit_test(test_fewer_than_two_hosts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

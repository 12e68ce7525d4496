/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of pointers: numbers, tokens, growth. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transports/base/slots.h"

#define ENTRIES 200 /* the table grows twice */

static int entries[ENTRIES];

static void fill(struct slots *slots)
{
	for (uint32_t i = 0; i < ENTRIES; i++) {
		uint32_t number;

		assert_int_equal(slots_add(slots, &entries[i], &number), 0);
		assert_int_equal(number, i);
	}
	assert_int_equal(slots->used, ENTRIES);
}

static void test_entries_stay_when_the_table_grows(void **state)
{
	struct slots slots = { 0 };

	(void)state;
	assert_null(slots_at(&slots, 0));
	fill(&slots);
	for (uint32_t i = 0; i < ENTRIES; i++) {
		assert_ptr_equal(slots_at(&slots, i), &entries[i]);
		assert_ptr_equal(slots_find(&slots, slots_token(&slots, i)), &entries[i]);
	}
	assert_null(slots_at(&slots, ENTRIES));
	assert_null(slots_at(&slots, UINT32_MAX));
	slots_free(&slots);
}

static void test_the_lowest_free_number_is_taken(void **state)
{
	struct slots slots = { 0 };
	uint32_t number;

	(void)state;
	fill(&slots);
	slots_remove(&slots, 7);
	slots_remove(&slots, 3);
	assert_null(slots_at(&slots, 3));
	assert_int_equal(slots.used, ENTRIES - 2);
	for (uint32_t i = 0; i < 3; i++) {
		static const uint32_t expected[] = { 3, 7, ENTRIES };

		assert_int_equal(slots_add(&slots, &entries[i], &number), 0);
		assert_int_equal(number, expected[i]);
	}
	slots_free(&slots);
}

/* Another entry may have its number. */
static void test_a_token_names_nothing_when_its_entry_is_gone(void **state)
{
	struct slots slots = { 0 };
	uint64_t token;
	uint32_t number;

	(void)state;
	fill(&slots);
	token = slots_token(&slots, 5);
	slots_remove(&slots, 5);
	assert_null(slots_find(&slots, token));
	assert_int_equal(slots_add(&slots, &entries[0], &number), 0);
	assert_int_equal(number, 5);
	assert_null(slots_find(&slots, token));
	assert_ptr_equal(slots_find(&slots, slots_token(&slots, 5)), &entries[0]);
	assert_null(slots_find(&slots, 0));
	assert_null(slots_find(&slots, UINT64_MAX));
	slots_free(&slots);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_entries_stay_when_the_table_grows),
		cmocka_unit_test(test_the_lowest_free_number_is_taken),
		cmocka_unit_test(test_a_token_names_nothing_when_its_entry_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

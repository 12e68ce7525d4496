/* SPDX-License-Identifier: Apache-2.0 */
/* The tool's memory until exit, and what is freed back to a mark. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tools/shared/memory.h"
#include "tools/shared/text.h"

/* A block keeps its age when it grows and moves. */
static void test_what_is_older_than_the_mark_stays(void **state)
{
	char *old = memory_get(16), *other;
	uint64_t mark;

	(void)state;
	strcpy(old, "kept");
	mark = memory_mark();
	other = memory_get(16);
	old = memory_resize(old, 1 << 20);
	other[0] = 1;
	memory_release(mark);
	assert_string_equal(old, "kept");
	assert_string_equal(text_copy(old, 2), "ke");
	memory_release(0);
	assert_int_equal(memory_mark(), mark + 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_older_than_the_mark_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

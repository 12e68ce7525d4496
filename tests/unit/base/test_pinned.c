/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for NICs: whole pages, zeroed, not shared, and unmapped when freed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "transports/base/pinned.h"
#include "transports/message/replay.h"

static size_t page(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static bool is_mapped(void *memory, size_t bytes)
{
	unsigned char vec[64];

	assert_true(bytes <= sizeof(vec) * page());
	return !mincore(memory, bytes, vec) || errno != ENOMEM;
}

static void test_sizes_are_rounded_up(void **state)
{
	(void)state;
	assert_int_equal(pinned_round(1), page());
	assert_int_equal(pinned_round(page() - 1), page());
	assert_int_equal(pinned_round(page()), page());
	assert_int_equal(pinned_round(page() + 1), 2 * page());
}

static void test_whole_pages_are_ours(void **state)
{
	const size_t sizes[] = { 1, 64, page(), page() + 1, 5 * page() - 1 };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t whole = pinned_round(sizes[i]);
		unsigned char *memory = pinned_alloc(sizes[i]);

		assert_non_null(memory);
		assert_int_equal((uintptr_t)memory % page(), 0);
		for (size_t k = 0; k < whole; k++) {
			assert_int_equal(memory[k], 0);
			memory[k] = 0xff;
		}
		pinned_free(memory, sizes[i]);
		assert_false(is_mapped(memory, whole));
	}
	pinned_free(NULL, 1);
}

/* A page of the heap is shared: none of it may be in such a page. */
static void test_the_ring_shares_no_page(void **state)
{
	struct replay_ring ring = { 0 };
	unsigned char *around[8];

	(void)state;
	for (int i = 0; i < 4; i++)
		around[i] = malloc(1000);
	assert_int_equal(replay_init(&ring, 24 << 10), 0);
	for (int i = 4; i < 8; i++)
		around[i] = malloc(1000);
	assert_int_equal((uintptr_t)ring.memory % page(), 0);
	for (int i = 0; i < 8; i++) {
		uintptr_t first = (uintptr_t)around[i] / page(),
			  last = ((uintptr_t)around[i] + 999) / page();
		uintptr_t ours = (uintptr_t)ring.memory / page();

		assert_true(last < ours || first >= ours + pinned_round(ring.bytes) / page());
		free(around[i]);
	}
	replay_fini(&ring);
	assert_false(is_mapped(ring.memory, ring.bytes));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes_are_rounded_up),
		cmocka_unit_test(test_whole_pages_are_ours),
		cmocka_unit_test(test_the_ring_shares_no_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "mr_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

size_t page;
struct ib_mr_cache *cache;
char why[ANYNET_REASON_BYTES];
const struct memory_id host;

void start(bool relaxed_ordering)
{
	free(cache);
	fake_reset();
	cache = ib_mr_cache_create(&fake.verbs, &fake.pd, relaxed_ordering);
	assert_non_null(cache);
}

int mr_cache_setup(void **state)
{
	(void)state;
	page = (size_t)sysconf(_SC_PAGESIZE);
	start(false);
	return 0;
}

int mr_cache_teardown(void **state)
{
	bool left = fake_live();

	(void)state;
	free(cache);
	cache = NULL;
	return left || fake_live() ? -1 : 0;
}

int try_get(uintptr_t addr, size_t bytes, unsigned flags, struct ib_mr **mr)
{
	const struct memory_range range = { (void *)addr, bytes, host };

	return ib_mr_get(cache, &range, flags, mr, why, sizeof(why));
}

struct ib_mr *get_at(uintptr_t addr, size_t bytes, unsigned flags)
{
	struct ib_mr *mr = NULL;

	*why = 0;
	if (try_get(addr, bytes, flags, &mr))
		fail_msg("%s", why);
	assert_non_null(mr);
	assert_string_equal(why, "");
	return mr;
}

struct ib_mr *get_pages(size_t first, size_t count)
{
	return get_at(BASE + first * page, count * page, 0);
}

void put(struct ib_mr *mr)
{
	ib_mr_put(mr);
}

void expect_refused(uintptr_t addr, size_t bytes, int ret, const char *part)
{
	struct ib_mr *mr = (void *)1;

	if (try_get(addr, bytes, 0, &mr) != ret || !strstr(why, part))
		fail_msg("%s lacks '%s'", why, part);
	assert_null(mr);
}

void expect_last(uintptr_t addr, size_t bytes, int kind, unsigned access)
{
	assert_int_equal(fake.last.addr, addr);
	assert_int_equal(fake.last.bytes, bytes);
	assert_int_equal(fake.last.kind, kind);
	assert_int_equal(fake.last.access, access);
}

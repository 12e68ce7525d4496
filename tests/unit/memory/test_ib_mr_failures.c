/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of registrations when one fails. */
#include "mr_cache.h"

#include <dlfcn.h>
#include <errno.h>
#include <search.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include <nccl_net/log.h>
#include <nccl_net/util.h>

static bool no_memory;

typedef void *search_fn(const void *key, void **root, int (*compare)(const void *, const void *));

/* Replaces the C library's, to make the cache fail. */
void *tsearch(const void *key, void **root, int (*compare)(const void *, const void *))
{
	void *address = dlsym(RTLD_NEXT, "tsearch");
	search_fn *real;

	memcpy(&real, &address, sizeof(real));
	return no_memory ? NULL : real(key, root, compare);
}

static int setup(void **state)
{
	no_memory = false;
	return mr_cache_setup(state);
}

static void test_a_failure_leaves_nothing_behind(void **state)
{
	static const int errors[] = { ENOMEM, EFAULT, EINVAL, EIO, EPERM };
	struct ib_mr *mr;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		fake.error = errors[i];
		expect_refused(BASE + 8, 1, -errors[i], strerror(errors[i]));
		assert_non_null(strstr(why, "bytes of memory at 0x7f0000000000"));
		assert_int_equal(fake.calls, i + 1);
	}
	fake.error = 0;
	fake.no_errno = true;
	expect_refused(BASE, page, -EIO, "");
	fake.no_errno = false;
	mr = get_pages(0, 1);
	assert_int_equal(fake.regs, 1);
	put(mr);
	assert_int_equal(fake_live(), 0);
}

static void test_no_memory_names_the_limit(void **state)
{
	static const int errors[] = { ENOMEM, EAGAIN };
	struct rlimit limit;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		fake.error = errors[i];
		assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
		limit.rlim_cur = 40 << 10;
		assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
		expect_refused(BASE, page, -ENOMEM, "RLIMIT_MEMLOCK is 40 KiB");
		limit.rlim_cur = RLIM_INFINITY;
		if (limit.rlim_max == RLIM_INFINITY && !setrlimit(RLIMIT_MEMLOCK, &limit))
			expect_refused(BASE, page, -ENOMEM, "RLIMIT_MEMLOCK is unlimited");
	}
	fake.error = EFAULT;
	expect_refused(BASE, page, -EFAULT, "GPU memory without a peer-memory module");
	assert_null(strstr(why, "MEMLOCK"));
}

static void test_why_may_be_short(void **state)
{
	const struct memory_range range = { (void *)BASE, 1, host };
	struct ib_mr *mr;
	char text[8] = "1234567";

	(void)state;
	fake.error = ENOMEM;
	assert_int_equal(ib_mr_get(cache, &range, 0, &mr, text, 4), -ENOMEM);
	assert_memory_equal(text,
			    "can\0"
			    "567",
			    8);
	assert_int_equal(ib_mr_get(cache, &range, 0, &mr, NULL, 0), -ENOMEM);
}

static void test_a_table_that_cannot_grow_gives_back(void **state)
{
	struct ib_mr *held[100];
	size_t count = 0;

	(void)state;
	no_memory = true;
	expect_refused(BASE, page, -ENOMEM, "out of memory for a registration");
	assert_int_equal(fake.regs, 1);
	assert_int_equal(fake_live(), 0);
	no_memory = false;
	held[count++] = get_pages(0, 1);
	no_memory = true;
	while (count < ARRAY_SIZE(held) && !try_get(BASE + count * page, 1, 0, &held[count]))
		count++;
	assert_in_range(count, 1, ARRAY_SIZE(held) - 1);
	assert_null(held[count]);
	assert_int_equal(fake_live(), count);
	while (count)
		put(held[--count]);
}

static unsigned lines;
static char line_text[256];

__attribute__((format(printf, 5, 6))) static void count_line(int level, unsigned long flags,
							     const char *file, int line,
							     const char *fmt, ...)
{
	va_list args;

	(void)flags;
	(void)file;
	(void)line;
	lines += level == ANYNET_LOG_WARN;
	va_start(args, fmt);
	vsnprintf(line_text, sizeof(line_text), fmt, args);
	va_end(args);
}

static void test_what_stays_registered_is_told_once(void **state)
{
	(void)state;
	lines = 0;
	anynet_log_set_sink(count_line);
	fake.dereg_error = EIO;
	put(get_pages(0, 1));
	put(get_pages(1, 1));
	anynet_log_set_sink(NULL);
	assert_int_equal(lines, 1);
	assert_non_null(strstr(line_text, "dev fake_0: "));
	assert_non_null(strstr(line_text, "at 0x7f0000000000, which stay registered: Input/output error"));
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, mr_cache_teardown)
	const struct CMUnitTest tests[] = {
		T(test_a_failure_leaves_nothing_behind),
		T(test_no_memory_names_the_limit),
		T(test_why_may_be_short),
		T(test_a_table_that_cannot_grow_gives_back),
		T(test_what_stays_registered_is_told_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

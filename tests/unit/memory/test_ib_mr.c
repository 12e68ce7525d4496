/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of registrations, in one thread: registering, sharing, deregistering, and logging. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include <nccl_net/device.h>
#include <nccl_net/log.h>
#include <nccl_net/util.h>

#include "fakes/stubs/fake_mr.h"
#include "transports/memory/ib_mr.h"

#define BASE ((uintptr_t)0x7f0000000000)

static size_t page;
static struct ib_mr_cache *cache;
static char why[ANYNET_REASON_BYTES];
static bool no_memory;
static const struct memory_id host;

/* Replaces the C library's, to make the cache fail. */
void *reallocarray(void *old, size_t count, size_t bytes)
{
	return no_memory ? NULL : realloc(old, count * bytes);
}

static void start(bool relaxed_ordering)
{
	ib_mr_cache_destroy(cache);
	fake_reset();
	cache = ib_mr_cache_create(&fake.verbs, &fake.pd, relaxed_ordering);
	assert_non_null(cache);
}

static int setup(void **state)
{
	(void)state;
	page = (size_t)sysconf(_SC_PAGESIZE);
	no_memory = false;
	start(false);
	return 0;
}

static int teardown(void **state)
{
	bool left = fake_live();

	(void)state;
	ib_mr_cache_destroy(cache);
	cache = NULL;
	return left || fake_live() ? -1 : 0;
}

static int try_get(uintptr_t addr, size_t bytes, unsigned flags, struct ib_mr **mr)
{
	const struct memory_range range = { (void *)addr, bytes, host };

	return ib_mr_get(cache, &range, flags, mr, why, sizeof(why));
}

static struct ib_mr *get_at(uintptr_t addr, size_t bytes, unsigned flags)
{
	struct ib_mr *mr = NULL;

	*why = 0;
	if (try_get(addr, bytes, flags, &mr))
		fail_msg("%s", why);
	assert_non_null(mr);
	assert_string_equal(why, "");
	return mr;
}

/* `count` pages from page `first` on. */
static struct ib_mr *get_pages(size_t first, size_t count)
{
	return get_at(BASE + first * page, count * page, 0);
}

static void put(struct ib_mr *mr)
{
	ib_mr_put(cache, mr);
}

static void expect_refused(uintptr_t addr, size_t bytes, int ret, const char *part)
{
	struct ib_mr *mr = (void *)1;

	if (try_get(addr, bytes, 0, &mr) != ret || !strstr(why, part))
		fail_msg("%s lacks '%s'", why, part);
	assert_null(mr);
}

static void expect_last(uintptr_t addr, size_t bytes, int kind, unsigned access)
{
	assert_int_equal(fake.last.addr, addr);
	assert_int_equal(fake.last.bytes, bytes);
	assert_int_equal(fake.last.kind, kind);
	assert_int_equal(fake.last.access, access);
}

static void test_whole_pages_are_registered(void **state)
{
	struct ib_mr *one, *two;

	(void)state;
	one = get_at(BASE + 16, 1, 0);
	expect_last(BASE, page, FAKE_PLAIN, FAKE_ACCESS);
	assert_int_equal(one->lkey, one->verbs_mr->lkey);
	assert_int_equal(one->rkey, one->verbs_mr->rkey);
	assert_false(one->is_relaxed);
	two = get_at(BASE + page - 1, 2, 0);
	expect_last(BASE, 2 * page, FAKE_PLAIN, FAKE_ACCESS);
	put(one);
	put(two);
}

static void test_what_covers_a_range_is_shared(void **state)
{
	struct ib_mr *big, *same, *inner, *end, *beyond, *before;

	(void)state;
	big = get_pages(4, 4);
	same = get_pages(4, 4);
	inner = get_at(BASE + 5 * page + 7, page, 0);
	end = get_pages(7, 1);
	assert_int_equal(fake.regs, 1);
	assert_true(same == big && inner == big && end == big);
	beyond = get_pages(7, 2);
	before = get_pages(3, 2);
	assert_int_equal(fake.regs, 3);
	for (struct ib_mr *mrs[] = { big, same, inner, end, beyond, before }, **mr = mrs;
	     mr < mrs + ARRAY_SIZE(mrs); mr++)
		put(*mr);
}

/* It would keep the registration when the memory is unmapped, and other memory is mapped at its other pages. */
static void test_a_neighbour_on_the_last_page_shares_nothing(void **state)
{
	struct ib_mr *mr = get_at(BASE + 100, 4 * page, 0);
	struct ib_mr *neighbour = get_at(BASE + 4 * page + 100, 64, 0), *again;

	(void)state;
	assert_int_equal(fake.regs, 2);
	put(mr);
	again = get_at(BASE + page, page, 0);
	assert_int_equal(fake.regs, 3);
	put(again);
	put(neighbour);
}

static void test_a_small_one_does_not_hide_a_large_one(void **state)
{
	struct ib_mr *small[4], *big, *found;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(small); i++)
		small[i] = get_pages(2 * i, 1);
	big = get_pages(0, 16);
	found = get_pages(6, 2);
	assert_ptr_equal(found, big);
	put(found);
	put(big);
	found = get_pages(6, 1);
	assert_ptr_equal(found, small[3]);
	put(found);
	for (size_t i = 0; i < ARRAY_SIZE(small); i++)
		put(small[i]);
}

static void test_the_last_put_deregisters_at_once(void **state)
{
	struct ib_mr *first = get_pages(0, 4), *second = get_pages(1, 2);

	(void)state;
	put(first);
	assert_int_equal(fake.deregs, 0);
	put(second);
	assert_int_equal(fake.deregs, 1);
	second = get_pages(1, 2);
	assert_int_equal(fake.regs, 2);
	expect_last(BASE + page, 2 * page, FAKE_PLAIN, FAKE_ACCESS);
	put(second);
	put(NULL);
	assert_int_equal(fake.deregs, 2);
}

static void test_other_flags_are_another_registration(void **state)
{
	struct ib_mr *any = get_pages(0, 4), *local, *inner;

	(void)state;
	local = get_at(BASE, page, IB_MR_LOCAL);
	assert_ptr_not_equal(local, any);
	inner = get_at(BASE, 1, IB_MR_LOCAL);
	assert_ptr_equal(inner, local);
	put(inner);
	inner = get_pages(0, 1);
	assert_ptr_equal(inner, any);
	assert_int_equal(fake.regs, 2);
	put(inner);
	put(any);
	put(local);
}

/* cudaFree and cudaMalloc may return other memory at the same addresses while the first is still registered. */
static void test_other_memory_at_an_address_is_another_registration(void **state)
{
	const struct memory_id ids[] = { { 0, 0 }, { 7, 7 }, { 7, 8 }, { 8, 7 }, { 8, 8 } };
	struct memory_range range = { (void *)BASE, page, host };
	struct ib_mr *mrs[ARRAY_SIZE(ids)], *again;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		range.id = ids[i];
		assert_int_equal(ib_mr_get(cache, &range, 0, &mrs[i], why, sizeof(why)), 0);
		assert_int_equal(fake.regs, i + 1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		range.id = ids[i];
		assert_int_equal(ib_mr_get(cache, &range, 0, &again, why, sizeof(why)), 0);
		assert_ptr_equal(again, mrs[i]);
		put(again);
		put(mrs[i]);
	}
	assert_int_equal(fake.regs, ARRAY_SIZE(ids));
}

/* Random gets and puts; a linear search computes whether a get must register. */
static void test_no_registration_is_overlooked(void **state)
{
	static struct ib_mr *held[96];
	unsigned seed = 1;

	(void)state;
	for (unsigned step = 0; step < 30000; step++) {
		size_t at = (size_t)rand_r(&seed) % ARRAY_SIZE(held);
		size_t first = (size_t)rand_r(&seed) % 512, count = 1;
		unsigned flags = rand_r(&seed) % 4 ? 0 : IB_MR_LOCAL, regs = fake.regs;
		uintptr_t low = BASE + first * page, last;
		bool covered = false;

		while (rand_r(&seed) % 3 && count < 64)
			count *= 2;
		last = low + count * page - 1;
		put(held[at]);
		held[at] = NULL;
		for (size_t i = 0; i < ARRAY_SIZE(held); i++)
			covered |= held[i] && held[i]->key.flags == flags &&
				   held[i]->first <= low && held[i]->last >= last;
		held[at] = get_at(low, count * page, flags);
		assert_int_equal(fake.regs - regs, !covered);
		assert_true(held[at]->key.flags == flags && held[at]->first <= low &&
			    held[at]->last >= last);
	}
	assert_in_range(fake.regs, 3000, 25000);
	for (size_t i = 0; i < ARRAY_SIZE(held); i++)
		put(held[i]);
}

/* A peer that guesses a key reads no host memory. */
static void test_only_memory_that_flushes_read_can_be_read(void **state)
{
	struct ib_mr *plain, *gpu;

	(void)state;
	plain = get_at(BASE, page, 0);
	expect_last(BASE, page, FAKE_PLAIN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	gpu = get_at(BASE, page, IB_MR_READ);
	expect_last(BASE, page, FAKE_PLAIN,
		    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	assert_ptr_not_equal(plain, gpu);
	put(plain);
	put(gpu);
}

static void test_relaxed_ordering_is_asked_for_where_it_may_be(void **state)
{
	struct ib_mr *mr;

	(void)state;
	start(true);
	mr = get_pages(0, 1);
	expect_last(BASE, page, FAKE_IOVA2, FAKE_ACCESS | IBV_ACCESS_RELAXED_ORDERING);
	assert_int_equal(fake.last.iova, BASE);
	assert_true(mr->is_relaxed);
	put(mr);
	mr = get_at(BASE, page, IB_MR_LOCAL);
	expect_last(BASE, page, FAKE_PLAIN, IBV_ACCESS_LOCAL_WRITE);
	assert_false(mr->is_relaxed);
	put(mr);

	ib_mr_cache_destroy(cache);
	fake.verbs.reg_mr_iova2 = NULL;
	cache = ib_mr_cache_create(&fake.verbs, &fake.pd, true);
	mr = get_pages(0, 1);
	expect_last(BASE, page, FAKE_PLAIN, FAKE_ACCESS);
	put(mr);
}

static void test_refused_relaxed_ordering_is_left_out_once(void **state)
{
	static const int refusals[] = { EINVAL, EOPNOTSUPP, EPROTONOSUPPORT, ENOSYS };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		struct ib_mr *mr;

		start(true);
		fake.relaxed_error = refusals[i];
		mr = get_pages(0, 1);
		assert_int_equal(fake.calls, 2);
		expect_last(BASE, page, FAKE_PLAIN, FAKE_ACCESS);
		assert_false(mr->is_relaxed);
		put(mr);
		fake.error = refusals[i];
		expect_refused(BASE, page, -refusals[i], strerror(refusals[i]));
		assert_int_equal(fake.calls, 4);
	}
	start(true);
	fake.relaxed_error = ENOMEM;
	expect_refused(BASE, page, -ENOMEM, "");
	assert_int_equal(fake.calls, 1);
}

static void test_an_empty_range_may_be_anywhere(void **state)
{
	struct ib_mr *nothing, *mr;

	(void)state;
	nothing = get_at(0, 0, 0);
	assert_int_equal(fake.last.bytes, page);
	assert_true(fake.last.addr);
	assert_memory_equal((void *)fake.last.addr, &(char){ 0 }, 1);
	for (uintptr_t addr = 16; addr; addr <<= 8) {
		mr = get_at(addr, 0, 0);
		assert_ptr_equal(mr, nothing);
		put(mr);
	}
	mr = get_at(UINTPTR_MAX, 0, 0);
	assert_ptr_equal(mr, nothing);
	assert_int_equal(ib_mr_get_dmabuf(cache, &(struct memory_range){ .id = { 9, 9 } },
					  &(struct anynet_dmabuf){ -1, 1 }, &mr, why, sizeof(why)),
			 0);
	assert_ptr_equal(mr, nothing);
	assert_int_equal(fake.regs, 1);
	for (int i = 0; i < 3; i++)
		put(nothing);
}

static void test_a_range_may_end_with_the_address_space(void **state)
{
	uintptr_t top = UINTPTR_MAX - page + 1;
	struct ib_mr *end, *inner, *start_page;

	(void)state;
	end = get_at(top - page, 2 * page, 0);
	expect_last(top - page, 2 * page, FAKE_PLAIN, FAKE_ACCESS);
	assert_int_equal(end->last, UINTPTR_MAX);
	inner = get_at(UINTPTR_MAX, 1, 0);
	assert_ptr_equal(inner, end);
	start_page = get_at(0, 1, 0);
	expect_last(0, page, FAKE_PLAIN, FAKE_ACCESS);
	assert_int_equal(fake.regs, 2);
	expect_refused(top, page + 1, -EINVAL, "exceed the address space");
	expect_refused(UINTPTR_MAX, 2, -EINVAL, "exceed the address space");
	expect_refused(1, SIZE_MAX, -EINVAL, "exceed the address space");
	expect_refused(BASE, SIZE_MAX, -EINVAL, "exceed the address space");
	assert_int_equal(fake.calls, 2);
	put(end);
	put(inner);
	put(start_page);
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

static void test_what_is_left_is_given_back_at_the_end(void **state)
{
	(void)state;
	ib_mr_cache_destroy(NULL);
	get_pages(0, 1);
	get_pages(0, 1);
	get_pages(1, 4);
	get_at(BASE, 0, IB_MR_LOCAL);
	assert_int_equal(fake_live(), 3);
	ib_mr_cache_destroy(cache);
	cache = NULL;
	assert_int_equal(fake_live(), 0);
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

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_whole_pages_are_registered),
		T(test_what_covers_a_range_is_shared),
		T(test_a_neighbour_on_the_last_page_shares_nothing),
		T(test_a_small_one_does_not_hide_a_large_one),
		T(test_the_last_put_deregisters_at_once),
		T(test_other_flags_are_another_registration),
		T(test_other_memory_at_an_address_is_another_registration),
		T(test_no_registration_is_overlooked),
		T(test_only_memory_that_flushes_read_can_be_read),
		T(test_relaxed_ordering_is_asked_for_where_it_may_be),
		T(test_refused_relaxed_ordering_is_left_out_once),
		T(test_an_empty_range_may_be_anywhere),
		T(test_a_range_may_end_with_the_address_space),
		T(test_a_failure_leaves_nothing_behind),
		T(test_no_memory_names_the_limit),
		T(test_why_may_be_short),
		T(test_a_table_that_cannot_grow_gives_back),
		T(test_what_is_left_is_given_back_at_the_end),
		T(test_what_stays_registered_is_told_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

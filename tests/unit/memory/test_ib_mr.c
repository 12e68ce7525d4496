/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of registrations, in one thread: what is registered, and what is shared. */
#include "mr_cache.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <nccl_net/util.h>

static void test_whole_pages_are_registered(void **state)
{
	struct ib_mr *one, *two;

	(void)state;
	one = get_at(BASE + 16, 1, 0);
	expect_last(BASE, page, FAKE_PLAIN, FAKE_ACCESS);
	assert_int_equal(one->lkey, one->verbs_mr->lkey);
	assert_int_equal(one->rkey, one->verbs_mr->rkey);
	two = get_at(BASE + page - 1, 2, 0);
	expect_last(BASE, 2 * page, FAKE_PLAIN, FAKE_ACCESS);
	put(one);
	put(two);
}

static void test_equal_ranges_are_shared(void **state)
{
	static const size_t others[][2] = { { 4, 3 }, { 5, 3 }, { 4, 5 }, { 3, 5 } };
	struct ib_mr *mr = get_pages(4, 4), *same = get_pages(4, 4), *other[ARRAY_SIZE(others)];

	(void)state;
	assert_ptr_equal(same, mr);
	assert_int_equal(fake.regs, 1);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		other[i] = get_pages(others[i][0], others[i][1]);
	assert_int_equal(fake.regs, 1 + ARRAY_SIZE(others));
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		put(other[i]);
	put(mr);
	put(same);
}

/* It would keep the registration when the rest is unmapped, and other memory is mapped there. */
static void test_a_part_of_a_range_shares_nothing(void **state)
{
	struct ib_mr *whole = get_pages(0, 16), *part = get_pages(1, 1), *again;

	(void)state;
	put(whole);
	assert_int_equal(fake.deregs, 1);
	again = get_pages(2, 14);
	assert_int_equal(fake.regs, 3);
	put(again);
	put(part);
}

static void test_the_last_put_deregisters_at_once(void **state)
{
	struct ib_mr *first = get_pages(1, 2), *second = get_pages(1, 2);

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
	struct ib_mr *plain = get_pages(0, 1), *readable, *again;

	(void)state;
	readable = get_at(BASE, page, IB_MR_READ);
	assert_ptr_not_equal(readable, plain);
	again = get_at(BASE, page, IB_MR_READ);
	assert_ptr_equal(again, readable);
	put(again);
	again = get_pages(0, 1);
	assert_ptr_equal(again, plain);
	assert_int_equal(fake.regs, 2);
	put(again);
	put(plain);
	put(readable);
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
		size_t first = (size_t)rand_r(&seed) % 32, count = 1;
		unsigned flags = rand_r(&seed) % 4 ? 0 : IB_MR_READ, regs = fake.regs;
		uintptr_t low = BASE + first * page, last;
		bool is_held = false;

		while (rand_r(&seed) % 3 && count < 64)
			count *= 2;
		last = low + count * page - 1;
		put(held[at]);
		held[at] = NULL;
		for (size_t i = 0; i < ARRAY_SIZE(held); i++)
			is_held |= held[i] && held[i]->key.flags == flags &&
				   held[i]->key.first == low && held[i]->key.last == last;
		held[at] = get_at(low, count * page, flags);
		assert_int_equal(fake.regs - regs, !is_held);
		assert_true(held[at]->key.flags == flags && held[at]->key.first == low &&
			    held[at]->key.last == last);
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
	put(mr);

	free(cache);
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

static void test_a_range_may_end_with_the_address_space(void **state)
{
	uintptr_t top = UINTPTR_MAX - page + 1;
	struct ib_mr *end, *again, *start_page;

	(void)state;
	end = get_at(top - page, 2 * page, 0);
	expect_last(top - page, 2 * page, FAKE_PLAIN, FAKE_ACCESS);
	assert_int_equal(end->key.last, UINTPTR_MAX);
	again = get_at(top - page, 2 * page, 0);
	assert_ptr_equal(again, end);
	start_page = get_at(0, 1, 0);
	expect_last(0, page, FAKE_PLAIN, FAKE_ACCESS);
	assert_int_equal(fake.regs, 2);
	expect_refused(top, page + 1, -EINVAL, "exceed the address space");
	expect_refused(UINTPTR_MAX, 2, -EINVAL, "exceed the address space");
	expect_refused(1, SIZE_MAX, -EINVAL, "exceed the address space");
	expect_refused(BASE, SIZE_MAX, -EINVAL, "exceed the address space");
	assert_int_equal(fake.calls, 2);
	put(end);
	put(again);
	put(start_page);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, mr_cache_setup, mr_cache_teardown)
	const struct CMUnitTest tests[] = {
		T(test_whole_pages_are_registered),
		T(test_equal_ranges_are_shared),
		T(test_a_part_of_a_range_shares_nothing),
		T(test_the_last_put_deregisters_at_once),
		T(test_other_flags_are_another_registration),
		T(test_other_memory_at_an_address_is_another_registration),
		T(test_no_registration_is_overlooked),
		T(test_only_memory_that_flushes_read_can_be_read),
		T(test_relaxed_ordering_is_asked_for_where_it_may_be),
		T(test_refused_relaxed_ordering_is_left_out_once),
		T(test_a_range_may_end_with_the_address_space),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

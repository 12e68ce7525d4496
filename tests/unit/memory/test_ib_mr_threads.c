/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of registrations used by several threads, which meet inside the device's functions. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <nccl_net/device.h>
#include <nccl_net/util.h>

#include "fakes/stubs/fake_mr.h"
#include "transports/memory/ib_mr.h"

#define BASE    ((uintptr_t)0x7f0000000000)
#define THREADS 4
#define ROUNDS  5000
#define YIELD   16 /* registrations of a thread between two yields, which may take long */
#define HELD    6

static size_t page;
static struct ib_mr_cache *cache;
static const struct memory_id host;
static pthread_barrier_t barrier;

static int setup(void **state)
{
	(void)state;
	page = (size_t)sysconf(_SC_PAGESIZE);
	fake_reset();
	cache = ib_mr_cache_create(&fake.verbs, &fake.pd, false);
	return cache && !pthread_barrier_init(&barrier, NULL, 2) ? 0 : -1;
}

static int teardown(void **state)
{
	bool left = fake_live();

	(void)state;
	free(cache);
	pthread_barrier_destroy(&barrier);
	return left ? -1 : 0;
}

/* Registrations of a thread: a number of pages from BASE on. */
struct getter {
	pthread_t thread;
	size_t pages;
	struct ib_mr *mr;
	int ret;
	char why[ANYNET_REASON_BYTES];
};

static void *run_getter(void *arg)
{
	struct getter *getter = arg;
	const struct memory_range range = { (void *)BASE, getter->pages * page, host };

	getter->ret = ib_mr_get(cache, &range, 0, &getter->mr, getter->why, sizeof(getter->why));
	return NULL;
}

static void start(struct getter *getter, size_t pages)
{
	*getter = (struct getter){ .pages = pages };
	assert_int_equal(pthread_create(&getter->thread, NULL, run_getter, getter), 0);
}

static struct ib_mr *get_pages(size_t first, size_t count)
{
	const struct memory_range range = { (void *)(BASE + first * page), count * page, host };
	struct ib_mr *mr = NULL;
	char why[ANYNET_REASON_BYTES];

	if (ib_mr_get(cache, &range, 0, &mr, why, sizeof(why)))
		fail_msg("%s", why);
	return mr;
}

static void meet(const struct fake_call *call)
{
	(void)call;
	pthread_barrier_wait(&barrier);
}

static void test_the_second_of_two_gives_its_own_back(void **state)
{
	struct getter one, two;

	(void)state;
	fake.in_reg = meet;
	start(&one, 2);
	start(&two, 2);
	pthread_join(one.thread, NULL);
	pthread_join(two.thread, NULL);
	assert_int_equal(one.ret | two.ret, 0);
	assert_ptr_equal(one.mr, two.mr);
	assert_int_equal(one.mr->lkey, one.mr->verbs_mr->lkey);
	assert_int_equal(fake.regs, 2);
	assert_int_equal(fake.deregs, 1);
	ib_mr_put(one.mr);
	assert_int_equal(fake.deregs, 1);
	ib_mr_put(two.mr);
	assert_int_equal(fake.deregs, 2);
}

/* The next registration waits at the barrier at its start and at its end. */
static void hold_one(const struct fake_call *call)
{
	(void)call;
	fake.in_reg = NULL;
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
}

static void test_what_is_gone_again_is_not_used(void **state)
{
	struct getter getter;

	(void)state;
	fake.in_reg = hold_one;
	start(&getter, 1);
	pthread_barrier_wait(&barrier);
	ib_mr_put(get_pages(0, 1));
	pthread_barrier_wait(&barrier);
	pthread_join(getter.thread, NULL);
	assert_int_equal(getter.mr->lkey, getter.mr->verbs_mr->lkey);
	assert_int_equal(fake_live(), 1);
	ib_mr_put(getter.mr);
}

/* A thread fails, because the limit does not allow the same range twice. */
static void test_a_failure_finds_what_another_thread_has_made(void **state)
{
	struct getter getter;
	struct ib_mr *mr;

	(void)state;
	fake.in_reg = hold_one;
	fake.error = ENOMEM;
	start(&getter, 1);
	pthread_barrier_wait(&barrier);
	fake.error = 0;
	mr = get_pages(0, 1);
	pthread_barrier_wait(&barrier);
	pthread_join(getter.thread, NULL);
	assert_int_equal(getter.ret, 0);
	assert_ptr_equal(getter.mr, mr);
	assert_int_equal(fake.regs, 1);
	ib_mr_put(mr);
	ib_mr_put(getter.mr);
}

static struct ib_mr *again;

/* Another registration of a range that is being deregistered; it would wait for a lock for ever. */
static void get_again(void)
{
	fake.in_dereg = NULL;
	again = get_pages(0, 1);
}

static void test_deregistering_locks_nobody_out(void **state)
{
	(void)state;
	fake.in_dereg = get_again;
	ib_mr_put(get_pages(0, 1));
	assert_int_equal(fake.regs, 2);
	assert_int_equal(fake.deregs, 1);
	assert_int_equal(again->lkey, again->verbs_mr->lkey);
	ib_mr_put(again);
}

static void give_way(const struct fake_call *call)
{
	static _Thread_local unsigned calls;

	(void)call;
	if (!(++calls % YIELD))
		sched_yield();
}

/* Returns the error. */
static const char *get_and_check(unsigned *seed, struct ib_mr **mr)
{
	uintptr_t first = BASE + (size_t)rand_r(seed) % 12 * page;
	size_t bytes = (1 + (size_t)rand_r(seed) % 4) * page;
	unsigned flags = rand_r(seed) % 2 ? IB_MR_READ : 0;
	const struct memory_range range = { (void *)first, bytes, host };
	char why[ANYNET_REASON_BYTES];

	if (ib_mr_get(cache, &range, flags, mr, why, sizeof(why)))
		return "a get fails";
	if ((*mr)->key.first > first || (*mr)->key.last < first + bytes - 1)
		return "a registration does not cover what it is for";
	return (*mr)->key.flags == flags ? NULL : "a registration has other flags";
}

static void *run_stress(void *arg)
{
	struct ib_mr *held[HELD] = { NULL };
	const char *wrong = NULL;
	unsigned seed = (unsigned)(uintptr_t)arg;

	for (int round = 0; round < ROUNDS && !wrong; round++) {
		struct ib_mr **mr = &held[rand_r(&seed) % HELD];

		/* Held ranges are still registered: the device knows their keys. */
		if (*mr &&
		    ((*mr)->lkey != (*mr)->verbs_mr->lkey || (*mr)->rkey != (*mr)->verbs_mr->rkey))
			wrong = "a registration that is held was given back";
		ib_mr_put(*mr);
		*mr = NULL;
		if (!wrong)
			wrong = get_and_check(&seed, mr);
	}
	for (size_t i = 0; i < HELD; i++)
		ib_mr_put(held[i]);
	return (void *)(uintptr_t)wrong;
}

static void test_overlapping_ranges_from_many_threads(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	fake.in_reg = give_way;
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_stress, (void *)(i + 1)), 0);
	for (size_t i = 0; i < THREADS; i++) {
		void *wrong;

		pthread_join(threads[i], &wrong);
		if (wrong)
			fail_msg("%s", (const char *)wrong);
	}
	assert_true(fake.regs > 100);
	assert_int_equal(fake_live(), 0);
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_the_second_of_two_gives_its_own_back),
		T(test_what_is_gone_again_is_not_used),
		T(test_a_failure_finds_what_another_thread_has_made),
		T(test_deregistering_locks_nobody_out),
		T(test_overlapping_ranges_from_many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Fused devices when NCCL begins anew, beside another NCCL, and in several threads. Each test runs in its own process. */
#include "fusing.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "child.h"
#include "support/check.h"

#define THREADS 8

/* --- restarts --- */

/* NCCL 2.28 unloads the plugin with its last communicator, and starts again later. */
static void begin_anew(void)
{
	void *ctx[2] = { begin("iiii"), NULL };
	const char *name;

	check_int(make(2, (const int[]){ 0, 1 }), 4);
	check_int(make(2, (const int[]){ 2, 3 }), 5);
	name = props_of(4).name;
	ncclNetPlugin_v12.init(&ctx[1], 2, NULL, fake_logger, NULL);
	check_int(device_count(), 6); /* another communicator changes nothing */
	ncclNetPlugin_v12.finalize(ctx[0]);
	check_int(device_count(), 6);
	ncclNetPlugin_v12.finalize(ctx[1]);
	begin("iiii");
	check_int(device_count(), 4);
	check(props_of(5).vprops.devs[1] == 3); /* for a caller that kept the index */
	check_int(make(2, (const int[]){ 0, 1 }), 4);
	check_int(device_count(), 5);
	check(props_of(4).name == name);
	check_int(make(2, (const int[]){ 0, 2 }), 5); /* this time other devices */
	check(!strcmp(props_of(5).name, "mlx5_0+mlx5_2"));
}

/* The older interface has no finalize, but one init per load. */
static void begin_anew_by_v10(void)
{
	begin("ii");
	check_int(make(2, (const int[]){ 0, 1 }), 2);
	check_ok(ncclNetPlugin_v10.init(fake_logger, NULL));
	check_int(device_count(), 2);
	check_int(make(2, (const int[]){ 0, 1 }), 2);
	check_int(device_count(), 3);
	check_ok(ncclNetPlugin_v9.init(fake_logger));
	check_int(device_count(), 2);
	check_int(props_of(2).vprops.count, 2);
}

static void test_nccl_may_begin_anew(void **state)
{
	(void)state;
	assert_int_equal(in_process(begin_anew), 0);
	assert_int_equal(in_process(begin_anew_by_v10), 0);
}

static void other_logger(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	(void)level, (void)flags, (void)file, (void)line, (void)fmt;
}

/* The first NCCL is alive when the second one starts, and asks for a group of its own before one that both have. */
static void begin_beside(int abi)
{
	void *other = NULL;
	int dev;

	begin("iiii");
	check_int(make(2, (const int[]){ 0, 1 }), 4);
	check_int(make(2, (const int[]){ 2, 3 }), 5);
	if (abi == 10)
		check_ok(ncclNetPlugin_v10.init(other_logger, NULL));
	else
		check_ok(ncclNetPlugin_v12.init(&other, 2, NULL, other_logger, NULL));
	check_int(device_count(), 4);
	check_ok(make_by(abi, &dev, 2, (const int[]){ 0, 2 }));
	check_int(dev, 6);
	check_int(device_count(), 7);
	check(!strcmp(props_of(4).name, "mlx5_0+mlx5_1"));
	check(!strcmp(props_of(5).name, "mlx5_2+mlx5_3"));
	check(!strcmp(props_of(6).name, "mlx5_0+mlx5_2"));
	check_ok(ncclNetPlugin_v10.init(other_logger, NULL));
	check_ok(make_by(10, &dev, 2, (const int[]){ 0, 1 }));
	check_int(dev, 4);
	check_int(device_count(), 5);
}

static void begin_beside_by_v10(void)
{
	begin_beside(10);
}

static void begin_beside_by_v12(void)
{
	begin_beside(12);
}

static void test_two_nccls_keep_their_devices(void **state)
{
	(void)state;
	assert_int_equal(in_process(begin_beside_by_v10), 0);
	assert_int_equal(in_process(begin_beside_by_v12), 0);
}

/* However often, always with other groups: the process does not grow without limit. */
static void make_ever_more(void)
{
	const int pairs[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17 };
	int made = 0, dev, ret = 0;

	begin("iiiiiiiiiiiiiiiiii");
	for (int a = 0; a < 18; a++) {
		for (int b = 0; b < 18; b++) {
			if (a == b)
				continue;
			check_ok(ncclNetPlugin_v10.init(fake_logger, NULL));
			ret = make_by(12, &dev, 2, (const int[]){ pairs[a], pairs[b] });
			made += !ret;
			check(!ret || strstr(fake_log.text, "cannot fuse more devices"));
		}
	}
	check_int(made, 256);
	check_int(make(2, (const int[]){ 0, 1 }), 18); /* existing ones still work */
}

static void test_the_number_of_fused_devices_is_limited(void **state)
{
	(void)state;
	assert_int_equal(in_process(make_ever_more), 0);
}

/* --- threads --- */

static void *make_thread(void *arg)
{
	const int *number = arg;
	int dev = make(2, (const int[]){ 2 * *number, 2 * *number + 1 });

	check_int(props_of(dev).vprops.devs[0], 2 * *number);
	for (int i = 0; i < 1000; i++)
		for (int d = 0; d < device_count(); d++)
			check(props_of(d).name[0] == 'm');
	return NULL;
}

static void make_in_many_threads(void)
{
	pthread_t threads[THREADS];
	int numbers[THREADS];

	begin_with("rrrrrrrrrrrrrrrr", NULL); /* the logger is not thread-safe */
	for (int i = 0; i < THREADS; i++) {
		numbers[i] = i;
		check(!pthread_create(&threads[i], NULL, make_thread, &numbers[i]));
	}
	for (int i = 0; i < THREADS; i++)
		check(!pthread_join(threads[i], NULL));
	check_int(device_count(), 16 + THREADS);
}

static void test_threads_may_make_some_at_the_same_time(void **state)
{
	(void)state;
	assert_int_equal(in_process(make_in_many_threads), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nccl_may_begin_anew),
		cmocka_unit_test(test_two_nccls_keep_their_devices),
		cmocka_unit_test(test_the_number_of_fused_devices_is_limited),
		cmocka_unit_test(test_threads_may_make_some_at_the_same_time),
	};

	return cmocka_run_group_tests_name("fused_life", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of the plugin's single instance: init calls, contexts, threads and forks. Each test runs in its own process,
 * because the instance never starts again.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <plugin/abi.h>

#include "child.h"
#include "fakes/stubs/fake_comm.h"
#include "support/check.h"

#define THREADS 8

static int device_count(void)
{
	int count = -1;

	check(ncclNetPlugin_v12.devices(&count) == ANYNET_NCCL_SUCCESS);
	return count;
}

static void *listen_somewhere(void)
{
	char handle[ANYNET_HANDLE_BYTES];
	void *listener = NULL;

	check(ncclNetPlugin_v8.listen(0, handle, &listener) == ANYNET_NCCL_SUCCESS);
	check(listener == FAKE_LISTENER);
	return listener;
}

/* --- init --- */

static void init_by_every_version(void)
{
	void *ctx[2];

	for (int i = 0; i < 3; i++) {
		check(ncclNetPlugin_v5.init(fake_logger) == ANYNET_NCCL_SUCCESS);
		check(ncclNetPlugin_v6.init(fake_logger) == ANYNET_NCCL_SUCCESS);
		check(ncclNetPlugin_v7.init(NULL) == ANYNET_NCCL_SUCCESS);
		check(ncclNetPlugin_v8.init(fake_logger) == ANYNET_NCCL_SUCCESS);
		check(ncclNetPlugin_v9.init(fake_logger) == ANYNET_NCCL_SUCCESS);
		check(ncclNetPlugin_v10.init(fake_logger, NULL) == ANYNET_NCCL_SUCCESS);
		check(ncclNetPlugin_v11.init(&ctx[0], 1, NULL, fake_logger, NULL) ==
		      ANYNET_NCCL_SUCCESS);
		check(ncclNetPlugin_v12.init(&ctx[1], 2, NULL, fake_logger, NULL) ==
		      ANYNET_NCCL_SUCCESS);
		check(device_count() == 2);
		check(ncclNetPlugin_v11.finalize(ctx[0]) == ANYNET_NCCL_SUCCESS);
		check(ncclNetPlugin_v12.finalize(ctx[1]) == ANYNET_NCCL_SUCCESS);
	}
	check(fake.probes == 1);
	check(fake.starts == 1);
}

static void test_init_is_repeatable_by_every_version(void **state)
{
	(void)state;
	assert_int_equal(in_process(init_by_every_version), 0);
}

static void use_without_init(void)
{
	struct anynet_net_props_v8 props;

	listen_somewhere();
	check(ncclNetPlugin_v8.get_properties(1, &props) == ANYNET_NCCL_SUCCESS);
	check(!strcmp(props.name, "eth9"));
	check(fake.probes == 1 && fake.starts == 1);
	check(ncclNetPlugin_v8.init(fake_logger) == ANYNET_NCCL_SUCCESS);
	check(fake.probes == 1 && fake.starts == 1);
}

static void test_works_without_init(void **state)
{
	(void)state;
	assert_int_equal(in_process(use_without_init), 0);
}

static void *init_thread(void *ctx)
{
	struct anynet_net_config_v10 config = { .traffic_class = 3 };

	check(ncclNetPlugin_v12.init(ctx, 42, &config, NULL, NULL) == ANYNET_NCCL_SUCCESS);
	check(device_count() == 2);
	listen_somewhere();
	return NULL;
}

static void init_in_many_threads(void)
{
	pthread_t threads[THREADS];
	void *ctx[THREADS];

	for (int i = 0; i < THREADS; i++)
		check(!pthread_create(&threads[i], NULL, init_thread, &ctx[i]));
	for (int i = 0; i < THREADS; i++)
		check(!pthread_join(threads[i], NULL));
	check(fake.probes == 1 && fake.starts == 1);
	for (int i = 0; i < THREADS; i++)
		check(ncclNetPlugin_v12.finalize(ctx[i]) == ANYNET_NCCL_SUCCESS);
	check(fake.trims == THREADS);
}

static void test_init_from_many_threads_probes_once(void **state)
{
	(void)state;
	assert_int_equal(in_process(init_in_many_threads), 0);
}

/* --- contexts --- */

static void finalize_orders(void)
{
	void *a = NULL, *b = NULL, *c = NULL;

	check(ncclNetPlugin_v12.finalize(NULL) == ANYNET_NCCL_SUCCESS); /* before any init */
	check(fake.trims == 0);
	ncclNetPlugin_v11.init(&a, 1, NULL, NULL, NULL);
	ncclNetPlugin_v11.init(&b, 1, NULL, NULL, NULL); /* the same communicator hash */
	check(a && b && a != b);
	check(ncclNetPlugin_v11.finalize(a) == ANYNET_NCCL_SUCCESS);
	check(fake.trims == 1 && fake.trimmed == a); /* b may be in the middle of a connect */
	ncclNetPlugin_v11.init(&c, 3, NULL, NULL, NULL);
	check(ncclNetPlugin_v11.finalize(c) == ANYNET_NCCL_SUCCESS);
	check(fake.trims == 2 && fake.trimmed == c);
	check(ncclNetPlugin_v11.finalize(b) == ANYNET_NCCL_SUCCESS);
	check(fake.trims == 3 && fake.trimmed == b);
	check(ncclNetPlugin_v11.finalize(b) == ANYNET_NCCL_SUCCESS); /* twice */
	check(ncclNetPlugin_v11.finalize(NULL) == ANYNET_NCCL_SUCCESS);
	check(fake.trims == 3);
	ncclNetPlugin_v12.init(&a, 1, NULL, NULL, NULL);
	check(a && device_count() == 2);
	check(fake.probes == 1);
	check(ncclNetPlugin_v12.finalize(a) == ANYNET_NCCL_SUCCESS);
}

static void test_contexts_end_in_any_order(void **state)
{
	(void)state;
	assert_int_equal(in_process(finalize_orders), 0);
}

/* --- forks --- */

/* As in PID namespaces, where each process may be the first. */
pid_t getpid(void)
{
	return 1;
}

static void forked_with_connections_open(void)
{
	char handle[ANYNET_HANDLE_BYTES];
	void *out = FAKE_COMM;

	fake_log_clear();
	check(ncclNetPlugin_v8.init(fake_logger) == ANYNET_NCCL_SUCCESS);
	check(device_count() == 2);
	for (int i = 0; i < 3; i++) {
		check(ncclNetPlugin_v8.listen(0, handle, &out) == ANYNET_NCCL_SYSTEM_ERROR);
		check(!out);
		check(ncclNetPlugin_v8.connect(0, handle, &out, NULL) == ANYNET_NCCL_SYSTEM_ERROR);
		check(!out);
		check(ncclNetPlugin_v8.accept(FAKE_LISTENER, &out, NULL) ==
		      ANYNET_NCCL_SYSTEM_ERROR);
		check(!out);
	}
	check(fake_log.warnings == 1 && strstr(fake_log.text, "forked"));
	/* Objects that the parent opened belong to the parent. */
	check(ncclNetPlugin_v8.close_send(FAKE_COMM) == ANYNET_NCCL_SUCCESS);
	check(ncclNetPlugin_v8.close_listen(FAKE_LISTENER) == ANYNET_NCCL_SUCCESS);
	check(ncclNetPlugin_v8.dereg_mr(FAKE_COMM, FAKE_MR) == ANYNET_NCCL_SUCCESS);
	check(ncclNetPlugin_v12.finalize(NULL) == ANYNET_NCCL_SUCCESS);
	check(fake.closes + fake.listener_closes + fake.deregs + fake.trims == 0);
}

static void open_then_fork(void)
{
	void *listener;

	check(ncclNetPlugin_v8.init(fake_logger) == ANYNET_NCCL_SUCCESS);
	listener = listen_somewhere();
	check(in_process(forked_with_connections_open) == 0);
	listen_somewhere();
	check(ncclNetPlugin_v8.close_listen(listener) == ANYNET_NCCL_SUCCESS);
	check(fake.listener_closes == 1);
}

static void test_a_forked_child_leaves_open_connections_alone(void **state)
{
	(void)state;
	assert_int_equal(in_process(open_then_fork), 0);
}

static void listen_in_child(void)
{
	listen_somewhere(); /* NCCL 2.12 may not call init again here */
	check(fake.probes == 1);
	check(fake.starts == 2); /* the message layer knows that the process has changed */
	check(ncclNetPlugin_v8.close_listen(FAKE_LISTENER) == ANYNET_NCCL_SUCCESS);
	check(fake.listener_closes == 1);
}

static void init_then_fork(void)
{
	check(ncclNetPlugin_v5.init(fake_logger) == ANYNET_NCCL_SUCCESS);
	check(in_process(listen_in_child) == 0);
	check(in_process(listen_in_child) == 0);
	listen_somewhere();
	check(fake.starts == 1);
}

static void test_a_child_forked_before_connections_works(void **state)
{
	(void)state;
	assert_int_equal(in_process(init_then_fork), 0);
}

static void *init_slowly(void *arg)
{
	(void)arg;
	ncclNetPlugin_v8.init(NULL);
	return NULL;
}

static void init_in_child(void)
{
	atomic_store(&fake.hold_probe, false);
	check(ncclNetPlugin_v8.init(NULL) == ANYNET_NCCL_SUCCESS);
	check(device_count() == 2);
	listen_somewhere();
}

static void fork_during_init(void)
{
	pthread_t thread;

	atomic_store(&fake.hold_probe, true);
	check(!pthread_create(&thread, NULL, init_slowly, NULL));
	while (!atomic_load(&fake.probe_held))
		sched_yield();
	check(in_process(init_in_child) == 0);
	atomic_store(&fake.hold_probe, false);
	check(!pthread_join(thread, NULL));
	check(device_count() == 2);
}

static void test_a_fork_during_init_does_not_hang_the_child(void **state)
{
	(void)state;
	assert_int_equal(in_process(fork_during_init), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_init_is_repeatable_by_every_version),
		cmocka_unit_test(test_works_without_init),
		cmocka_unit_test(test_init_from_many_threads_probes_once),
		cmocka_unit_test(test_contexts_end_in_any_order),
		cmocka_unit_test(test_a_forked_child_leaves_open_connections_alone),
		cmocka_unit_test(test_a_child_forked_before_connections_works),
		cmocka_unit_test(test_a_fork_during_init_does_not_hang_the_child),
	};

	return cmocka_run_group_tests_name("core", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The CPUs and stacks of the plugin's threads. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "transports/base/thread.h"

#define CPUS_LARGE  8192
#define TLS_BYTES   (1 << 20)
#define STACK_BYTES (400 << 10) /* less than a thread has, because a sanitizer needs some */

struct cpus {
	cpu_set_t set[CPUS_LARGE / CPU_SETSIZE];
};

static enum { AS_IT_IS, LARGE, ELSEWHERE } machine;

int __real_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *cpus);
int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *cpus);

/* Replaces the C library's function by the linker. LARGE: the kernel refuses sets for fewer CPUs than it may have.
 * ELSEWHERE: the process may use a CPU only that is not there, so the kernel refuses that for a thread. */
int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *cpus)
{
	if (machine == LARGE && bytes < sizeof(struct cpus)) {
		errno = EINVAL;
		return -1;
	}
	if (machine != ELSEWHERE)
		return __real_sched_getaffinity(pid, bytes, cpus);
	memset(cpus, 0, bytes);
	CPU_SET_S(8 * bytes - 1, bytes, cpus);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	machine = AS_IT_IS;
	return 0;
}

/* Those of the calling thread. NULL: that failed. */
static void *read_cpus(void *cpus)
{
	return __real_sched_getaffinity(0, sizeof(struct cpus), cpus) ? NULL : cpus;
}

/* Those of a thread that the caller starts. NULL: that failed. */
static void *read_of_started(void *cpus)
{
	pthread_t thread;
	void *result = NULL;

	if (!thread_start(&thread, "anynet-test", read_cpus, cpus))
		pthread_join(thread, &result);
	return result;
}

static void test_a_thread_starts_if_its_cpus_are_refused(void **state)
{
	struct cpus own, started;

	(void)state;
	assert_non_null(read_cpus(&own));
	machine = ELSEWHERE;
	assert_non_null(read_of_started(&started));
	assert_memory_equal(&started, &own, sizeof(own));
}

static void *read_from_one_cpu(void *arg)
{
	struct cpus *cpus = arg;
	cpu_set_t one;
	size_t cpu = 0;

	while (!CPU_ISSET_S(cpu, sizeof(*cpus), cpus->set))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	return sched_setaffinity(0, sizeof(one), &one) ? NULL : read_of_started(cpus);
}

/* NCCL's threads are bound to a few CPUs. The plugin's have those of the process, however many the machine has. */
static void test_a_thread_has_the_cpus_of_the_process(void **state)
{
	struct cpus own, started;
	pthread_t thread;
	void *result;

	(void)state;
	assert_non_null(read_cpus(&own));
	if (CPU_COUNT_S(sizeof(own), own.set) < 2) {
		printf("SKIP one CPU\n");
		skip();
	}
	machine = LARGE;
	started = own;
	assert_int_equal(pthread_create(&thread, NULL, read_from_one_cpu, &started), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_non_null(result);
	assert_memory_equal(&started, &own, sizeof(own));
}

/* --- the stack --- */

static __thread volatile char
	of_program[TLS_BYTES]; /* a program with large thread-local variables */

static bool libc_is_silent; /* it has no function that says how much of a stack they take */

void *__real_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name);

void *__wrap_dlsym(void *library, const char *name)
{
	return libc_is_silent && strstr(name, "minstack") ? NULL : __real_dlsym(library, name);
}

static void *use_stack(void *arg)
{
	volatile char stack[STACK_BYTES];

	of_program[0] = of_program[TLS_BYTES - 1] = 1;
	for (size_t i = sizeof(stack); i--;)
		stack[i] = 1;
	return stack[0] == 1 ? arg : NULL;
}

static void test_thread_local_variables_take_nothing_of_a_stack(void **state)
{
	pthread_t thread;
	void *result;

	(void)state;
	for (int i = 0; i < 2; i++) {
		libc_is_silent = i;
		assert_int_equal(thread_start(&thread, "anynet-test", use_stack, &thread), 0);
		assert_int_equal(pthread_join(thread, &result), 0);
		assert_ptr_equal(result, &thread);
	}
	libc_is_silent = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_a_thread_starts_if_its_cpus_are_refused, teardown),
		cmocka_unit_test_teardown(test_a_thread_has_the_cpus_of_the_process, teardown),
		cmocka_unit_test(test_thread_local_variables_take_nothing_of_a_stack),
	};

	return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}

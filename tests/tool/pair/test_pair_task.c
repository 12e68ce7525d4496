/* SPDX-License-Identifier: Apache-2.0 */
/* Results of tasks, and the texts about tasks that end without one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tools/pair/task.h"
#include "tools/shared/member.h"

#define WHAT    "the process that counts"
#define LONG_MS 60000

static json_t *answer(void *arg)
{
	return json_pack("{s:s}", "said", (const char *)arg);
}

static json_t *die(void *arg)
{
	raise(*(const int *)arg);
	return NULL;
}

static json_t *leave(void *arg)
{
	(void)arg;
	_exit(0);
}

static json_t *hang(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

static void expect(json_t *result, const char *key, const char *text)
{
	assert_int_equal(json_object_size(result), 1);
	assert_string_equal(member_text(result, key), text);
	json_decref(result);
}

static void test_result(void **state)
{
	char text[] = "four";

	(void)state;
	expect(task_run(answer, text, LONG_MS, WHAT, -1), "said", text);
}

static void test_signal(void **state)
{
	int signal = SIGTERM;

	(void)state;
	expect(task_run(die, &signal, LONG_MS, WHAT, -1), "error",
	       WHAT " ended: signal 15 (Terminated)");
}

/* Killed, by whomever, or without output. */
static void test_no_result(void **state)
{
	int signal = SIGKILL;

	(void)state;
	expect(task_run(die, &signal, LONG_MS, WHAT, -1), "error", WHAT " ended without a result");
	expect(task_run(leave, NULL, LONG_MS, WHAT, -1), "error", WHAT " ended without a result");
	expect(task_run(hang, NULL, 1, WHAT, -1), "error", WHAT " ended without a result");
}

/* A task whose result nobody waits for any more is ended. */
static void test_watched(void **state)
{
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_null(task_run(hang, NULL, 20000, WHAT, ends[0]));
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_result),
		cmocka_unit_test(test_signal),
		cmocka_unit_test(test_no_result),
		cmocka_unit_test(test_watched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

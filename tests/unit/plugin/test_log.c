/* SPDX-License-Identifier: Apache-2.0 */
/* Logging: lines to NCCL's logger and to stderr, and state that neither may change. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <nccl_net/log.h>

#include "support/capture.h"
#include "unit/environment.h"

static int setup(void **state)
{
	(void)state;
	environment_clear();
	log_to_capture();
	return 0;
}

/* NCCL_DEBUG is read when the sink is set. */
static void set_nccl_debug(const char *level)
{
	setenv("NCCL_DEBUG", level, 1);
	log_to_capture();
}

static unsigned long last_flags;

static void flag_sink(int level, unsigned long flags, const char *file, int line, const char *fmt,
		      ...)
{
	(void)level;
	(void)file;
	(void)line;
	(void)fmt;
	last_flags = flags;
	errno = EIO; /* NCCL's logger ignores it, too */
}

static void test_levels_come_with_their_flags(void **state)
{
	(void)state;
	setenv("NCCL_DEBUG", "INFO", 1);
	anynet_log_set_sink(flag_sink);
	anynet_warn("x");
	assert_true(last_flags == ~0ul);
	anynet_info("x");
	assert_true(last_flags == (ANYNET_SUB_INIT | ANYNET_SUB_NET));
	anynet_chat("x");
	assert_true(last_flags == ANYNET_SUB_NET);
}

static void test_a_line_has_the_product_name_and_keeps_nccls_rules(void **state)
{
	(void)state;
	anynet_warn("dev %s peer %s", "eth0", "10.0.0.2:4711");
	assert_int_equal(capture_count(0, NULL), 1);
	assert_int_equal(capture_count(ANYNET_LOG_WARN, NULL), 1);
	assert_string_equal(newest_line(), "anynet: dev eth0 peer 10.0.0.2:4711");
	capture_check();
}

static void test_info_is_dropped_when_nccl_would_not_print_it(void **state)
{
	static const char *const quiet[] = { "", "VERSION", "warn", "Warn", "none", "nonsense" };
	static const char *const loud[] = { "INFO", "info", "Info", "ABORT", "trace", "TRACE" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(quiet); i++) {
		set_nccl_debug(quiet[i]);
		anynet_info("one");
		assert_int_equal(capture_count(0, NULL), 0);
		anynet_warn("two");
		assert_int_equal(capture_count(0, NULL), 1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(loud); i++) {
		set_nccl_debug(loud[i]);
		anynet_info("one");
		assert_int_equal(capture_count(0, NULL), 1);
		anynet_chat("two");
		assert_int_equal(capture_count(0, NULL), 2);
	}
}

/* NCCL 2.32 also prints levels named there, and knows which. */
static void test_levels_beside_nccl_debug_are_nccls_to_filter(void **state)
{
	(void)state;
	setenv("NCCL_DEBUG_LEVELS", "INFO", 1);
	set_nccl_debug("");
	anynet_info("one");
	assert_int_equal(capture_count(0, NULL), 1);
	setenv("NCCL_DEBUG_LEVELS", "", 1);
	set_nccl_debug("");
	anynet_info("one");
	assert_int_equal(capture_count(0, NULL), 0);
	unsetenv("NCCL_DEBUG_LEVELS");
}

static void test_trace_needs_trace(void **state)
{
	(void)state;
	set_nccl_debug("INFO");
	anynet_log(ANYNET_LOG_TRACE, ANYNET_SUB_NET, "f", 1, "x");
	assert_int_equal(capture_count(0, NULL), 0);
	set_nccl_debug("TRACE");
	anynet_log(ANYNET_LOG_TRACE, ANYNET_SUB_NET, "f", 1, "x");
	assert_int_equal(capture_count(0, NULL), 1);
}

static void test_percent_signs_in_values_are_harmless(void **state)
{
	(void)state;
	anynet_warn("%s", "100%s %n %d");
	assert_string_equal(newest_line(), "anynet: 100%s %n %d");
}

static void test_a_line_stays_one_line(void **state)
{
	(void)state;
	anynet_warn("host %s", "evil\nNCCL WARN\r\tname\x7f\x1b[31m");
	assert_string_equal(newest_line(), "anynet: host evil NCCL WARN  name  [31m");
	capture_check();
}

static void test_long_lines_are_cut(void **state)
{
	char text[4000];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	anynet_warn("%s", text);
	assert_int_equal(strlen(newest_line()), CAPTURE_LINE_BYTES - 1);
}

static void test_errno_survives(void **state)
{
	(void)state;
	anynet_log_set_sink(flag_sink);
	errno = ENETUNREACH;
	anynet_warn("formatted");
	assert_int_equal(errno, ENETUNREACH);
	anynet_info("not formatted");
	assert_int_equal(errno, ENETUNREACH);
}

/* The stderr output of `log` without a sink, with this ANYNET_DEBUG. */
static const char *stderr_of(const char *level, void (*log)(void))
{
	static char text[2000];
	int saved = dup(STDERR_FILENO);
	FILE *file = tmpfile();
	size_t bytes;

	assert_non_null(file);
	assert_true(saved >= 0);
	assert_int_equal(dup2(fileno(file), STDERR_FILENO), STDERR_FILENO);
	if (level)
		setenv("ANYNET_DEBUG", level, 1);
	else
		unsetenv("ANYNET_DEBUG");
	anynet_log_set_sink(NULL);
	log();
	dup2(saved, STDERR_FILENO);
	close(saved);
	rewind(file);
	bytes = fread(text, 1, sizeof(text) - 1, file);
	text[bytes] = 0;
	fclose(file);
	return text;
}

static void log_two(void)
{
	anynet_warn("first");
	anynet_info("second");
}

static void test_stderr_shows_warnings_only_by_default(void **state)
{
	const char *text;

	(void)state;
	text = stderr_of(NULL, log_two);
	assert_non_null(strstr(text, "anynet WARN test_log.c:"));
	assert_non_null(strstr(text, " first\n"));
	assert_null(strstr(text, "second"));
}

static void test_stderr_follows_anynet_debug(void **state)
{
	const char *text;

	(void)state;
	text = stderr_of("Info", log_two);
	assert_non_null(strstr(text, " first\n"));
	assert_non_null(strstr(text, "anynet INFO "));
	assert_non_null(strstr(text, " second\n"));
	assert_string_equal(stderr_of("none", log_two), "");
}

static void test_an_invalid_anynet_debug_warns_and_means_warn(void **state)
{
	const char *text;

	(void)state;
	text = stderr_of("verbose", log_two);
	assert_non_null(strstr(text, "ANYNET_DEBUG 'verbose' is not a level"));
	assert_non_null(strstr(text, " first\n"));
	assert_null(strstr(text, "second"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_levels_come_with_their_flags, setup),
		cmocka_unit_test_setup(test_a_line_has_the_product_name_and_keeps_nccls_rules,
				       setup),
		cmocka_unit_test_setup(test_info_is_dropped_when_nccl_would_not_print_it, setup),
		cmocka_unit_test_setup(test_levels_beside_nccl_debug_are_nccls_to_filter, setup),
		cmocka_unit_test_setup(test_trace_needs_trace, setup),
		cmocka_unit_test_setup(test_percent_signs_in_values_are_harmless, setup),
		cmocka_unit_test_setup(test_a_line_stays_one_line, setup),
		cmocka_unit_test_setup(test_long_lines_are_cut, setup),
		cmocka_unit_test_setup(test_errno_survives, setup),
		cmocka_unit_test_setup(test_stderr_shows_warnings_only_by_default, setup),
		cmocka_unit_test_setup(test_stderr_follows_anynet_debug, setup),
		cmocka_unit_test_setup(test_an_invalid_anynet_debug_warns_and_means_warn, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

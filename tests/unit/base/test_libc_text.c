/* SPDX-License-Identifier: Apache-2.0 */
/* Texts made without libc, compared with libc's (libc_text.h). */
#include <errno.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "transports/base/libc_text.h"

#define DAY_MS 86400000ull

static void as_libc_has_it(uint64_t ms)
{
	time_t seconds = (time_t)(ms / 1000);
	char expected[64], text[UTC_TEXT_BYTES];
	struct tm tm;

	assert_non_null(gmtime_r(&seconds, &tm));
	snprintf(expected, sizeof(expected), "%04d-%02d-%02dT%02d:%02d:%02d.%03uZ",
		 tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
		 (unsigned)(ms % 1000));
	assert_string_equal(utc_text(ms, text), expected);
}

static void test_every_day_of_five_centuries(void **state)
{
	(void)state;
	for (uint64_t day = 0; day < 500 * 366; day++)
		as_libc_has_it(day * DAY_MS + day * 7919 % DAY_MS);
}

static void test_the_ends_of_a_day(void **state)
{
	(void)state;
	as_libc_has_it(20000 * DAY_MS);
	as_libc_has_it(20001 * DAY_MS - 1);
}

/* With the environment and the locale of a program in another language. */
static void test_errors_are_in_english(void **state)
{
	(void)state;
	setenv("LANGUAGE", "de", 1);
	setlocale(LC_ALL, "de_DE.UTF-8"); /* if it is installed */
	assert_string_equal(error_text(ECONNRESET), "Connection reset by peer");
	assert_string_equal(error_text(0), "Success");
	assert_string_equal(error_text(12345), "Unknown error 12345");
}

static void seconds_are(uint64_t ms, unsigned decimals, const char *expected)
{
	char text[SECONDS_TEXT_BYTES];

	assert_string_equal(seconds_text(ms, decimals, text), expected);
}

static void test_seconds_have_a_point(void **state)
{
	(void)state;
	seconds_are(0, 0, "0");
	seconds_are(1499, 0, "1");
	seconds_are(1500, 0, "2");
	seconds_are(0, 1, "0.0");
	seconds_are(1049, 1, "1.0");
	seconds_are(1050, 1, "1.1");
	seconds_are(59999, 1, "60.0");
	seconds_are(7, 3, "0.007");
	seconds_are(61042, 3, "61.042");
	seconds_are(UINT64_MAX / 2000, 3, "9223372036854.775");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_day_of_five_centuries),
		cmocka_unit_test(test_the_ends_of_a_day),
		cmocka_unit_test(test_errors_are_in_english),
		cmocka_unit_test(test_seconds_have_a_point),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

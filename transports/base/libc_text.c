/* SPDX-License-Identifier: Apache-2.0 */
/* Texts without environment and locale; see libc_text.h. */
#include "base/libc_text.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

#define DAYS_OF_400_YEARS 146097
#define DAYS_TO_1970      719468 /* from 1 March of year 0: a leap day then ends a year */

static locale_t plain;

/* Runs when the library is loaded, because newlocale reads the environment. */
__attribute__((constructor)) static void make_plain(void)
{
	plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

const char *error_text(int error)
{
	return plain ? strerror_l(error, plain) : "unknown error";
}

struct date {
	unsigned year, month, day;
};

/* The Gregorian date of a day, counted from 1970. Years begin in March here: then the months have 31, 30, 31, 30, 31
 * days in turn, 153 days in five months. */
static struct date date_of(uint64_t days)
{
	uint64_t day = days + DAYS_TO_1970, era = day / DAYS_OF_400_YEARS;
	unsigned of_era = (unsigned)(day % DAYS_OF_400_YEARS);
	unsigned year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	unsigned of_year = of_era - (365 * year + year / 4 - year / 100);
	unsigned month = (5 * of_year + 2) / 153;

	return (struct date){
		.year = (unsigned)(era * 400) + year + (month >= 10),
		.month = month < 10 ? month + 3 : month - 9,
		.day = of_year - (153 * month + 2) / 5 + 1,
	};
}

const char *utc_text(uint64_t ms, char text[UTC_TEXT_BYTES])
{
	uint64_t seconds = ms / 1000;
	struct date date = date_of(seconds / 86400);
	unsigned of_day = (unsigned)(seconds % 86400);

	snprintf(text, UTC_TEXT_BYTES, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", date.year, date.month,
		 date.day, of_day / 3600, of_day / 60 % 60, of_day % 60, (unsigned)(ms % 1000));
	return text;
}

const char *seconds_text(uint64_t ms, unsigned decimals, char text[SECONDS_TEXT_BYTES])
{
	uint64_t unit = decimals ? decimals == 1 ? 10 : 1000 : 1, /* per second */
		count = (ms * unit + 500) / 1000;

	if (decimals)
		snprintf(text, SECONDS_TEXT_BYTES, "%llu.%0*llu",
			 (unsigned long long)(count / unit), (int)decimals,
			 (unsigned long long)(count % unit));
	else
		snprintf(text, SECONDS_TEXT_BYTES, "%llu", (unsigned long long)count);
	return text;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks of this host. */
#ifndef TOOLS_NOW_H
#define TOOLS_NOW_H

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define NOW_UTC_BYTES 24 /* of now_utc */

static inline uint64_t now_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* CLOCK_MONOTONIC. */
static inline uint64_t now_ns(void)
{
	return now_of(CLOCK_MONOTONIC);
}

static inline uint64_t now_us(void)
{
	return now_ns() / 1000;
}

static inline uint64_t now_ms(void)
{
	return now_ns() / 1000000;
}

/* Since 1970. */
static inline uint64_t now_wall_ns(void)
{
	return now_of(CLOCK_REALTIME);
}

/* Milliseconds from now_ms to `end`, for poll; 0 if it has passed. */
static inline int ms_until(uint64_t end)
{
	uint64_t now = now_ms();

	return end <= now ? 0 : end - now > INT_MAX ? INT_MAX : (int)(end - now);
}

/* Signals do not end it. */
static inline void sleep_ms(int ms)
{
	struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

/* Writes a time since 1970, "2026-01-02T03:04:05", and returns the text. */
static inline char *time_text(time_t at, char text[NOW_UTC_BYTES])
{
	struct tm utc;

	if (!gmtime_r(&at, &utc) || !strftime(text, NOW_UTC_BYTES, "%Y-%m-%dT%H:%M:%S", &utc))
		*text = '\0';
	return text;
}

/* This time: "2026-01-02T03:04:05Z". */
static inline char *now_utc(char text[NOW_UTC_BYTES])
{
	return strcat(time_text(time(NULL), text), "Z");
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.h"
#include "check.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A test with more lines logs on its data path. */
#define LINES_MAX 4096

/* NCCL formats prefix and text into 1024 bytes (net-api.md §4.2). */
#define FORMAT_BYTES_MAX 800

#define LEVEL_MAX 5

#define PRINTED_LINES 12

struct captured {
	int level;
	char text[CAPTURE_LINE_BYTES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct captured lines[LINES_MAX];
static size_t line_count;
static size_t dropped_count;
static bool warn_allowed;
static char unexpected[CAPTURE_LINE_BYTES]; /* first WARN that was not allowed */
static char breach[CAPTURE_LINE_BYTES + 64];

static void note_breach(const char *what, const char *text)
{
	if (!breach[0])
		snprintf(breach, sizeof(breach), "%s: %s", what, text);
}

static void check_rules(int level, unsigned long flags, const char *file, const char *fmt,
			const char *text)
{
	if (level < 1 || level > LEVEL_MAX)
		note_breach("unknown log level", text);
	if (level == CAPTURE_WARN && flags != ~0UL)
		note_breach("WARN that NCCL's default mask hides", text);
	if (!flags)
		note_breach("line without a subsystem", text);
	if (strchr(text, '\n'))
		note_breach("newline in a log line", text);
	if (strlen(fmt) > FORMAT_BYTES_MAX)
		note_breach("format too long for NCCL", text);
	if (!file || strchr(file, '/'))
		note_breach("file is not a base name", text);
	if (!text[0])
		note_breach("empty line", file ? file : "");
}

void capture_logger(int level, unsigned long flags, const char *file, int line, const char *fmt,
		    ...)
{
	char text[CAPTURE_LINE_BYTES];
	va_list args;

	(void)line;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);

	pthread_mutex_lock(&lock);
	check_rules(level, flags, file, fmt, text);
	if (level == CAPTURE_WARN && !warn_allowed && !unexpected[0])
		memcpy(unexpected, text, sizeof(unexpected));
	if (line_count < LINES_MAX) {
		lines[line_count].level = level;
		memcpy(lines[line_count].text, text, sizeof(text));
		line_count++;
	} else {
		dropped_count++;
	}
	pthread_mutex_unlock(&lock);
}

void capture_allow_warn(void)
{
	pthread_mutex_lock(&lock);
	warn_allowed = true;
	pthread_mutex_unlock(&lock);
}

static bool matches(const struct captured *captured, int level, const char *text)
{
	return (!level || captured->level == level) && (!text || strstr(captured->text, text));
}

size_t capture_count(int level, const char *text)
{
	size_t count = 0;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < line_count; i++)
		count += matches(&lines[i], level, text);
	pthread_mutex_unlock(&lock);
	return count;
}

bool capture_find(int level, const char *text, char line[CAPTURE_LINE_BYTES])
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (size_t i = line_count; i && !found; i--) {
		found = matches(&lines[i - 1], level, text);
		if (found)
			memcpy(line, lines[i - 1].text, CAPTURE_LINE_BYTES);
	}
	pthread_mutex_unlock(&lock);
	return found;
}

void capture_forget(void)
{
	pthread_mutex_lock(&lock);
	line_count = 0;
	pthread_mutex_unlock(&lock);
}

void capture_print(void)
{
	/* A failing capture_check holds the lock. */
	bool locked = !pthread_mutex_trylock(&lock);
	for (size_t i = 0, printed = 0; i < line_count && printed < PRINTED_LINES; i++) {
		if (lines[i].level > CAPTURE_WARN)
			continue;
		fprintf(stderr, "  warned: %s\n", lines[i].text);
		printed++;
	}
	if (locked)
		pthread_mutex_unlock(&lock);
}

void capture_check(void)
{
	pthread_mutex_lock(&lock);
	check_that(!breach[0], "%s", breach);
	check_that(!unexpected[0], "unexpected WARN: %s", unexpected);
	check_that(!dropped_count, "more than %d log lines", LINES_MAX);
	pthread_mutex_unlock(&lock);
}

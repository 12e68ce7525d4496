/* SPDX-License-Identifier: Apache-2.0 */
/* Logging: lines are formatted here and handed, finished, to NCCL's logger or to stderr. */
#include <nccl_net/log.h>

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* NCCL keeps 1024 bytes of a line, its own prefix included (net-api.md §4.2). */
#define LINE_BYTES 1024

static _Atomic(anynet_log_sink) log_sink;

/* The most talkative level that is worth formatting; -1 = nobody has set a sink and the environment
 * has not been read. Two threads that find -1 store the same value. */
static atomic_int log_level = -1;

static const char *const level_names[] = {
	[ANYNET_LOG_NONE] = "NONE", [ANYNET_LOG_VERSION] = "VERSION", [ANYNET_LOG_WARN] = "WARN",
	[ANYNET_LOG_INFO] = "INFO", [ANYNET_LOG_ABORT] = "ABORT",     [ANYNET_LOG_TRACE] = "TRACE",
};

static int level_parse(const char *text)
{
	for (size_t i = 0; text && i < ARRAY_SIZE(level_names); i++) {
		if (!strcasecmp(text, level_names[i]))
			return (int)i;
	}
	return -1;
}

static void stderr_sink(int level, unsigned long flags, const char *file, int line, const char *fmt,
			...) ANYNET_PRINTF(5, 6);

static void stderr_sink(int level, unsigned long flags, const char *file, int line, const char *fmt,
			...)
{
	char text[LINE_BYTES];
	va_list args;

	(void)flags;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fprintf(stderr, "anynet %s %s:%d %s\n", level_names[level], file, line, text);
}

/* NCCL 2.32: levels that are printed besides those of NCCL_DEBUG. Which, NCCL knows. */
static bool has_more_levels(void)
{
	const char *levels = getenv("NCCL_DEBUG_LEVELS");

	return levels && *levels;
}

/*
 * NCCL filters by itself, and keeps the text of a WARN even when it does not print it
 * (ncclGetLastError): a WARN always goes out. Below that, what its level would drop is not worth
 * formatting. On stderr there is nobody else to filter.
 */
static int level_from_environment(anynet_log_sink sink)
{
	const char *text = getenv(sink ? "NCCL_DEBUG" : "ANYNET_DEBUG");
	int level = level_parse(text);

	if (sink && has_more_levels())
		return ANYNET_LOG_TRACE;
	if (sink)
		return level > ANYNET_LOG_WARN ? level : ANYNET_LOG_WARN;
	if (level >= 0)
		return level;
	if (text && *text)
		stderr_sink(ANYNET_LOG_WARN, ANYNET_SUB_ALL, __FILE_NAME__, __LINE__,
			    "ANYNET_DEBUG '%s' is not a level: none, version, warn, info, abort or "
			    "trace; using warn",
			    text);
	return ANYNET_LOG_WARN;
}

void anynet_log_set_sink(anynet_log_sink sink)
{
	atomic_store(&log_sink, sink);
	atomic_store(&log_level, level_from_environment(sink));
}

/* Texts from the environment and the peer end up in lines: keep a line one line. */
static void flatten(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = ' ';
	}
}

void anynet_log(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	int saved_errno = errno;
	anynet_log_sink sink = atomic_load(&log_sink);
	int most = atomic_load(&log_level);
	char text[LINE_BYTES];
	va_list args;

	if (most < 0) {
		most = level_from_environment(sink);
		atomic_store(&log_level, most);
	}
	if (level < ANYNET_LOG_VERSION || level > most) {
		errno = saved_errno;
		return;
	}
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	flatten(text);
	if (sink)
		sink(level, flags, file, line, "anynet: %s", text);
	else
		stderr_sink(level, flags, file, line, "%s", text);
	errno = saved_errno;
}

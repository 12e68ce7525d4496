/* SPDX-License-Identifier: Apache-2.0 */
/* Formats log lines and passes them to NCCL's logger or to stderr. */
#include <nccl_net/log.h>

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

/* NCCL truncates lines to 1024 bytes, including its own prefix (net-api.md §4.2). */
#define LINE_BYTES 1024

static _Atomic(anynet_log_sink) log_sink;

/* The highest level that is logged. */
static atomic_int log_level = ANYNET_LOG_WARN;

const char *const anynet_log_level_names[ANYNET_LOG_LEVELS] = {
	[ANYNET_LOG_NONE] = "NONE", [ANYNET_LOG_VERSION] = "VERSION", [ANYNET_LOG_WARN] = "WARN",
	[ANYNET_LOG_INFO] = "INFO", [ANYNET_LOG_ABORT] = "ABORT",     [ANYNET_LOG_TRACE] = "TRACE",
};

void anynet_log_start(anynet_log_sink sink, int level)
{
	atomic_store(&log_sink, sink);
	atomic_store(&log_level, level);
}

/* Replace control characters: lines contain texts from the environment and from the peer. */
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
	char text[LINE_BYTES];
	va_list args;

	if (level < ANYNET_LOG_VERSION || level > atomic_load(&log_level))
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	flatten(text);
	if (sink)
		sink(level, flags, file, line, "anynet: %s", text);
	else
		fprintf(stderr, "anynet %s %s:%d %s\n", anynet_log_level_names[level], file, line,
			text);
	errno = saved_errno;
}

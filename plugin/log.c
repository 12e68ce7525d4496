/* SPDX-License-Identifier: Apache-2.0 */
/* Which levels are logged, by NCCL_DEBUG or ANYNET_DEBUG. Their variables are read only here, when the plugin starts;
 * transports/base/log.c writes the lines. */
#include <stdbool.h>
#include <stdlib.h>

#include <nccl_net/log.h>

static int level_parse(const char *text)
{
	for (size_t i = 0; text && i < ANYNET_LOG_LEVELS; i++) {
		if (anynet_same_word(text, anynet_log_level_names[i]))
			return (int)i;
	}
	return -1;
}

/* NCCL_DEBUG_LEVELS (NCCL 2.32) adds levels to those of NCCL_DEBUG. NCCL itself decides which ones it prints. */
static bool has_more_levels(void)
{
	const char *levels = getenv("NCCL_DEBUG_LEVELS");

	return levels && *levels;
}

/*
 * NCCL's logger filters by level itself, so the level here only avoids formatting lines that NCCL would drop. A WARN
 * always goes to it, because NCCL keeps its text for ncclGetLastError even if it does not print it.
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
	anynet_log_start(NULL, ANYNET_LOG_WARN);
	if (text && *text)
		anynet_warn("ANYNET_DEBUG '%s' is not a level: none, version, warn, info, abort or "
			    "trace; using warn",
			    text);
	return ANYNET_LOG_WARN;
}

void anynet_log_set_sink(anynet_log_sink sink)
{
	anynet_log_start(sink, level_from_environment(sink));
}

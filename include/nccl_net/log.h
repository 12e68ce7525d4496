/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logging. Lines go to NCCL's logger (net-api.md §4.1) after NCCL's init has supplied it, and to stderr in tools and
 * tests. anynet_log preserves errno and may be called from any thread. The data path logs only when a request fails.
 *
 * Form: one line without a newline, lowercase words and values separated by spaces
 * ("dev eth0 peer 10.0.0.2:4711 stream 3"). Log an error where it is detected, not again in the callers.
 */
#ifndef ANYNET_LOG_H
#define ANYNET_LOG_H

#include <nccl_net/util.h>

/* NCCL's levels and subsystem bits (net-api.md §4.1). */
enum anynet_log_level {
	ANYNET_LOG_NONE = 0,
	ANYNET_LOG_VERSION = 1,
	ANYNET_LOG_WARN = 2,
	ANYNET_LOG_INFO = 3,
	ANYNET_LOG_ABORT = 4,
	ANYNET_LOG_TRACE = 5,
	ANYNET_LOG_LEVELS,
};

/* "WARN" and so on, by level. */
extern const char *const anynet_log_level_names[ANYNET_LOG_LEVELS];

#define ANYNET_SUB_INIT (1ul << 0)
#define ANYNET_SUB_NET  (1ul << 4)
#define ANYNET_SUB_ALL  (~0ul)

/* Same shape as NCCL's ncclDebugLogger_t. */
typedef void (*anynet_log_sink)(int level, unsigned long flags, const char *file, int line,
				const char *fmt, ...);

/* Send lines to `sink`, up to the level that NCCL_DEBUG selects and at least WARN. NULL: to stderr, up to the level
 * that ANYNET_DEBUG selects, by default WARN. Reads the environment. */
void anynet_log_set_sink(anynet_log_sink sink);

/* Send lines up to `level` to `sink`, or to stderr if it is NULL. Does not read the environment. */
void anynet_log_start(anynet_log_sink sink, int level);

void anynet_log(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
	ANYNET_PRINTF(5, 6);

/* A WARN carries all subsystem bits, because NCCL's default mask hides one with fewer. ncclGetLastError and PyTorch
 * print the text, so it must be complete by itself: peer, device, errno text. */
#define anynet_warn(...)                                                                           \
	anynet_log(ANYNET_LOG_WARN, ANYNET_SUB_ALL, __FILE_NAME__, __LINE__, __VA_ARGS__)
/* Printed with plain NCCL_DEBUG=INFO. */
#define anynet_info(...)                                                                           \
	anynet_log(ANYNET_LOG_INFO, ANYNET_SUB_INIT | ANYNET_SUB_NET, __FILE_NAME__, __LINE__,     \
		   __VA_ARGS__)
/* Printed with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=NET, for example one line per connection. */
#define anynet_chat(...)                                                                           \
	anynet_log(ANYNET_LOG_INFO, ANYNET_SUB_NET, __FILE_NAME__, __LINE__, __VA_ARGS__)

#ifndef __FILE_NAME__
#define __FILE_NAME__ __FILE__
#endif

#endif

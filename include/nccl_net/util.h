/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers for plugin/, transports/ and the tools. */
#ifndef ANYNET_UTIL_H
#define ANYNET_UTIL_H

#include <stddef.h>
#include <stdint.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define anynet_likely(x)   __builtin_expect(!!(x), 1)
#define anynet_unlikely(x) __builtin_expect(!!(x), 0)
#define ANYNET_COLD        __attribute__((cold, noinline))
#define ANYNET_PRINTF(f, a) __attribute__((format(printf, f, a)))

static inline size_t anynet_min(size_t a, size_t b)
{
	return a < b ? a : b;
}

static inline size_t anynet_max(size_t a, size_t b)
{
	return a > b ? a : b;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Small helpers for plugin/, transports/ and the tools. */
#ifndef ANYNET_UTIL_H
#define ANYNET_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

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

/* Of ASCII letters only. tolower and strcasecmp follow the program's locale; in a Turkish one I is not i. */
static inline char anynet_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Are they the same, apart from the case of ASCII letters? */
static inline bool anynet_same_word(const char *a, const char *b)
{
	while (*a && anynet_lower(*a) == anynet_lower(*b))
		a++, b++;
	return anynet_lower(*a) == anynet_lower(*b);
}

#endif

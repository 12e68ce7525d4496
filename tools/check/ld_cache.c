/* SPDX-License-Identifier: Apache-2.0 */
/* The cache format of glibc 2.2 and newer; see ld_cache.h. */
#include "ld_cache.h"

#include <stdint.h>
#include <string.h>

#define OLD_MAGIC        "ld.so-1.7.0"
#define OLD_HEADER_BYTES 16
#define OLD_ENTRY_BYTES  12
#define MAGIC            "glibc-ld.so.cache1.1"
#define HEADER_BYTES     48
#define ENTRY_BYTES      24

/* Flags of a 64-bit library for this processor. */
#if defined(__x86_64__)
#define OURS 0x0303
#elif defined(__aarch64__)
#define OURS 0x0a03
#else
#define OURS 0x0003
#endif

static uint32_t word_at(const char *bytes)
{
	uint32_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

/* Returns the offset of the new format. Old caches have it after a table for older programs. */
static size_t new_format_at(const char *bytes, size_t size)
{
	size_t entries;

	if (size < OLD_HEADER_BYTES || memcmp(bytes, OLD_MAGIC, strlen(OLD_MAGIC)) != 0)
		return 0;
	entries = word_at(bytes + OLD_HEADER_BYTES - 4);
	return (OLD_HEADER_BYTES + entries * OLD_ENTRY_BYTES + 7) / 8 * 8;
}

/* Returns the string at this offset, if it ends within the cache. */
static const char *text_at(const char *bytes, size_t size, uint32_t at)
{
	return at < size && memchr(bytes + at, 0, size - at) ? bytes + at : NULL;
}

bool ld_cache_read(const char *bytes, size_t size, struct text_list *names, struct text_list *paths)
{
	size_t start = new_format_at(bytes, size), count;

	if (start > size || size - start < HEADER_BYTES ||
	    memcmp(bytes + start, MAGIC, strlen(MAGIC)) != 0)
		return false;
	bytes += start;
	size -= start;
	count = word_at(bytes + strlen(MAGIC));
	if (count > (size - HEADER_BYTES) / ENTRY_BYTES)
		return false;
	for (size_t i = 0; i < count; i++) {
		const char *entry = bytes + HEADER_BYTES + i * ENTRY_BYTES;
		const char *name = text_at(bytes, size, word_at(entry + 4));
		const char *path = text_at(bytes, size, word_at(entry + 8));

		if (!name || !path)
			return false;
		if (word_at(entry) != OURS)
			continue;
		text_list_add(names, name);
		text_list_add(paths, path);
	}
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "buffer.h"
#include "check.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

#define ALIGN_BYTES 128
#define GUARD_BYTES 256
#define GUARD_BYTE  0xb6

static size_t round_up(size_t bytes)
{
	return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

void buffer_alloc(struct buffer *buffer, size_t bytes)
{
	size_t whole = GUARD_BYTES + round_up(bytes) + GUARD_BYTES;

	buffer->area = memory_alloc(whole);
	buffer->data = buffer->area + GUARD_BYTES;
	buffer->view = (unsigned char *)memory_view(buffer->area, whole) + GUARD_BYTES;
	buffer->bytes = bytes;
	memset(buffer->view - GUARD_BYTES, GUARD_BYTE, GUARD_BYTES);
	memset(buffer->view + bytes, GUARD_BYTE, GUARD_BYTES);
	buffer_blank(buffer);
}

void buffer_blank(struct buffer *buffer)
{
	memset(buffer->view, BUFFER_BLANK, buffer->bytes);
}

void buffer_check_guards(const struct buffer *buffer)
{
	for (size_t i = 0; i < GUARD_BYTES; i++) {
		check_that(*(buffer->view - GUARD_BYTES + i) == GUARD_BYTE,
			   "written %zu bytes before a buffer", GUARD_BYTES - i);
		check_that(buffer->view[buffer->bytes + i] == GUARD_BYTE,
			   "written %zu bytes behind the end of a buffer of %zu", i, buffer->bytes);
	}
}

void buffer_free(struct buffer *buffer)
{
	buffer_check_guards(buffer);
	memory_free(buffer->area);
	*buffer = (struct buffer){ 0 };
}

static uint64_t pattern_word(uint64_t seed, size_t index)
{
	uint64_t x = (seed + index) * 0x9e3779b97f4a7c15u;
	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9u;
	return x ^ x >> 32;
}

void pattern_fill(void *data, size_t bytes, uint64_t seed)
{
	unsigned char *to = memory_view(data, bytes);

	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t word = pattern_word(seed, i / 8);
		memcpy(to + i, &word, bytes - i < 8 ? bytes - i : 8);
	}
}

size_t pattern_mismatch(const void *data, size_t bytes, uint64_t seed)
{
	const unsigned char *from = memory_view(data, bytes);

	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t word = pattern_word(seed, i / 8);
		size_t n = bytes - i < 8 ? bytes - i : 8;
		if (!memcmp(from + i, &word, n))
			continue;
		size_t k = 0;
		while (from[i + k] == ((unsigned char *)&word)[k])
			k++;
		return i + k;
	}
	return bytes;
}

void pattern_check(const void *data, size_t bytes, uint64_t seed)
{
	size_t at = pattern_mismatch(data, bytes, seed);
	if (at == bytes)
		return;
	const unsigned char *from = memory_view(data, bytes);
	size_t wrong = 0, blank = 0;
	for (size_t i = 0; i < bytes; i++) {
		uint64_t word = pattern_word(seed, i / 8);
		unsigned char got = from[i];
		wrong += got != ((unsigned char *)&word)[i % 8];
		blank += got == BUFFER_BLANK;
	}
	check_that(false, "byte %zu of %zu is wrong (%zu wrong in all, %zu never written)", at,
		   bytes, wrong, blank);
}

void blank_check(const void *data, size_t bytes)
{
	const unsigned char *from = memory_view(data, bytes);

	for (size_t i = 0; i < bytes; i++)
		check_that(from[i] == BUFFER_BLANK, "byte %zu of %zu was written", i, bytes);
}

uint64_t random_next(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15u;
	return pattern_word(*state, 1);
}

size_t random_below(uint64_t *state, size_t bound)
{
	return (size_t)(random_next(state) % bound);
}

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

#define GOLDEN 0x9e3779b97f4a7c15u

/* Another one for each place and seed, and quickly made: some tests spend most of their time here. */
static inline uint64_t pattern_word(uint64_t seed, size_t index)
{
	uint64_t x = (seed + index) * GOLDEN;

	return x ^ x >> 32;
}

static unsigned char pattern_byte(uint64_t seed, size_t index)
{
	uint64_t word = pattern_word(seed, index / 8);

	return ((unsigned char *)&word)[index % 8];
}

void pattern_fill(void *data, size_t bytes, uint64_t seed)
{
	unsigned char *to = memory_view(data, bytes);
	size_t i = 0;

	for (; i + 8 <= bytes; i += 8) {
		uint64_t word = pattern_word(seed, i / 8);
		memcpy(to + i, &word, sizeof(word));
	}
	for (; i < bytes; i++)
		to[i] = pattern_byte(seed, i);
}

/* The bytes of whole words that are right. */
static size_t right_words(const unsigned char *from, size_t bytes, uint64_t seed)
{
	for (size_t i = 0; i + 8 <= bytes; i += 8) {
		uint64_t word;
		memcpy(&word, from + i, sizeof(word));
		if (word != pattern_word(seed, i / 8))
			return i;
	}
	return bytes / 8 * 8;
}

size_t pattern_mismatch(const void *data, size_t bytes, uint64_t seed)
{
	const unsigned char *from = memory_view(data, bytes);
	size_t i = right_words(from, bytes, seed);

	while (i < bytes && from[i] == pattern_byte(seed, i))
		i++;
	return i;
}

void pattern_check(const void *data, size_t bytes, uint64_t seed)
{
	size_t at = pattern_mismatch(data, bytes, seed);
	if (at == bytes)
		return;
	const unsigned char *from = memory_view(data, bytes);
	size_t wrong = 0, blank = 0;
	for (size_t i = 0; i < bytes; i++) {
		wrong += from[i] != pattern_byte(seed, i);
		blank += from[i] == BUFFER_BLANK;
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
	uint64_t x;

	*state += GOLDEN;
	x = (*state + 1) * GOLDEN;
	x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
	return x ^ x >> 32;
}

size_t random_below(uint64_t *state, size_t bound)
{
	return (size_t)(random_next(state) % bound);
}

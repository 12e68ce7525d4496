/* SPDX-License-Identifier: Apache-2.0 */
/* Message buffers with guard bytes around them, and patterns to fill and check them, in host or GPU memory
 * (memory.h). */
#ifndef TESTS_SUPPORT_BUFFER_H
#define TESTS_SUPPORT_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#define BUFFER_BLANK 0xee /* bytes not written since buffer_alloc or buffer_blank */

struct buffer {
	unsigned char *data; /* address for the net; 128-byte aligned */
	unsigned char *view; /* address for the test */
	size_t bytes;
	unsigned char *area;
};

void buffer_alloc(struct buffer *buffer, size_t bytes);
void buffer_blank(struct buffer *buffer);
void buffer_check_guards(const struct buffer *buffer);
void buffer_free(struct buffer *buffer); /* checks the guards, too */

/* Bytes that depend on the seed and their position. */
void pattern_fill(void *data, size_t bytes, uint64_t seed);
void pattern_check(const void *data, size_t bytes, uint64_t seed);
size_t pattern_mismatch(const void *data, size_t bytes, uint64_t seed); /* bytes = none */

/* Bytes that must not be written. */
void blank_check(const void *data, size_t bytes);

/* A small generator; the same sequence for the same seed. */
uint64_t random_next(uint64_t *state);
size_t random_below(uint64_t *state, size_t bound);

#endif

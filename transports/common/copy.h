/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying into NCCL's receive buffers. With the LL protocols the GPU watches the buffer itself while it
 * is being written (net-api.md §3.5): addresses must be written in ascending order, and 8-byte words
 * in one piece. The C library's memcpy promises neither (it writes the first bytes of a piece last).
 */
#ifndef ANYNET_COPY_H
#define ANYNET_COPY_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t copy_piece __attribute__((vector_size(16), aligned(1), may_alias));

/* One piece of `bytes`, then on: the barrier keeps the compiler from joining or reordering them. */
#define COPY_STEP(type, bytes)                                           \
	do {                                                             \
		*(type *)(void *)to = *(const type *)(const void *)from; \
		__asm__ __volatile__("" ::: "memory");                   \
		to += (bytes);                                           \
		from += (bytes);                                         \
		left -= (bytes);                                         \
	} while (0)

static inline void copy_ascending(uint8_t *to, const uint8_t *from, size_t left)
{
	typedef uint64_t word __attribute__((aligned(1), may_alias));

	/* Up to an 8-byte boundary, so that no aligned word is written in two pieces. */
	while (left && ((uintptr_t)to & 7))
		COPY_STEP(uint8_t, 1);
	while (left >= sizeof(copy_piece))
		COPY_STEP(copy_piece, sizeof(copy_piece));
	if (left >= sizeof(word))
		COPY_STEP(word, sizeof(word));
	while (left)
		COPY_STEP(uint8_t, 1);
}

#undef COPY_STEP

#endif

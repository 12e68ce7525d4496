/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying into NCCL's receive buffers. With the LL protocols the GPU polls the buffer while it is being written
 * (net-api.md §3.5). So addresses must be written in ascending order, and each aligned 8-byte word by one store. The C
 * library's memcpy guarantees neither. LL128 has lines of 128 bytes, whose last word is the flag: it must become
 * visible after the rest of its line.
 */
#ifndef ANYNET_COPY_H
#define ANYNET_COPY_H

#include <stddef.h>
#include <stdint.h>

#define COPY_LINE_BYTES 128
#define COPY_LAST_WORD  (COPY_LINE_BYTES - 8) /* offset of the flag in a line */

/* Orders stores as devices see them. Not defined where devices see stores in program order. A test defines its own. */
#if !defined(COPY_BARRIER) && defined(__aarch64__)
#define COPY_BARRIER() __asm__ __volatile__("dmb oshst" ::: "memory")
#elif !defined(COPY_BARRIER) && !defined(__x86_64__)
#define COPY_BARRIER() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif

typedef uint64_t copy_piece __attribute__((vector_size(16), aligned(1), may_alias));

/* Copies `bytes` by one store and advances. The barrier keeps the compiler from joining or reordering the stores. */
#define COPY_STEP(type, bytes)                                           \
	do {                                                             \
		*(type *)(void *)to = *(const type *)(const void *)from; \
		__asm__ __volatile__("" ::: "memory");                   \
		to += (bytes);                                           \
		from += (bytes);                                         \
		left -= (bytes);                                         \
	} while (0)

static inline void copy_pieces(uint8_t *to, const uint8_t *from, size_t left)
{
	typedef uint64_t word __attribute__((aligned(1), may_alias));

	/* Up to an 8-byte boundary, so that no aligned word is written by two stores. */
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

static inline void copy_ascending(uint8_t *to, const uint8_t *from, size_t left)
{
#ifdef COPY_BARRIER
	while (left) {
		size_t part = (COPY_LAST_WORD - (uintptr_t)to) % COPY_LINE_BYTES;

		if (!part) {
			COPY_BARRIER();
			part = COPY_LINE_BYTES; /* up to the last word of the next line */
		}
		if (part > left)
			part = left;
		copy_pieces(to, from, part);
		to += part;
		from += part;
		left -= part;
	}
#else
	copy_pieces(to, from, left);
#endif
}

#endif

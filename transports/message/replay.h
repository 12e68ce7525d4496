/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replay ring of a send comm: frames of copied messages, header first, taken in the order of isend
 * and freed when they are acknowledged. A frame lies in one piece.
 */
#ifndef ANYNET_REPLAY_H
#define ANYNET_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLAY_ALIGN        64u
#define REPLAY_RECORD_BYTES 16u

/* Lies before each frame. */
struct replay_record {
	uint32_t end; /* ring position behind the frame */
	bool acked;
};

struct replay_ring {
	uint8_t *memory;
	uint32_t bytes, head, tail; /* head = tail: empty */
	uint32_t wrap;              /* where the last frame before position 0 ends */
};

int replay_init(struct replay_ring *ring, size_t bytes); /* 0 or -ENOMEM */
void replay_fini(struct replay_ring *ring);

/* Would replay_take find room? */
bool replay_has_room(const struct replay_ring *ring, size_t bytes);

/* Room for a frame of `bytes`, which begins REPLAY_RECORD_BYTES behind the record; NULL = none. */
struct replay_record *replay_take(struct replay_ring *ring, size_t bytes);

/* The frame is acknowledged: free it with those before it that are, too. */
void replay_release(struct replay_ring *ring, struct replay_record *record);

#endif

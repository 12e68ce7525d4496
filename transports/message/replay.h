/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replay ring of a send comm: frames of copied messages, allocated in the order of isend and freed when they are
 * acknowledged. A frame is contiguous, header first.
 */
#ifndef ANYNET_REPLAY_H
#define ANYNET_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLAY_ALIGN        64u
#define REPLAY_RECORD_BYTES 16u
#define REPLAY_AGAIN_BYTES  (64u << 10)

/* Precedes each frame. */
struct replay_record {
	uint32_t end; /* ring offset of the end of the frame */
	bool acked;
};

struct replay_ring {
	uint8_t *memory;
	uint32_t bytes, head, tail; /* frames are taken at head, freed at tail; equal = empty */
	uint32_t wrap;              /* end of the last frame before head returned to 0 */
};

int replay_init(struct replay_ring *ring, size_t bytes); /* 0 or -ENOMEM */
void replay_fini(struct replay_ring *ring);

/* Would replay_take succeed? */
bool replay_has_room(const struct replay_ring *ring, size_t bytes);

/* Allocates room for a frame of `bytes`, which begins REPLAY_RECORD_BYTES behind the record. NULL = no room. */
struct replay_record *replay_take(struct replay_ring *ring, size_t bytes);

/* Marks the frame as acknowledged, and frees all frames that only acknowledged ones precede. */
void replay_release(struct replay_ring *ring, struct replay_record *record);

#endif

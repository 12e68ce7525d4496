/* SPDX-License-Identifier: Apache-2.0 */
/* The replay ring; see replay.h. */
#include "replay.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static_assert(sizeof(struct replay_record) <= REPLAY_RECORD_BYTES, "room before the frame");

int replay_init(struct replay_ring *ring, size_t bytes)
{
	ring->bytes = (uint32_t)bytes & ~(REPLAY_ALIGN - 1);
	ring->memory = aligned_alloc(REPLAY_ALIGN, ring->bytes);
	return ring->memory ? 0 : -ENOMEM;
}

void replay_fini(struct replay_ring *ring)
{
	free(ring->memory);
}

/* A frame never wraps: the rest of the ring is skipped. */
struct replay_record *replay_take(struct replay_ring *ring, size_t bytes)
{
	uint32_t need =
		(uint32_t)(REPLAY_RECORD_BYTES + bytes + REPLAY_ALIGN - 1) & ~(REPLAY_ALIGN - 1);
	uint32_t at = ring->head;
	struct replay_record *record;

	if (ring->head >= ring->tail) {
		if (need > ring->bytes - at) {
			if (need >= ring->tail)
				return NULL;
			ring->wrap = at;
			at = 0;
		}
	} else if (need >= ring->tail - at) {
		return NULL;
	}
	ring->head = at + need;
	record = (struct replay_record *)(void *)(ring->memory + at);
	record->end = ring->head;
	record->acked = false;
	return record;
}

void replay_release(struct replay_ring *ring, struct replay_record *record)
{
	record->acked = true;
	while (ring->tail != ring->head) {
		if (ring->tail == ring->wrap && ring->tail > ring->head)
			ring->tail = 0;
		record = (struct replay_record *)(void *)(ring->memory + ring->tail);
		if (!record->acked)
			return;
		ring->tail = record->end;
	}
	ring->tail = ring->head = 0;
}

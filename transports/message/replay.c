/* SPDX-License-Identifier: Apache-2.0 */
/* The replay ring; see replay.h. */
#include "message/replay.h"

#include <assert.h>
#include <errno.h>

#include "base/pinned.h"

static_assert(sizeof(struct replay_record) <= REPLAY_RECORD_BYTES, "room before the frame");

int replay_init(struct replay_ring *ring, size_t bytes)
{
	ring->bytes = (uint32_t)bytes & ~(REPLAY_ALIGN - 1);
	ring->memory = pinned_alloc(ring->bytes);
	return ring->memory ? 0 : -ENOMEM;
}

void replay_fini(struct replay_ring *ring)
{
	pinned_free(ring->memory, ring->bytes);
}

/* Bytes of ring that a frame takes, including its record. */
static uint32_t size_of(size_t bytes)
{
	return (uint32_t)(REPLAY_RECORD_BYTES + bytes + REPLAY_ALIGN - 1) & ~(REPLAY_ALIGN - 1);
}

/* A ring that is never full uses few of its pages: it begins again early when so much is free at the start, and twice as
 * much as all frames take. There is less room then than in the ring. It exceeds what a receiver leaves unacknowledged of
 * small messages (wire.md), and a small ring never gets there. */
static bool begins_again(const struct replay_ring *ring, uint32_t need)
{
	return ring->tail >= REPLAY_AGAIN_BYTES && ring->tail / 2 >= ring->head - ring->tail + need;
}

/* The offset of room for `need` bytes; UINT32_MAX = none. A frame never wraps: the end of the ring is skipped. */
static uint32_t find_room(const struct replay_ring *ring, uint32_t need)
{
	if (ring->head < ring->tail)
		return need < ring->tail - ring->head ? ring->head : UINT32_MAX;
	if (need <= ring->bytes - ring->head && !begins_again(ring, need))
		return ring->head;
	return need < ring->tail ? 0 : UINT32_MAX;
}

bool replay_has_room(const struct replay_ring *ring, size_t bytes)
{
	return find_room(ring, size_of(bytes)) != UINT32_MAX;
}

struct replay_record *replay_take(struct replay_ring *ring, size_t bytes)
{
	uint32_t need = size_of(bytes), at = find_room(ring, need);
	struct replay_record *record;

	if (at == UINT32_MAX)
		return NULL;
	if (at != ring->head)
		ring->wrap = ring->head;
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

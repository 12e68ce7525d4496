/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of an edge, the order in which its ends post them, and the expected contents of their buffers. See
 * edge.h. */
#include "sim/edge.h"

#include <string.h>

#define GUARD_BYTES 64
#define PAGE_BYTES  4096
#define SIXTEEN     0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5

uint64_t message_number(const struct edge_end *end, unsigned message)
{
	struct sim_random random = { (plan_of(end)->seed << 20) ^ ((uint64_t)end->edge << 40) ^
				     ((uint64_t)end->round << 56) ^ message };

	return random_next(&random);
}

size_t message_bytes(const struct edge_end *end, unsigned message)
{
	uint64_t number = message_number(end, message);
	size_t most = plan_of(end)->bytes_max;

	switch (number >> 8 & 7) {
	case 0:
		return number >> 16 & 1;
	case 1:
		return 8190 + (number >> 16 & 7) < most ? 8190 + (number >> 16 & 7) : most;
	case 2:
		return most;
	case 3:
		return (number >> 16) % (most + 1);
	default:
		return (number >> 16) % ((most < 4096 ? most : 4096) + 1);
	}
}

/* The number of tags in use at this message. */
static unsigned tags_at(const struct edge_end *end, unsigned message)
{
	return message / plan_of(end)->block < plan_of(end)->tags_from ? 1 : plan_of(end)->tags;
}

int message_tag(const struct edge_end *end, unsigned message)
{
	return (int)(message % plan_of(end)->block % tags_at(end, message));
}

/* The places of a block in random order; then each place gets the next message of its tag. */
unsigned message_at(const struct edge_end *end, unsigned i)
{
	unsigned size = plan_of(end)->block, tags = tags_at(end, i), first = i - i % size, tag, nth = 0;
	uint8_t places[PLAN_BLOCK_MAX];
	struct sim_random random = { message_number(end, first) + end->is_send };

	if (tags == 1 || first + size > plan_of(end)->messages)
		return i;
	for (unsigned j = 0; j < size; j++) {
		unsigned k = (unsigned)random_below(&random, j + 1);

		places[j] = places[k];
		places[k] = (uint8_t)j;
	}
	tag = places[i % size] % tags;
	for (unsigned j = 0; j < i % size; j++)
		nth += places[j] % tags == tag;
	return first + tag + nth * tags;
}

unsigned slot_count(const struct edge_end *end)
{
	return 2 * plan_of(end)->block;
}

struct slot *slot_of(struct edge_end *end, unsigned message)
{
	return &end->slots[message % slot_count(end)];
}

void message_fill(const struct edge_end *end, uint8_t *data, unsigned message)
{
	uint64_t word = message_number(end, message), words = (message_bytes(end, message) + 7) / 8;

	for (uint64_t i = 0; i < words; i++, word = word * UINT64_C(6364136223846793005) + 1)
		memcpy(data + 8 * i, &word, 8);
}

size_t slot_room(const struct edge_end *end)
{
	return plan_of(end)->bytes_max + GUARD_BYTES;
}

void message_poison(uint8_t *data, size_t bytes)
{
	memset(data, 0xe5, bytes);
}

/* Checks the start of each page, and the end: a wrong write starts there, or is long. */
static bool all_poison(const uint8_t *data, size_t bytes)
{
	static const uint8_t pattern[GUARD_BYTES] = { SIXTEEN, SIXTEEN, SIXTEEN, SIXTEEN };

	for (size_t at = 0; at < bytes; at += at ? PAGE_BYTES : PAGE_BYTES - ((uintptr_t)data & (PAGE_BYTES - 1)))
		if (memcmp(data + at, pattern, bytes - at < GUARD_BYTES ? bytes - at : GUARD_BYTES))
			return false;
	return bytes < GUARD_BYTES || !memcmp(data + bytes - GUARD_BYTES, pattern, GUARD_BYTES);
}

void check_untouched(const struct edge_end *end, const struct slot *slot, const char *when)
{
	if (!all_poison(slot->data, slot_room(end)))
		sim_fail("edge %u: a buffer was written to %s", end->edge, when);
}

/* The offset of the first byte that is not the message's, or `bytes`. */
static size_t first_wrong(const struct edge_end *end, const uint8_t *data, unsigned message, size_t bytes)
{
	uint64_t word = message_number(end, message), came;
	size_t i = 0;

	for (; i + 8 <= bytes; i += 8, word = word * UINT64_C(6364136223846793005) + 1) {
		memcpy(&came, data + i, 8);
		if (came != word)
			return i;
	}
	return memcmp(data + i, &word, bytes - i) ? i : bytes;
}

void check_message(const struct edge_end *end, const struct slot *slot, unsigned message, int size)
{
	size_t bytes = message_bytes(end, message), room = slot_room(end), wrong;

	if ((size_t)size != bytes)
		sim_fail("edge %u message %u: %d bytes instead of %zu", end->edge, message, size, bytes);
	wrong = first_wrong(end, slot->data, message, bytes);
	if (wrong != bytes)
		sim_fail("edge %u message %u of %zu bytes: wrong from byte %zu on", end->edge, message, bytes, wrong);
	if (!all_poison(slot->data + bytes, room - bytes))
		sim_fail("edge %u message %u: written to behind its end", end->edge, message);
	rank_bytes += bytes;
}

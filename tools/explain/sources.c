/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table of processes. The key is host, pid and device, or host and rank if there is no pid. */
#include "sources.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tools/shared/memory.h"

void sources_init(struct sources *s)
{
	memset(s, 0, sizeof(*s));
	s->room = 64;
	s->list = memory_get(s->room * sizeof(*s->list));
	s->list[0] = (struct source){ .device = -1, .rank = -1 };
	s->count = 1;
	s->table_size = 4 * s->room;
	s->table = memory_get(s->table_size * sizeof(*s->table));
}

static unsigned hash(const char *host, int pid, int second)
{
	uint64_t h = 1469598103934665603u;

	for (const char *p = host; *p; p++)
		h = (h ^ (unsigned char)*p) * 1099511628211u;
	h = (h ^ (unsigned)pid) * 1099511628211u;
	h = (h ^ (unsigned)second) * 1099511628211u;
	return (unsigned)(h ^ h >> 32);
}

/* Returns the free slot for a source that is not in the table. */
static unsigned vacancy(const struct sources *s, unsigned h)
{
	unsigned at = h % s->table_size;

	while (s->table[at])
		at = (at + 1) % s->table_size;
	return at;
}

static bool is_same(const struct source *s, const struct origin *o)
{
	if (s->pid != o->pid || strcmp(s->host, o->host) != 0)
		return false;
	return o->pid ? s->device == o->device : s->rank == o->rank;
}

static void grow(struct sources *s)
{
	s->room *= 2;
	s->list = memory_resize(s->list, s->room * sizeof(*s->list));
	s->table_size = 4 * s->room;
	s->table = memory_get(s->table_size * sizeof(*s->table));
	for (unsigned i = 1; i < s->count; i++) {
		const struct source *source = &s->list[i];

		s->table[vacancy(s, source->hash)] = i + 1;
	}
}

static unsigned add(struct sources *s, const struct origin *o, unsigned h)
{
	if (s->count == SOURCES_MAX)
		return 0;
	if (s->count == s->room)
		grow(s);
	s->list[s->count] =
		(struct source){ .pid = o->pid, .device = o->device, .rank = o->rank, .hash = h };
	memcpy(s->list[s->count].host, o->host, ORIGIN_HOST);
	s->table[vacancy(s, h)] = s->count + 1;
	return s->count++;
}

unsigned sources_find(struct sources *s, const struct origin *o)
{
	unsigned h = hash(o->host, o->pid, o->pid ? o->device : o->rank), number;

	if (!*o->host && !o->pid && o->rank < 0)
		return 0;
	for (unsigned at = h % s->table_size; (number = s->table[at]);
	     at = (at + 1) % s->table_size) {
		struct source *source = &s->list[number - 1];

		if (!is_same(source, o))
			continue;
		if (source->rank < 0)
			source->rank = o->rank;
		return number - 1;
	}
	return add(s, o, h);
}

void sources_set_rank(struct sources *s, unsigned number, int rank, int of)
{
	struct source *source = &s->list[number];

	if (of < 0)
		of = 0;
	/* Without a pid the rank is part of the key. */
	if (!number || !source->pid || of < source->rank_of)
		return;
	if (of == source->rank_of && source->rank >= 0)
		return;
	source->rank = rank;
	source->rank_of = of;
}

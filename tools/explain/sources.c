/* SPDX-License-Identifier: Apache-2.0 */
/* A sorted index of processes. The key is host, pid and device, or host and rank if there is no pid. */
#include "sources.h"

#include <string.h>

#include "tools/shared/memory.h"

void sources_init(struct sources *s)
{
	memset(s, 0, sizeof(*s));
	s->room = 64;
	s->list = memory_get(s->room * sizeof(*s->list));
	s->list[0] = (struct source){ .device = -1, .rank = -1 };
	s->count = 1;
	s->order = memory_get(s->room * sizeof(*s->order));
}

static int compare(int a, int b)
{
	return (a > b) - (a < b);
}

static int compare_with(const struct source *s, const struct origin *o)
{
	int order = strcmp(s->host, o->host);

	if (!order)
		order = compare(s->pid, o->pid);
	if (!order)
		order = o->pid ? compare(s->device, o->device) : compare(s->rank, o->rank);
	return order;
}

/* Adds a source, which is at `at` in the order. */
static unsigned add(struct sources *s, const struct origin *o, unsigned at)
{
	if (s->count == SOURCES_MAX)
		return 0;
	if (s->count == s->room) {
		s->room *= 2;
		s->list = memory_resize(s->list, s->room * sizeof(*s->list));
		s->order = memory_resize(s->order, s->room * sizeof(*s->order));
	}
	s->list[s->count] = (struct source){ .pid = o->pid, .device = o->device, .rank = o->rank };
	memcpy(s->list[s->count].host, o->host, ORIGIN_HOST);
	memmove(s->order + at + 1, s->order + at, (s->count - 1 - at) * sizeof(*s->order));
	s->order[at] = s->count;
	return s->count++;
}

unsigned sources_find(struct sources *s, const struct origin *o)
{
	unsigned low = 0, high = s->count - 1;

	if (!*o->host && !o->pid && o->rank < 0)
		return 0;
	while (low < high) {
		unsigned middle = (low + high) / 2, number = s->order[middle];
		struct source *source = &s->list[number];
		int order = compare_with(source, o);

		if (!order && source->rank < 0)
			source->rank = o->rank;
		if (!order)
			return number;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return add(s, o, low);
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

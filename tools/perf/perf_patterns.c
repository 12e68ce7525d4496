/* SPDX-License-Identifier: Apache-2.0 */
/* anynet perf: the communication patterns. */
#include <string.h>

#include <nccl_net/util.h>

#include "perf_stream.h"

/* --- who is connected with whom --- */

static void all_open(struct perf_rank *r)
{
	int size = r->group->size, me = r->group->rank;

	streams_allocate(r, size);
	/* As in NCCL: nearest peers first, so that the ranks do not all start with the same one. */
	for (int distance = 1; distance < size; distance++) {
		stream_add(r, (me + distance) % size, true);
		stream_add(r, (me + size - distance) % size, false);
	}
}

/* Connects the root with each other rank. */
static void star_open(struct perf_rank *r)
{
	bool is_root = r->group->rank == PERF_ROOT;

	streams_allocate(r, r->group->size);
	for (int peer = 0; peer < r->group->size; peer++) {
		if (peer != r->group->rank && (is_root || peer == PERF_ROOT))
			stream_add(r, peer, is_root == (r->opts->pattern->shape == PERF_FROM_ROOT));
	}
}

static int previous_rank(const struct perf_rank *r)
{
	return (r->group->rank + r->group->size - 1) % r->group->size;
}

static void next_open(struct perf_rank *r)
{
	streams_allocate(r, 1);
	stream_add(r, (r->group->rank + 1) % r->group->size, true);
	stream_add(r, previous_rank(r), false);
}

/* All-gather in log2 n steps: to and from the rank at distance 1, 2, 4, …, which swap all that they have. */
static void hypercube_open(struct perf_rank *r)
{
	streams_allocate(r, r->group->size);
	for (int distance = 1; distance < r->group->size; distance *= 2) {
		stream_add(r, r->group->rank ^ distance, true);
		stream_add(r, r->group->rank ^ distance, false);
		r->streams[r->link_count - 2].relays = true;
	}
}

static int hypercube_run(struct perf_rank *r, size_t count)
{
	size_t part = count / (size_t)r->group->size * PERF_ELEMENT;
	size_t me = (size_t)r->group->rank, distance = 1;

	memcpy((char *)r->output + me * part, r->input, part);
	for (int i = 0; i < r->link_count; i += 2, distance *= 2) {
		size_t begin = me & ~(distance - 1); /* of the parts that this rank has */

		stream_start(&r->streams[i], begin * part, distance * part);
		stream_start(&r->streams[i + 1], (begin ^ distance) * part, distance * part);
		if (streams_run(r))
			return -GROUP_ERROR;
	}
	return 0;
}

/* --- results --- */

static uint32_t sum_of_all(const struct perf_rank *r, size_t part, size_t i, uint32_t seed)
{
	uint32_t sum = 0;

	(void)part;
	for (int rank = 0; rank < r->group->size; rank++)
		sum += perf_value(rank, i, seed);
	return sum;
}

/* Each rank's part, in the order of the ranks. */
static uint32_t gathered(const struct perf_rank *r, size_t part, size_t i, uint32_t seed)
{
	(void)r;
	return perf_value((int)(i / part), i % part, seed);
}

static uint32_t transposed(const struct perf_rank *r, size_t part, size_t i, uint32_t seed)
{
	return perf_value((int)(i / part), (size_t)r->group->rank * part + i % part, seed);
}

static uint32_t of_root(const struct perf_rank *r, size_t part, size_t i, uint32_t seed)
{
	(void)r;
	(void)part;
	return perf_value(PERF_ROOT, i, seed);
}

static uint32_t of_previous(const struct perf_rank *r, size_t part, size_t i, uint32_t seed)
{
	(void)part;
	return perf_value(previous_rank(r), i, seed);
}

/* --- the table --- */

/* clang-format off */
static const struct perf_pattern patterns[] = {
	{ .name = "all_gather", .title = "all-gather, each to all others",
	  .has_parts = true, .keeps_parts = true, .bus_factor = 1,
	  .open = all_open, .run = streams_exchange, .expected = gathered },
	{ .name = "all_reduce", .title = "all-reduce, ring", .has_sums = true, .bus_factor = 2,
	  .open = perf_ring_open, .run = perf_ring_run, .expected = sum_of_all },
	{ .name = "alltoall", .title = "alltoall",
	  .has_parts = true, .sends_parts = true, .keeps_parts = true, .bus_factor = 1,
	  .open = all_open, .run = streams_exchange, .expected = transposed },
	{ .name = "broadcast", .title = "broadcast from rank 0, to each", .shape = PERF_FROM_ROOT,
	  .open = star_open, .run = streams_exchange, .expected = of_root },
	{ .name = "gather", .title = "gather at rank 0", .shape = PERF_TO_ROOT,
	  .has_parts = true, .keeps_parts = true, .result = PERF_AT_ROOT, .bus_factor = 1,
	  .open = star_open, .run = streams_exchange, .expected = gathered },
	{ .name = "hypercube", .title = "all-gather, hypercube",
	  .has_parts = true, .is_of_two = true, .bus_factor = 1,
	  .open = hypercube_open, .run = hypercube_run, .expected = gathered },
	{ .name = "reduce", .title = "reduce at rank 0, chain", .has_sums = true, .result = PERF_AT_ROOT,
	  .open = perf_ring_open, .run = perf_ring_run, .expected = sum_of_all },
	{ .name = "reduce_scatter", .title = "reduce-scatter, ring", .has_sums = true,
	  .has_parts = true, .result = PERF_PART, .bus_factor = 1,
	  .open = perf_ring_open, .run = perf_ring_run, .expected = sum_of_all },
	{ .name = "scatter", .title = "scatter from rank 0", .shape = PERF_FROM_ROOT,
	  .has_parts = true, .sends_parts = true, .result = PERF_PART, .bus_factor = 1,
	  .open = star_open, .run = streams_exchange, .expected = of_root },
	{ .name = "sendrecv", .title = "sendrecv, to the next rank from the previous",
	  .shape = PERF_TO_NEXT,
	  .open = next_open, .run = streams_exchange, .expected = of_previous },
};
/* clang-format on */

const struct perf_pattern *perf_pattern_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
		if (!strcmp(name, patterns[i].name))
			return &patterns[i];
	}
	return NULL;
}

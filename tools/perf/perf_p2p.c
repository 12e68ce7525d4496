/* SPDX-License-Identifier: Apache-2.0 */
/* anynet perf: patterns in which all ranks send and receive, made of streams. */
#include <string.h>

#include "perf_stream.h"

static int all_open(struct perf_rank *r)
{
	int size = r->group->size, me = r->group->rank;

	if (streams_allocate(r, size))
		return -GROUP_ERROR;
	/* As in NCCL: nearest peers first, so that the ranks do not all start with the same one. */
	for (int distance = 1; distance < size; distance++) {
		stream_add(r, (me + distance) % size, true);
		stream_add(r, (me + size - distance) % size, false);
	}
	return 0;
}

static int alltoall_run(struct perf_rank *r, size_t count)
{
	size_t part = count / (size_t)r->group->size * PERF_ELEMENT;
	size_t mine = (size_t)r->group->rank * part;

	for (int i = 0; i < r->link_count; i++)
		stream_start(&r->streams[i], (size_t)r->links[i].peer * part, part);
	memcpy((char *)r->output + mine, (const char *)r->input + mine, part);
	return streams_run(r);
}

static uint32_t alltoall_expected(const struct perf_rank *r, size_t count, size_t i, uint32_t seed)
{
	size_t part = count / (size_t)r->group->size;

	return perf_value((int)(i / part), (size_t)r->group->rank * part + i % part, seed);
}

const struct perf_pattern perf_alltoall = {
	.name = "alltoall",
	.title = "alltoall",
	.redop = "none",
	.link_step_bytes = PERF_P2P_STEP,
	.count = perf_parts_count,
	.open = all_open,
	.run = alltoall_run,
	.expected = alltoall_expected,
	.bus_factor = perf_parts_bus_factor,
};

/* Each rank sends its part directly to all others. */
static int allgather_run(struct perf_rank *r, size_t count)
{
	size_t part = count / (size_t)r->group->size * PERF_ELEMENT;
	size_t mine = (size_t)r->group->rank * part;

	for (int i = 0; i < r->link_count; i++)
		stream_start(&r->streams[i],
			     r->links[i].is_send ? 0 : (size_t)r->links[i].peer * part, part);
	memcpy((char *)r->output + mine, r->input, part);
	return streams_run(r);
}

const struct perf_pattern perf_allgather = {
	.name = "all_gather",
	.title = "all-gather, each to all others",
	.redop = "none",
	.link_step_bytes = PERF_P2P_STEP,
	.count = perf_parts_count,
	.open = all_open,
	.run = allgather_run,
	.expected = perf_gathered,
	.bus_factor = perf_parts_bus_factor,
};

/* All-gather in log2 n steps: to and from the rank at distance 1, 2, 4, …, which swap all that they have. */
static int hypercube_open(struct perf_rank *r)
{
	if (streams_allocate(r, r->group->size))
		return -GROUP_ERROR;
	for (int distance = 1; distance < r->group->size; distance *= 2) {
		stream_add(r, r->group->rank ^ distance, true);
		stream_add(r, r->group->rank ^ distance, false);
		r->streams[r->link_count - 2].relays = true;
	}
	return 0;
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

const struct perf_pattern perf_hypercube = {
	.name = "hypercube",
	.title = "all-gather, hypercube",
	.redop = "none",
	.is_of_two = true,
	.link_step_bytes = PERF_P2P_STEP,
	.count = perf_parts_count,
	.open = hypercube_open,
	.run = hypercube_run,
	.expected = perf_gathered,
	.bus_factor = perf_parts_bus_factor,
};

static int previous_rank(const struct perf_rank *r)
{
	return (r->group->rank + r->group->size - 1) % r->group->size;
}

static int sendrecv_open(struct perf_rank *r)
{
	if (streams_allocate(r, 1))
		return -GROUP_ERROR;
	stream_add(r, (r->group->rank + 1) % r->group->size, true);
	stream_add(r, previous_rank(r), false);
	return 0;
}

static int sendrecv_run(struct perf_rank *r, size_t count)
{
	for (int i = 0; i < r->link_count; i++)
		stream_start(&r->streams[i], 0, count * PERF_ELEMENT);
	return streams_run(r);
}

static uint32_t sendrecv_expected(const struct perf_rank *r, size_t count, size_t i, uint32_t seed)
{
	(void)count;
	return perf_value(previous_rank(r), i, seed);
}

const struct perf_pattern perf_sendrecv = {
	.name = "sendrecv",
	.title = "sendrecv, to the next rank from the previous",
	.redop = "none",
	.link_step_bytes = PERF_P2P_STEP,
	.count = perf_whole_count,
	.open = sendrecv_open,
	.run = sendrecv_run,
	.expected = sendrecv_expected,
	.bus_factor = perf_whole_bus_factor,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* anynet perf: patterns between rank 0 and all others: broadcast, gather, scatter. */
#include <string.h>

#include "perf_stream.h"

#define ROOT 0

static bool is_root(const struct perf_rank *r)
{
	return r->group->rank == ROOT;
}

/* Connects the root with each other rank. */
static int star_open(struct perf_rank *r, bool root_sends)
{
	if (streams_allocate(r, r->group->size))
		return -GROUP_ERROR;
	for (int peer = 0; peer < r->group->size; peer++) {
		if (peer != r->group->rank && (is_root(r) || peer == ROOT))
			stream_add(r, peer, is_root(r) == root_sends);
	}
	return 0;
}

static int out_open(struct perf_rank *r)
{
	return star_open(r, true);
}

static int in_open(struct perf_rank *r)
{
	return star_open(r, false);
}

/* At the root, the stream of a peer is at that peer's part; at the peer, it is at offset 0. */
static int parts_run(struct perf_rank *r, size_t count)
{
	size_t part = count / (size_t)r->group->size * PERF_ELEMENT;

	for (int i = 0; i < r->link_count; i++)
		stream_start(&r->streams[i], is_root(r) ? (size_t)r->links[i].peer * part : 0,
			     part);
	if (is_root(r))
		memcpy(r->output, r->input, part);
	return streams_run(r);
}

static size_t gather_checked(const struct perf_rank *r, size_t count)
{
	return is_root(r) ? count : 0;
}

static uint32_t scatter_expected(const struct perf_rank *r, size_t count, size_t i, uint32_t seed)
{
	return perf_value(ROOT, (size_t)r->group->rank * (count / (size_t)r->group->size) + i,
			  seed);
}

static size_t scatter_checked(const struct perf_rank *r, size_t count)
{
	return count / (size_t)r->group->size;
}

static int broadcast_run(struct perf_rank *r, size_t count)
{
	for (int i = 0; i < r->link_count; i++)
		stream_start(&r->streams[i], 0, count * PERF_ELEMENT);
	if (is_root(r))
		memcpy(r->output, r->input, count * PERF_ELEMENT);
	return streams_run(r);
}

static uint32_t broadcast_expected(const struct perf_rank *r, size_t count, size_t i, uint32_t seed)
{
	(void)r;
	(void)count;
	return perf_value(ROOT, i, seed);
}

const struct perf_pattern perf_broadcast = {
	.name = "broadcast",
	.title = "broadcast from rank 0, to each",
	.redop = "none",
	.link_step_bytes = PERF_P2P_STEP,
	.count = perf_whole_count,
	.open = out_open,
	.run = broadcast_run,
	.expected = broadcast_expected,
	.bus_factor = perf_whole_bus_factor,
};

const struct perf_pattern perf_gather = {
	.name = "gather",
	.title = "gather at rank 0",
	.redop = "none",
	.link_step_bytes = PERF_P2P_STEP,
	.count = perf_parts_count,
	.open = in_open,
	.run = parts_run,
	.expected = perf_gathered,
	.checked = gather_checked,
	.bus_factor = perf_parts_bus_factor,
};

const struct perf_pattern perf_scatter = {
	.name = "scatter",
	.title = "scatter from rank 0",
	.redop = "none",
	.link_step_bytes = PERF_P2P_STEP,
	.count = perf_parts_count,
	.open = out_open,
	.run = parts_run,
	.expected = scatter_expected,
	.checked = scatter_checked,
	.bus_factor = perf_parts_bus_factor,
};

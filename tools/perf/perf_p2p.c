/* SPDX-License-Identifier: Apache-2.0 */
/*
 * anynet perf: the patterns made of sends and receives. Every pair of ranks has a connection each
 * way; a stream carries one rank's data for another over it, step by step.
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>

struct perf_stream {
	struct link *link;
	size_t offset; /* in input or output, in bytes; of this run */
	size_t bytes;
	uint64_t first; /* link->posted and link->done when the run began */
	uint64_t steps; /* messages of this run: at least one, so that nothing is news, too */
};

static size_t step_bytes_of(const struct perf_stream *s, uint64_t step)
{
	size_t at = step * PERF_P2P_STEP;

	return s->bytes - at < PERF_P2P_STEP ? s->bytes - at : PERF_P2P_STEP;
}

static int send_step(struct perf_rank *r, struct perf_stream *s)
{
	struct link *l = s->link;
	uint64_t step = l->posted - s->first;
	int ret;

	if (link_has_room(l)) {
		size_t bytes = step_bytes_of(s, step);
		const char *from = (const char *)r->input + s->offset + step * PERF_P2P_STEP;

		memcpy(link_slot_data(l, l->posted), from, bytes);
		ret = link_post(l, bytes);
		if (ret)
			return ret;
	}
	return l->done < l->posted ? link_test(l) : 0;
}

static int recv_step(struct perf_rank *r, struct perf_stream *s)
{
	struct link *l = s->link;
	uint64_t done = l->done, step = done - s->first;
	int ret = link_step(l, PERF_P2P_STEP);

	if (l->done == done)
		return ret;
	if (link_expect(l, done, step_bytes_of(s, step)))
		return -GROUP_ERROR;
	memcpy((char *)r->output + s->offset + step * PERF_P2P_STEP, link_slot_data(l, done),
	       step_bytes_of(s, step));
	return ret;
}

static void stream_start(struct perf_stream *s, size_t offset, size_t bytes)
{
	s->offset = offset;
	s->bytes = bytes;
	s->first = s->link->done;
	s->steps = bytes ? (bytes + PERF_P2P_STEP - 1) / PERF_P2P_STEP : 1;
	s->link->total = s->first + s->steps;
}

static int streams_run(struct perf_rank *r)
{
	int open;

	do {
		int moved = 0;

		open = 0;
		for (int i = 0; i < r->link_count; i++) {
			struct perf_stream *s = &r->streams[i];
			int ret;

			if (s->link->done == s->link->total)
				continue;
			open++;
			ret = s->link->is_send ? send_step(r, s) : recv_step(r, s);
			if (ret < 0)
				return ret;
			moved |= ret;
		}
		if (moved)
			group_fed(r->group);
		else if (open && group_idle(r->group))
			return -GROUP_ERROR;
	} while (open);
	return 0;
}

static void add_stream(struct perf_rank *r, int peer, bool is_send)
{
	int i = r->link_count++, me = r->group->rank;

	r->links[i] = (struct link){
		.ep = &r->ep,
		.slot = &r->board->slots[is_send ? peer : me][is_send ? me : peer],
		.is_send = is_send,
		.peer = peer,
	};
	r->streams[i].link = &r->links[i];
}

static int allocate(struct perf_rank *r, int peers)
{
	r->links = calloc(2 * (size_t)peers, sizeof(*r->links));
	r->streams = calloc(2 * (size_t)peers, sizeof(*r->streams));
	return r->links && r->streams ? 0 : -GROUP_ERROR;
}

static int alltoall_open(struct perf_rank *r)
{
	int size = r->group->size, me = r->group->rank;

	if (allocate(r, size))
		return -GROUP_ERROR;
	/* As NCCL: the nearest first, so that not all ranks talk to one at a time. */
	for (int distance = 1; distance < size; distance++) {
		add_stream(r, (me + distance) % size, true);
		add_stream(r, (me + size - distance) % size, false);
	}
	return 0;
}

static size_t alltoall_count(const struct perf_options *opts, size_t bytes)
{
	size_t part = bytes / PERF_ELEMENT / (size_t)opts->ranks;

	return (part ? part : 1) * (size_t)opts->ranks;
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

static double alltoall_bus_factor(int ranks)
{
	return (double)(ranks - 1) / ranks;
}

const struct perf_pattern perf_alltoall = {
	.name = "alltoall",
	.title = "alltoall",
	.redop = "none",
	.link_step_bytes = PERF_P2P_STEP,
	.count = alltoall_count,
	.open = alltoall_open,
	.run = alltoall_run,
	.expected = alltoall_expected,
	.bus_factor = alltoall_bus_factor,
};

static int previous_rank(const struct perf_rank *r)
{
	return (r->group->rank + r->group->size - 1) % r->group->size;
}

static int sendrecv_open(struct perf_rank *r)
{
	if (allocate(r, 1))
		return -GROUP_ERROR;
	add_stream(r, (r->group->rank + 1) % r->group->size, true);
	add_stream(r, previous_rank(r), false);
	return 0;
}

static size_t sendrecv_count(const struct perf_options *opts, size_t bytes)
{
	(void)opts;
	return bytes / PERF_ELEMENT ? bytes / PERF_ELEMENT : 1;
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

static double sendrecv_bus_factor(int ranks)
{
	(void)ranks;
	return 1.0;
}

const struct perf_pattern perf_sendrecv = {
	.name = "sendrecv",
	.title = "sendrecv, to the next rank from the previous",
	.redop = "none",
	.link_step_bytes = PERF_P2P_STEP,
	.count = sendrecv_count,
	.open = sendrecv_open,
	.run = sendrecv_run,
	.expected = sendrecv_expected,
	.bus_factor = sendrecv_bus_factor,
};

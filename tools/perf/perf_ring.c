/* SPDX-License-Identifier: Apache-2.0 */
/*
 * anynet perf: ring all-reduce, as NCCL's Simple protocol does it. Each channel is a ring of its own
 * over its part of the data. A ring goes over its part in loops of one chunk per rank; in a loop, a
 * chunk travels 2 (n - 1) hops: n - 1 to be summed up, n - 1 to be handed round. Chunks are cut into
 * two slices, the messages, so that a slice travels while the next one is being added.
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>

#define SLICES    2 /* of a chunk */
#define SLICE_MAX (PERF_RING_STEP / PERF_ELEMENT)
#define ALIGN     (128 / PERF_ELEMENT) /* LL128's line: slices start on one */

struct perf_ring {
	struct link *send, *recv;
	size_t begin, end; /* the channel's part, in elements */
	size_t chunk;      /* elements of this run's chunks; the last ones hold fewer */
	size_t slice;      /* elements of a slice */
	size_t slices;     /* slices of every chunk: 1 or SLICES */

	/* The operation that comes next, of ops_end. */
	uint64_t op, ops_end;
	uint64_t consumed; /* received slices used up */
	bool send_waits;   /* its result is in the send slot but not yet taken by the net */
	size_t send_bytes;
};

/* One operation: receive a slice, add or copy it, send it on. */
struct op {
	bool receives, sends, adds, keeps;
	size_t offset, count; /* of the slice, in elements */
};

static size_t round_up(size_t n, size_t unit)
{
	return (n + unit - 1) / unit * unit;
}

static size_t ring_count(const struct perf_options *opts, size_t bytes)
{
	(void)opts;
	return bytes / PERF_ELEMENT ? bytes / PERF_ELEMENT : 1;
}

static uint64_t hops(const struct perf_rank *r)
{
	return 2 * (uint64_t)(r->group->size - 1) + 1;
}

/* Operation number `index` in the order in which every rank goes: loop, hop, slice. */
static struct op ring_op(const struct perf_rank *r, const struct perf_ring *ring, uint64_t index)
{
	uint64_t size = (uint64_t)r->group->size, rank = (uint64_t)r->group->rank;
	uint64_t slice = index % ring->slices;
	uint64_t hop = index / ring->slices % hops(r);
	uint64_t loop = index / ring->slices / hops(r);
	uint64_t chunk = (rank + 2 * size - hop) % size;
	size_t chunk_end, at;
	struct op op;

	at = ring->begin + (loop * size + chunk) * ring->chunk;
	chunk_end = at + ring->chunk < ring->end ? at + ring->chunk : ring->end;
	at += slice * ring->slice;
	op.offset = at;
	op.count = at >= chunk_end ? 0 : chunk_end - at;
	if (op.count > ring->slice)
		op.count = ring->slice;
	op.receives = hop > 0;
	op.sends = hop < hops(r) - 1;
	op.adds = hop > 0 && hop < size;
	op.keeps = hop >= size - 1;
	return op;
}

/* What the GPU does in NCCL: from the received slice and the input to the send slot and output. */
static void compute(struct perf_rank *r, struct perf_ring *ring, const struct op *op)
{
	const char *input = (const char *)r->input + op->offset * PERF_ELEMENT;
	char *output = (char *)r->output + op->offset * PERF_ELEMENT;
	const char *from = op->receives ? link_slot_data(ring->recv, ring->consumed) : input;
	char *to = op->sends ? link_slot_data(ring->send, ring->send->posted) : NULL;
	size_t bytes = op->count * PERF_ELEMENT;

	if (op->adds && op->keeps) {
		perf_sum(r->opts->type, output, from, input, op->count);
		from = output;
	} else if (op->adds) {
		perf_sum(r->opts->type, to, from, input, op->count);
		return;
	} else if (op->keeps) {
		memcpy(output, from, bytes);
	}
	if (to)
		memcpy(to, from, bytes);
}

/* Do the next operation if its slice is there and a send slot is free. */
static int ring_operate(struct perf_rank *r, struct perf_ring *ring)
{
	struct op op;

	if (ring->op == ring->ops_end || ring->send_waits)
		return 0;
	op = ring_op(r, ring, ring->op);
	if (op.receives && ring->recv->done == ring->consumed)
		return 0;
	if (op.sends && ring->send->posted - ring->send->done == LINK_STEPS)
		return 0;
	if (op.receives && link_expect(ring->recv, ring->consumed, op.count * PERF_ELEMENT))
		return -GROUP_ERROR;
	compute(r, ring, &op);
	ring->op++;
	if (op.receives) {
		ring->consumed++;
		ring->recv->held--;
	}
	ring->send_waits = op.sends;
	ring->send_bytes = op.count * PERF_ELEMENT;
	return 1;
}

static int ring_send_step(struct perf_ring *ring)
{
	struct link *send = ring->send;

	if (ring->send_waits) {
		int ret = link_post(send, ring->send_bytes);

		if (ret > 0)
			ring->send_waits = false;
		if (ret)
			return ret;
	}
	return send->done < send->posted ? link_test(send) : 0;
}

static int ring_recv_step(struct perf_ring *ring)
{
	uint64_t done = ring->recv->done;
	int ret = link_step(ring->recv, PERF_RING_STEP);

	ring->recv->held += (unsigned)(ring->recv->done - done);
	return ret;
}

static int ring_step(struct perf_rank *r, struct perf_ring *ring)
{
	int moved = ring_operate(r, ring), ret;

	if (moved < 0)
		return moved;
	ret = ring_send_step(ring);
	if (ret < 0)
		return ret;
	moved |= ret;
	ret = ring_recv_step(ring);
	return ret < 0 ? ret : moved | ret;
}

/* Cut the channel's part into loops, chunks and slices. */
static void ring_start(struct perf_rank *r, struct perf_ring *ring, size_t count, int channel)
{
	size_t size = (size_t)r->group->size, channels = (size_t)r->opts->channels;
	size_t part = round_up((count + channels - 1) / channels, ALIGN), loops;

	ring->begin = part * (size_t)channel < count ? part * (size_t)channel : count;
	ring->end = ring->begin + part < count ? ring->begin + part : count;
	part = ring->end - ring->begin;
	ring->chunk = round_up((part + size - 1) / size, ALIGN);
	if (ring->chunk > SLICES * SLICE_MAX)
		ring->chunk = SLICES * SLICE_MAX;
	ring->slice = round_up((ring->chunk + SLICES - 1) / SLICES, ALIGN);
	ring->slices = ring->chunk > ring->slice ? SLICES : 1;
	loops = part ? (part + size * ring->chunk - 1) / (size * ring->chunk) : 0;
	ring->op = 0;
	ring->ops_end = loops * hops(r) * ring->slices;
	ring->recv->total += loops * (hops(r) - 1) * ring->slices;
}

static bool ring_is_done(const struct perf_ring *ring)
{
	return ring->op == ring->ops_end && !ring->send_waits &&
	       ring->send->done == ring->send->posted;
}

static int ring_run(struct perf_rank *r, size_t count)
{
	int channels = r->opts->channels, open;

	for (int c = 0; c < channels; c++)
		ring_start(r, &r->rings[c], count, c);
	do {
		int moved = 0;

		open = 0;
		for (int c = 0; c < channels; c++) {
			int ret;

			if (ring_is_done(&r->rings[c]))
				continue;
			open++;
			ret = ring_step(r, &r->rings[c]);
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

static int ring_open(struct perf_rank *r)
{
	int size = r->group->size, me = r->group->rank;
	int next = (me + 1) % size, previous = (me + size - 1) % size;

	r->link_count = 2 * r->opts->channels;
	r->links = calloc((size_t)r->link_count, sizeof(*r->links));
	r->rings = calloc((size_t)r->opts->channels, sizeof(*r->rings));
	if (!r->links || !r->rings)
		return -GROUP_ERROR;
	for (int c = 0; c < r->opts->channels; c++) {
		struct perf_ring *ring = &r->rings[c];

		ring->send = &r->links[2 * c];
		ring->recv = &r->links[2 * c + 1];
		*ring->send = (struct link){
			.ep = &r->ep,
			.slot = &r->board->slots[next][c],
			.is_send = true,
			.peer = next,
		};
		*ring->recv = (struct link){
			.ep = &r->ep,
			.slot = &r->board->slots[me][c],
			.peer = previous,
		};
	}
	return 0;
}

static uint32_t ring_expected(const struct perf_rank *r, size_t count, size_t i, uint32_t seed)
{
	uint32_t sum = 0;

	(void)count;
	for (int rank = 0; rank < r->group->size; rank++)
		sum += perf_value(rank, i, seed);
	return sum;
}

static double ring_bus_factor(int ranks)
{
	return 2.0 * (ranks - 1) / ranks;
}

const struct perf_pattern perf_allreduce = {
	.name = "allreduce",
	.title = "all-reduce, ring",
	.redop = "sum",
	.link_step_bytes = PERF_RING_STEP,
	.count = ring_count,
	.open = ring_open,
	.run = ring_run,
	.expected = ring_expected,
	.bus_factor = ring_bus_factor,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * anynet perf: patterns with sums, on rings as in NCCL's Simple protocol. Each channel is a ring over its
 * part of the data. An all-reduce processes its part in loops of one chunk per rank. In a loop a chunk
 * travels 2 (n - 1) hops: n - 1 to be summed, n - 1 to be distributed. A reduce-scatter ends after the
 * first n - 1. A reduce is a chain that ends at rank 0. A chunk is sent as two slices (messages), so that
 * one travels while the next is added.
 */
#include "perf.h"

#include <string.h>

#include "tools/shared/memory.h"

#define SLICES    2 /* slices of a chunk */
#define SLICE_MAX (PERF_RING_STEP / PERF_ELEMENT)
#define ALIGN     (128 / PERF_ELEMENT) /* LL128's line size; slices are aligned to it */

/* The part of a rank in a ring. */
struct course {
	uint64_t hops;   /* operations on each slice of a loop */
	uint64_t chunks; /* adjacent chunks in a loop */
	size_t stride;   /* elements between the chunks of consecutive ranks; 0 = one chunk */
	uint64_t shift;  /* how many chunks before its own a rank starts */
	uint64_t place;  /* reduce: hops before this rank in the chain */
};

struct perf_ring {
	struct link *send, *recv;
	size_t begin, end; /* part of the channel, in elements */
	size_t chunk;      /* elements of a chunk in this run; the last ones may be shorter */
	size_t slice;      /* elements of a slice */
	size_t slices;     /* slices of each chunk: 1 or SLICES */

	struct course course;

	/* The next operation, 0 … ops_end. */
	uint64_t op, ops_end;
	uint64_t consumed; /* received slices that have been processed */
	bool send_waits;   /* the send slot holds a result that isend has not accepted yet */
	size_t send_bytes;
};

/* One operation: receive a slice, add or copy it, send it on. */
struct op {
	bool receives, sends, adds, keeps;
	size_t offset, count; /* of the slice, in elements */
	size_t keep_at;       /* position in the output */
};

static size_t round_up(size_t n, size_t unit)
{
	return (n + unit - 1) / unit * unit;
}

static struct course course_of(const struct perf_rank *r, size_t count)
{
	uint64_t size = (uint64_t)r->group->size, rank = (uint64_t)r->group->rank;

	if (r->opts->pattern->result == PERF_AT_ROOT)
		return (struct course){ .hops = 1,
					.chunks = 1,
					.place = (rank + size - 1 - PERF_ROOT) % size };
	if (r->opts->pattern->result == PERF_PART)
		return (struct course){ .hops = size, .chunks = 1, .stride = count / size, .shift = 1 };
	return (struct course){ .hops = 2 * (size - 1) + 1, .chunks = size };
}

/* Returns operation number `index`. All ranks use the same order: loop, hop, slice. */
static struct op ring_op(const struct perf_rank *r, const struct perf_ring *ring, uint64_t index)
{
	const struct course *c = &ring->course;
	uint64_t size = (uint64_t)r->group->size, rank = (uint64_t)r->group->rank;
	uint64_t slice = index % ring->slices;
	uint64_t turn = index / ring->slices % c->hops, hop = turn + c->place;
	uint64_t loop = index / ring->slices / c->hops;
	uint64_t chunk = c->hops > 1 ? (rank + 2 * size - hop - c->shift) % size : 0;
	uint64_t last = c->chunks > 1 ? c->hops - 1 : size - 1;
	size_t chunk_end, at;
	struct op op;

	at = ring->begin + (loop * c->chunks + (c->stride ? 0 : chunk)) * ring->chunk;
	chunk_end = at + ring->chunk < ring->end ? at + ring->chunk : ring->end;
	at += slice * ring->slice;
	op.count = at >= chunk_end ? 0 : chunk_end - at;
	if (op.count > ring->slice)
		op.count = ring->slice;
	op.keep_at = at;
	op.offset = at + chunk * c->stride;
	op.receives = hop > 0;
	op.sends = hop < last;
	op.adds = hop > 0 && hop < size;
	op.keeps = hop >= size - 1;
	return op;
}

/* The work of NCCL's GPU kernel: combines the received slice and the input into the send slot and
 * the output. */
static void compute(struct perf_rank *r, struct perf_ring *ring, const struct op *op)
{
	const char *input = (const char *)r->input + op->offset * PERF_ELEMENT;
	char *output = (char *)r->output + op->keep_at * PERF_ELEMENT;
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

/* Performs the next operation if its slice has arrived and a send slot is free. */
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

/* Divides the channel's part into loops, chunks and slices. */
static void ring_start(struct perf_rank *r, struct perf_ring *ring, size_t count, int channel)
{
	const struct course c = course_of(r, count);
	size_t all = c.stride ? c.stride : count, channels = (size_t)r->opts->channels;
	size_t part = round_up((all + channels - 1) / channels, ALIGN), loops;

	ring->course = c;
	ring->begin = part * (size_t)channel < all ? part * (size_t)channel : all;
	ring->end = ring->begin + part < all ? ring->begin + part : all;
	part = ring->end - ring->begin;
	ring->chunk = round_up((part + c.chunks - 1) / c.chunks, ALIGN);
	if (ring->chunk > SLICES * SLICE_MAX)
		ring->chunk = SLICES * SLICE_MAX;
	ring->slice = round_up((ring->chunk + SLICES - 1) / SLICES, ALIGN);
	ring->slices = ring->chunk > ring->slice ? SLICES : 1;
	loops = part ? (part + c.chunks * ring->chunk - 1) / (c.chunks * ring->chunk) : 0;
	ring->op = 0;
	ring->ops_end = loops * c.hops * ring->slices;
	ring->recv->total += loops * (c.hops - (c.place ? 0 : 1)) * ring->slices;
}

static bool ring_is_done(const struct perf_ring *ring)
{
	return ring->op == ring->ops_end && !ring->send_waits &&
	       ring->send->done == ring->send->posted;
}

static int ring_part(struct perf_rank *r, int i)
{
	return ring_is_done(&r->rings[i]) ? PERF_DONE : ring_step(r, &r->rings[i]);
}

int perf_ring_run(struct perf_rank *r, size_t count)
{
	for (int c = 0; c < r->opts->channels; c++)
		ring_start(r, &r->rings[c], count, c);
	return perf_drive(r, r->opts->channels, ring_part);
}

void perf_ring_open(struct perf_rank *r)
{
	int size = r->group->size, me = r->group->rank;
	int next = (me + 1) % size, previous = (me + size - 1) % size;

	r->link_count = 2 * r->opts->channels;
	r->links = memory_get((size_t)r->link_count * sizeof(*r->links));
	r->rings = memory_get((size_t)r->opts->channels * sizeof(*r->rings));
	for (int c = 0; c < r->opts->channels; c++) {
		struct perf_ring *ring = &r->rings[c];

		ring->send = &r->links[2 * c];
		ring->recv = &r->links[2 * c + 1];
		*ring->send = (struct link){
			.ep = &r->ep,
			.slot = &r->area->slots[next][c],
			.is_send = true,
			.peer = next,
		};
		*ring->recv = (struct link){
			.ep = &r->ep,
			.slot = &r->area->slots[me][c],
			.peer = previous,
		};
	}
}

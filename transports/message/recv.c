/* SPDX-License-Identifier: Apache-2.0 */
/* A receive comm: posting and reporting of its requests. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/pinned.h"
#include "message/profile.h"
#include "message/recv_internal.h"

struct anynet_comm *recv_create(const struct anynet_device *dev, uint32_t replay_bytes)
{
	struct recv_comm *comm = calloc(1, sizeof(*comm));
	struct recv_tables *tables = comm ? pinned_alloc(sizeof(*tables)) : NULL;

	if (!tables) {
		free(comm);
		return NULL;
	}
	comm->msgs = tables->msgs;
	comm->reqs = tables->reqs;
	comm->unexpected.end = &comm->unexpected.first;
	comm->unmatched.end = &comm->unmatched.first;
	comm->owed.replay_bytes = replay_bytes;
	comm->seen.all = comm->seen.completed = comm->posted.all = comm->posted.clearable =
		comm->posted.oldest = anynet_net.cfg->first_number;
	comm->owed.held_until = anynet_net.cfg->first_number;
	comm->base.dev = dev;
	return &comm->base;
}

void recv_free(struct anynet_comm *base)
{
	recv_unexpected_free_all(to_recv(base));
	free(to_recv(base)->flushes);
	pinned_free(to_recv(base)->msgs, sizeof(struct recv_tables));
	free(base);
}

static bool uses(const struct anynet_comm *base, const struct anynet_mr *mr)
{
	const struct recv_comm *comm = (const struct recv_comm *)base;

	for (int i = 0; i < ANYNET_REQUESTS; i++)
		for (int k = 0; k < ANYNET_RECVS_MAX; k++)
			if (comm->reqs[i].subs[k].mr == mr)
				return true;
	return recv_flush_uses(comm, mr);
}

static uint32_t requests(const struct anynet_comm *base)
{
	return ((const struct recv_comm *)base)->posted.all;
}

static uint64_t bytes_placed(const struct anynet_comm *base)
{
	return ((const struct recv_comm *)base)->placed.bytes;
}

/* A frame counts more once it is complete, also an empty one. */
static uint64_t progress(const struct anynet_comm *base)
{
	const struct recv_placed *placed = &((const struct recv_comm *)base)->placed;
	uint64_t begun = 0;

	for (unsigned i = 0; i < base->stream_count; i++)
		if (base->streams[i])
			begun += base->streams[i]->ops->begun(base->streams[i]);
	return placed->chunks + placed->bytes + begun;
}

static void describe(const struct anynet_comm *base, char *text, size_t bytes)
{
	const struct recv_comm *comm = (const struct recv_comm *)base;
	const struct recv_req *req;
	uint32_t i = comm->posted.oldest;

	while (i != comm->posted.all && atomic_load(&comm->reqs[i & RECV_REQ_MASK].req.done))
		i++;
	req = &comm->reqs[i & RECV_REQ_MASK];
	snprintf(text, bytes, "%u receives, the oldest of %zu bytes, tag %u", comm_pending(base),
		 req->subs[0].capacity, req->subs[0].tag);
}

const struct message_ops recv_ops = {
	.uses = uses,
	.requests = requests,
	.bytes = bytes_placed,
	.progress = progress,
	.describe = describe,
};

bool recv_comm_ready(const struct anynet_comm *base)
{
	return ((const struct recv_comm *)base)->ready;
}

uint64_t recv_streams_standing(const struct anynet_comm *base)
{
	return ((const struct recv_comm *)base)->streams_standing;
}

int recv_control(struct recv_comm *comm, struct anynet_stream *stream,
		 const struct anynet_wire_frame *header)
{
	if (header->length) {
		comm_note_fault(&comm->base, stream, -EPROTO,
				"frame of type %u with a payload of "
				"%u bytes",
				header->type, header->length);
		return -EPROTO;
	}
	switch (header->type) {
	case ANYNET_FRAME_RTS:
		return recv_announced(comm, header);
	case ANYNET_FRAME_READY:
		comm->ready = true;
		comm->streams_standing = header->offset;
		return 0;
	case ANYNET_FRAME_BYE:
		stream->bye.came = true;
		return 0;
	case ANYNET_FRAME_PING:
		return 0;
	default:
		comm_note_fault(&comm->base, stream, -EPROTO, "frame of unknown type %u",
				header->type);
		return -EPROTO;
	}
}

/* --- posting and reporting --- */

/* Once a receive is in GPU memory no payload comes in frames, so small receives without a CTS now need one. */
static ANYNET_COLD void note_memory(struct recv_comm *comm, enum recv_memory memory)
{
	comm->memory = memory;
	for (unsigned i = 0; i < comm->base.stream_count && memory == RECV_GPU; i++)
		if (comm->base.streams[i])
			recv_cts_again(comm, comm->base.streams[i]);
}

static void post_sub(struct recv_comm *comm, struct recv_req *req, const struct anynet_recv *recv,
		     int i)
{
	struct anynet_mr *mr = recv->mrs ? recv->mrs[i] : NULL;
	struct recv_sub *sub = &req->subs[i];

	sub->owner = req;
	sub->data = recv->data[i];
	sub->capacity = recv->bytes[i];
	sub->tag = (uint32_t)recv->tags[i];
	sub->mr = mr;
	sub->on_gpu = mr && mr->gpu;
	if (anynet_unlikely(comm->memory < (sub->on_gpu ? RECV_GPU : RECV_HOST) && sub->capacity))
		note_memory(comm, sub->on_gpu ? RECV_GPU : RECV_HOST);
	sub->polled = recv->polled;
	sub->event = profile_start(&comm->base, recv->phandles ? recv->phandles[i] : NULL, sub->capacity);
	sub->next = NULL;
	if (anynet_unlikely(sub->on_gpu))
		comm_note_gpu(&comm->base, mr);
	mr_hold(&comm->base, mr);
	*comm->unmatched.end = sub;
	comm->unmatched.end = &sub->next;
}

int recv_post(struct anynet_comm *base, const struct anynet_recv *recv, struct anynet_request **out)
{
	struct recv_comm *comm = to_recv(base);
	struct recv_req *req = &comm->reqs[comm->posted.all & RECV_REQ_MASK];
	int ret = 0;

	if (anynet_unlikely(req->busy))
		return -EAGAIN;
	for (int i = 0; i < recv->n && comm_is_ib(base); i++)
		if (anynet_unlikely(!(recv->mrs && recv->mrs[i]) && recv->bytes[i]))
			return -EADDRNOTAVAIL;
	if (comm->order == RECV_FIRST) {
		comm->order = RECV_PLAIN;
		comm->tag = (uint32_t)recv->tags[0];
	}
	if (recv->n > 1 || (uint32_t)recv->tags[0] != comm->tag)
		comm->order = RECV_BY_TAG;
	req->req.comm = base;
	req->busy = true;
	req->n = req->pending = (uint8_t)recv->n;
	atomic_store_explicit(&req->req.done, false, memory_order_relaxed);
	for (int i = 0; i < recv->n; i++)
		post_sub(comm, req, recv, i);
	comm->posted.all++;
	base->counts.pending++;
	if (recv_is_plain(comm))
		comm->posted.clearable = comm->posted.all;
	comm_unpark(base);
	if (anynet_unlikely(!recv_is_plain(comm)))
		ret = recv_match_unexpected(comm);
	comm->owed.untold |= comm_is_ib(base);
	if (anynet_likely(!ret))
		*out = &req->req;
	return ret;
}

bool recv_report(struct anynet_request *base, int *sizes)
{
	struct recv_comm *comm = to_recv(base->comm);
	struct recv_req *req = (struct recv_req *)base;

	for (int i = 0; i < req->n; i++) {
		profile_stop(req->subs[i].event);
		if (sizes)
			sizes[i] = (int)req->subs[i].size;
	}
	req->busy = false;
	while (comm->posted.oldest != comm->posted.all &&
	       !comm->reqs[comm->posted.oldest & RECV_REQ_MASK].busy) {
		/* Never behind `oldest`: far enough behind, it would count as ahead of it. */
		if (anynet_unlikely(comm->posted.clearable == comm->posted.oldest))
			comm->posted.clearable++;
		comm->posted.oldest++;
	}
	return comm->posted.oldest == comm->posted.all && (comm->owed.ack_prompt || comm->owed.cts);
}

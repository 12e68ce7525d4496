/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving half of the message layer: irecv, test, and what a receive comm tells the sender.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "recv_internal.h"

static_assert(sizeof(struct anynet_wire_frame) + ANYNET_ACK_BYTES <= RAIL_CONTROL_BYTES,
	      "ack frame");

static struct recv_comm *to_recv(struct anynet_comm *comm)
{
	return (struct recv_comm *)comm;
}

struct anynet_comm *recv_comm_create(const struct anynet_device *dev, unsigned rail_count,
				     uint32_t replay_bytes)
{
	struct recv_comm *comm = calloc(1, sizeof(*comm));

	if (!comm)
		return NULL;
	comm->plain = true;
	comm->arrivals_end = &comm->arrivals;
	comm->replay_bytes = replay_bytes;
	for (int i = 0; i < ANYNET_REQUESTS; i++) {
		comm->reqs[i].req.comm = &comm->base;
		for (int k = 0; k < ANYNET_RECVS_MAX; k++)
			comm->reqs[i].subs[k].owner = &comm->reqs[i];
	}
	if (comm_init(&comm->base, false, dev, rail_count)) {
		free(comm);
		return NULL;
	}
	return &comm->base;
}

void recv_comm_destroy(struct anynet_comm *base)
{
	comm_fini(base);
	recv_free_arrivals(to_recv(base));
	free(base);
}

unsigned recv_pending(const struct anynet_comm *base)
{
	const struct recv_comm *comm = (const struct recv_comm *)base;

	return comm->posted - comm->completions;
}

bool recv_comm_ready(const struct anynet_comm *base)
{
	return ((const struct recv_comm *)base)->ready;
}

unsigned recv_completions(const struct recv_comm *comm)
{
	return comm->completions;
}

/* --- acknowledgements and grants --- */

/* A quarter of the slots or of the ring may fill up before the sender is told unasked. */
static bool ack_lazy_due(const struct recv_comm *comm)
{
	return comm->complete >= ANYNET_SENDS / 4 || comm->lazy_bytes >= comm->replay_bytes / 4;
}

static bool control_due(const struct recv_comm *comm)
{
	return comm->ack_prompt || comm->grants || ack_lazy_due(comm);
}

static size_t make_grant(struct recv_comm *comm, uint8_t *frame)
{
	struct anynet_wire_frame header = { .type = ANYNET_FRAME_GRANT };

	for (unsigned slot = 0; slot < ANYNET_SENDS; slot++) {
		struct recv_msg *msg = &comm->msgs[slot];

		if (!msg->asked || msg->state != RECV_MATCHED)
			continue;
		msg->asked = false;
		comm->grants--;
		header.slot = (uint16_t)slot;
		header.seq = msg->seq;
		header.tag = msg->tag;
		memcpy(frame, &header, sizeof(header));
		return sizeof(header);
	}
	comm->grants = 0;
	return 0;
}

static size_t make_ack(struct recv_comm *comm, uint8_t *frame)
{
	struct anynet_wire_frame header = { .type = ANYNET_FRAME_ACK,
					    .seq = comm->announced,
					    .length = ANYNET_ACK_BYTES };

	memcpy(frame, &header, sizeof(header));
	memcpy(frame + sizeof(header), comm->ack_bits, ANYNET_ACK_BYTES);
	memset(comm->ack_bits, 0, sizeof(comm->ack_bits));
	comm->complete = 0;
	comm->ack_prompt = false;
	comm->lazy_bytes = 0;
	return sizeof(header) + ANYNET_ACK_BYTES;
}

size_t recv_next_control(struct recv_comm *comm, uint8_t frame[RAIL_CONTROL_BYTES])
{
	size_t bytes = comm->grants ? make_grant(comm, frame) : 0;

	if (bytes)
		return bytes;
	return comm->ack_prompt || ack_lazy_due(comm) ? make_ack(comm, frame) : 0;
}

int recv_control(struct recv_comm *comm, struct anynet_rail *rail,
		 const struct anynet_wire_frame *header)
{
	if (header->length) {
		comm_fail(&comm->base, rail, -EPROTO, "frame of type %u with %u bytes behind it",
			  header->type, header->length);
		return -EPROTO;
	}
	switch (header->type) {
	case ANYNET_FRAME_RTS:
		return recv_announced(comm, header);
	case ANYNET_FRAME_READY:
		comm->ready = true;
		return 0;
	case ANYNET_FRAME_BYE:
		rail->bye = true;
		return 0;
	default:
		comm_fail(&comm->base, rail, -EPROTO, "frame of unknown type %u", header->type);
		return -EPROTO;
	}
}

/* --- irecv and test --- */

static void post_sub(struct recv_comm *comm, struct recv_req *req, int i, void *data, size_t bytes,
		     int tag, struct anynet_mr *mr, void *event)
{
	struct recv_sub *sub = &req->subs[i];

	sub->data = data;
	sub->capacity = bytes;
	sub->tag = (uint32_t)tag;
	sub->mr = mr;
	sub->event = event;
	sub->next = NULL;
	comm->unfilled++;
	mr_hold(mr);
	if (comm->unmatched_tail)
		comm->unmatched_tail->next = sub;
	else
		comm->unmatched_head = sub;
	comm->unmatched_tail = sub;
}

static int irecv_entered(struct recv_comm *comm, int n, void *const *data, const size_t *bytes,
			 const int *tags, struct anynet_mr *const *mrs, void *const *phandles,
			 struct anynet_request **out)
{
	struct recv_req *req = &comm->reqs[comm->posted & RECV_REQ_MASK];
	int ret = comm_error(&comm->base);

	if (anynet_unlikely(ret))
		return ret;
	if (req->busy)
		return 0;
	if (anynet_unlikely(comm->base.peer_closed)) {
		comm_fail(&comm->base, NULL, -ECONNRESET, "the peer closed the connection");
		return -ECONNRESET;
	}
	if (!comm->posted)
		comm->tag = (uint32_t)tags[0];
	if (n > 1 || (uint32_t)tags[0] != comm->tag)
		comm->plain = false;
	req->busy = true;
	req->n = req->pending = (uint8_t)n;
	atomic_store_explicit(&req->req.done, false, memory_order_relaxed);
	for (int i = 0; i < n; i++)
		post_sub(comm, req, i, data[i], bytes[i], tags[i], mrs ? mrs[i] : NULL,
			 profile_start(&comm->base, phandles ? phandles[i] : NULL, bytes[i]));
	comm->posted++;
	comm->outstanding++;
	comm_unpark(&comm->base);
	if (anynet_unlikely(!comm->plain))
		ret = recv_match_arrivals(comm);
	if (anynet_likely(!ret))
		*out = &req->req;
	else
		comm_close_rails(&comm->base);
	return ret;
}

int anynet_irecv(struct anynet_comm *base, int n, void *const *data, const size_t *bytes,
		 const int *tags, struct anynet_mr *const *mrs, void *const *phandles,
		 struct anynet_request **req)
{
	int ret;

	*req = NULL;
	if (anynet_unlikely(base->is_send || n < 1 || n > ANYNET_RECVS_MAX))
		return -EINVAL;
	comm_enter(base);
	ret = irecv_entered(to_recv(base), n, data, bytes, tags, mrs, phandles, req);
	comm_leave(base);
	return ret;
}

static void report(struct recv_comm *comm, struct recv_req *req, int *done, int *sizes)
{
	for (int i = 0; i < req->n; i++) {
		profile_stop(req->subs[i].event);
		if (sizes)
			sizes[i] = (int)req->subs[i].size;
	}
	req->busy = false;
	comm->outstanding--;
	*done = 1;
	/* With nothing posted NCCL may not call again for long: what the sender waits for goes now. */
	if (!comm->outstanding && (comm->ack_prompt || comm->grants))
		comm_transmit(&comm->base);
}

static int test_entered(struct recv_comm *comm, struct recv_req *req, int *done, int *sizes)
{
	int ret;

	if (!atomic_load_explicit(&req->req.done, memory_order_acquire)) {
		if (control_due(comm)) {
			ret = comm_transmit(&comm->base);
			if (ret)
				return ret;
		}
		ret = comm_turn(&comm->base);
		if (ret)
			return ret;
		if (!atomic_load_explicit(&req->req.done, memory_order_acquire))
			return 0;
	}
	report(comm, req, done, sizes);
	return 0;
}

int recv_test(struct anynet_request *base, int *done, int *sizes)
{
	struct recv_comm *comm = to_recv(base->comm);
	int ret;

	comm_enter(&comm->base);
	ret = comm_error(&comm->base);
	if (anynet_likely(!ret))
		ret = test_entered(comm, (struct recv_req *)base, done, sizes);
	comm_leave(&comm->base);
	return ret;
}

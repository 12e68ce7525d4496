/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives, posted and reported, and what a receive comm tells the sender.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message/profile.h"
#include "message/recv_internal.h"
#include "wire/checksum.h"

/* What a sender is left with while other grants wait to be sent together: so many, and bandwidth x delay of its
 * NIC. */
#define GRANTS_AHEAD 8
#define AHEAD_US     10

static_assert(sizeof(struct anynet_wire_frame) + ANYNET_ACK_BYTES <= RAIL_CONTROL_BYTES,
	      "ack frame");

static struct recv_comm *to_recv(struct anynet_comm *comm)
{
	assert(!comm->is_send);
	return (struct recv_comm *)comm;
}

struct anynet_comm *recv_create(const struct anynet_device *dev, uint32_t replay_bytes)
{
	struct recv_comm *comm = calloc(1, sizeof(*comm));

	if (!comm)
		return NULL;
	comm->plain = true;
	comm->arrivals_end = &comm->arrivals;
	comm->replay_bytes = replay_bytes;
	comm->announced = comm->completed = comm->posted = comm->grantable = comm->oldest =
		anynet_net.cfg->first_number;
	comm->completions = comm->held_until = anynet_net.cfg->first_number;
	for (int i = 0; i < ANYNET_SENDS; i++)
		comm->msgs[i].told_on = TOLD_NOTHING;
	for (int i = 0; i < ANYNET_REQUESTS; i++) {
		comm->reqs[i].req.comm = &comm->base;
		for (int k = 0; k < ANYNET_RECVS_MAX; k++)
			comm->reqs[i].subs[k].owner = &comm->reqs[i];
	}
	comm->base.dev = dev;
	return &comm->base;
}

void recv_free(struct anynet_comm *base)
{
	recv_free_arrivals(to_recv(base));
	free(to_recv(base)->flushes);
	free(base);
}

unsigned recv_pending(const struct anynet_comm *base)
{
	const struct recv_comm *comm = (const struct recv_comm *)base;

	return comm->posted - comm->completions;
}

bool recv_uses(const struct anynet_comm *base, const struct anynet_mr *mr)
{
	const struct recv_comm *comm = (const struct recv_comm *)base;

	for (int i = 0; i < ANYNET_REQUESTS; i++)
		for (int k = 0; k < ANYNET_RECVS_MAX; k++)
			if (comm->reqs[i].subs[k].mr == mr)
				return true;
	return recv_flush_uses(comm, mr);
}

uint32_t recv_requests(const struct anynet_comm *base)
{
	return ((const struct recv_comm *)base)->posted;
}

uint64_t recv_bytes(const struct anynet_comm *base)
{
	return ((const struct recv_comm *)base)->bytes;
}

uint64_t recv_progress(const struct anynet_comm *base)
{
	return ((const struct recv_comm *)base)->moved;
}

void recv_describe(const struct anynet_comm *base, char *text, size_t bytes)
{
	const struct recv_comm *comm = (const struct recv_comm *)base;
	const struct recv_req *req = &comm->reqs[comm->completions & RECV_REQ_MASK];

	for (uint32_t i = comm->oldest; i != comm->posted; i++) {
		req = &comm->reqs[i & RECV_REQ_MASK];
		if (!atomic_load(&req->req.done))
			break;
	}
	snprintf(text, bytes, "%u receives, the oldest of %zu bytes, tag %u", recv_pending(base),
		 req->subs[0].capacity, req->subs[0].tag);
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

static bool held_due(const struct recv_comm *comm)
{
	return comm->held && (int32_t)(comm->announced - comm->held_until) >= 0;
}

static bool control_due(const struct recv_comm *comm)
{
	return comm->untold || held_due(comm) || comm->ack_prompt || comm->grants ||
	       comm->again_due || comm->doubts || ack_lazy_due(comm);
}

/* A control frame into `frame`, with `payload` bytes that lie behind it already. */
static size_t put_control(struct recv_comm *comm, uint8_t *frame, struct anynet_wire_frame *header)
{
	if (anynet_unlikely(comm->base.checksum))
		checksum_header(header, frame + sizeof(*header));
	memcpy(frame, header, sizeof(*header));
	return sizeof(*header) + header->length;
}

static size_t put_grant(struct recv_comm *comm, struct recv_msg *msg, unsigned rail, uint8_t *frame)
{
	struct anynet_wire_frame header = {
		.type = ANYNET_FRAME_GRANT,
		.slot = (uint16_t)(msg - comm->msgs),
		.seq = msg->seq,
		.tag = msg->tag,
	};

	msg->told_on = (uint8_t)rail;
	return put_control(comm, frame, &header);
}

/* Part of it was set aside, and a frame of another rail is still coming in there. */
static bool still_aside(const struct recv_msg *msg)
{
	return msg->arrival && msg->arrival->data && msg->begun != msg->received;
}

static size_t make_grant(struct recv_comm *comm, unsigned rail, uint8_t *frame)
{
	uint64_t bit = 1ull << rail;
	uint32_t left = 0; /* for other rails */

	for (unsigned slot = 0; slot < ANYNET_SENDS; slot++) {
		struct recv_msg *msg = &comm->msgs[slot];
		uint32_t due = msg->asked + (uint32_t) !!(msg->asked_by & bit);

		if (msg->state != RECV_MATCHED)
			continue;
		if (!due || still_aside(msg)) {
			left += msg->asked + (uint32_t)__builtin_popcountll(msg->asked_by);
			continue;
		}
		msg->asked = false;
		msg->asked_by &= ~bit;
		comm->grants -= due;
		return put_grant(comm, msg, rail, frame);
	}
	comm->grants = left;
	return 0;
}

static size_t make_ack(struct recv_comm *comm, unsigned rail, uint8_t *frame)
{
	struct anynet_wire_frame header = { .type = ANYNET_FRAME_ACK,
					    .seq = comm->announced,
					    .length = ANYNET_ACK_BYTES };

	for (unsigned word = 0; word < ANYNET_WIRE_SLOTS / 64; word++)
		for (uint64_t bits = comm->ack_bits[word]; bits; bits &= bits - 1)
			comm->msgs[64 * word + (unsigned)__builtin_ctzll(bits)].told_on =
				(uint8_t)rail;
	memcpy(frame + sizeof(header), comm->ack_bits, ANYNET_ACK_BYTES);
	memset(comm->ack_bits, 0, sizeof(comm->ack_bits));
	comm->complete = 0;
	comm->ack_prompt = false;
	comm->lazy_bytes = 0;
	return put_control(comm, frame, &header);
}

/* What was told on a rail may be lost with its connection: once more, by number, as it may also be
 * known. A slot with a newer message in it needs nothing: the sender has used it again. */
void recv_tell_again(struct anynet_comm *base, unsigned index)
{
	struct recv_comm *comm = to_recv(base);

	base->rails[index]->bye_due = comm->closing;
	for (unsigned slot = 0; slot < ANYNET_SENDS; slot++) {
		if (comm->msgs[slot].told_on != index)
			continue;
		comm->again[slot / 64] |= 1ull << slot % 64;
		comm->again_due = true;
	}
}

bool recv_told_on(const struct anynet_comm *base, unsigned index)
{
	const struct recv_comm *comm = (const struct recv_comm *)base;
	bool told = false;

	for (unsigned slot = 0; slot < ANYNET_SENDS; slot++)
		told |= comm->msgs[slot].told_on == index;
	return told;
}

static size_t make_ack_again(struct recv_comm *comm, struct recv_msg *msg, unsigned rail,
			     uint8_t *frame)
{
	struct anynet_wire_frame header = {
		.type = ANYNET_FRAME_ACK,
		.slot = (uint16_t)(msg - comm->msgs),
		.seq = msg->seq,
	};

	msg->told_on = (uint8_t)rail;
	return put_control(comm, frame, &header);
}

/* On the rail where it was told before: what the sender still reads there comes first. */
static size_t make_again(struct recv_comm *comm, unsigned rail, uint8_t *frame)
{
	uint64_t left = 0;

	for (unsigned slot = 0; slot < ANYNET_SENDS; slot++) {
		struct recv_msg *msg = &comm->msgs[slot];
		uint64_t bit = 1ull << slot % 64;

		if (!(comm->again[slot / 64] & bit))
			continue;
		left |= msg->told_on != TOLD_NOTHING;
		if ((msg->told_on != rail && msg->told_on != TOLD_NOTHING) || still_aside(msg))
			continue;
		comm->again[slot / 64] &= ~bit;
		if (msg->told_on == TOLD_NOTHING)
			continue;
		if (msg->state == RECV_UNSEEN)
			return make_ack_again(comm, msg, rail, frame);
		if (msg->state == RECV_MATCHED && (!msg->begun || comm_is_ib(&comm->base)))
			return put_grant(comm, msg, rail, frame);
	}
	comm->again_due = left;
	return 0;
}

static size_t make_bye(struct recv_comm *comm, struct anynet_rail *rail, uint8_t *frame)
{
	struct anynet_wire_frame header = { .type = ANYNET_FRAME_BYE };

	rail->bye_due = false;
	return put_control(comm, frame, &header);
}

static size_t make_doubt(struct recv_comm *comm, uint8_t *frame)
{
	unsigned index = (unsigned)__builtin_ctzll(comm->doubts);
	const struct anynet_rail *rail = comm->base.rails[index];
	struct anynet_wire_frame header = {
		.type = ANYNET_FRAME_DOUBT,
		.slot = (uint16_t)index,
		.seq = rail ? rail->epoch : 0,
	};

	comm->doubts &= comm->doubts - 1;
	return put_control(comm, frame, &header);
}

void recv_doubt(struct anynet_comm *base, unsigned index, bool doubt)
{
	uint64_t bit = 1ull << index;

	to_recv(base)->doubts = doubt ? to_recv(base)->doubts | bit : to_recv(base)->doubts & ~bit;
}

void recv_bye(struct anynet_comm *base)
{
	to_recv(base)->closing = true;
	for (unsigned i = 0; i < base->rail_count; i++)
		if (base->rails[i])
			base->rails[i]->bye_due = true;
}

/* What is told over a path in doubt may be lost with it. */
static bool leave_to_others(const struct anynet_comm *comm, const struct anynet_rail *rail)
{
	if (anynet_likely(rail->state != RAIL_SUSPECT))
		return false;
	for (unsigned i = 0; i < comm->rail_count; i++)
		if (rail_works(comm->rails[i]))
			return true;
	return false;
}

size_t recv_next_control(struct recv_comm *comm, struct anynet_rail *rail,
			 uint8_t frame[RAIL_CONTROL_BYTES])
{
	size_t bytes = 0;

	if (anynet_unlikely(comm->doubts) && rail->state != RAIL_SUSPECT)
		return make_doubt(comm, frame);
	if (anynet_unlikely(comm->again_due))
		bytes = make_again(comm, rail->index, frame);
	if (!bytes && comm->grants && !leave_to_others(&comm->base, rail))
		bytes = make_grant(comm, rail->index, frame);
	if (!bytes && (comm->ack_prompt || ack_lazy_due(comm)) &&
	    !leave_to_others(&comm->base, rail))
		bytes = make_ack(comm, rail->index, frame);
	if (!bytes && anynet_unlikely(rail->bye_due))
		bytes = make_bye(comm, rail, frame);
	return bytes;
}

/* --- grants with a place, for paths that write there by themselves --- */

static struct anynet_mr *fill_grant(const struct recv_sub *sub, uint32_t seq,
				    struct anynet_wire_grant *grant)
{
	*grant = (struct anynet_wire_grant){
		.addr = (uintptr_t)sub->data,
		.size = sub->capacity,
		.tag = sub->tag,
		.seq = seq,
		.mark = seq + 1,
	};
	return sub->mr;
}

/* The oldest receive that the sender may still have to be told of. */
static uint32_t oldest_grantable(const struct recv_comm *comm)
{
	return (int32_t)(comm->grantable - comm->oldest) < 0 ? comm->grantable : comm->oldest;
}

void recv_grant_again(const struct recv_comm *comm, struct anynet_rail *rail)
{
	rail->granted = oldest_grantable(comm);
}

/* How many receives like the next one that is to be told. */
static uint32_t receives_ahead(const struct recv_comm *comm, const struct anynet_rail *rail)
{
	size_t bytes = (size_t)comm->base.dev->speed_mbps * AHEAD_US / 8;
	size_t each = comm->reqs[rail->granted & RECV_REQ_MASK].subs[0].capacity;

	return each * GRANTS_AHEAD >= bytes ? GRANTS_AHEAD : (uint32_t)(bytes / (each | 1)) + 1;
}

bool recv_holds_grants(struct recv_comm *comm, const struct anynet_rail *rail)
{
	uint32_t until = rail->granted - (GRANTS_AHEAD - 1);

	if (!comm->plain || rail->granted == comm->grantable ||
	    (int32_t)(comm->announced - until) >= 0)
		return false;
	until = rail->granted - (receives_ahead(comm, rail) - 1);
	if ((int32_t)(comm->announced - until) >= 0)
		return false;
	comm->held = true;
	comm->held_until = until;
	return true;
}

bool recv_must_be_asked(const struct recv_comm *comm, const struct anynet_rail *rail)
{
	return !comm->plain && rail->granted == comm->grantable;
}

bool recv_takes_frames(const struct recv_comm *comm)
{
	unsigned gpu = comm->base.dev->ptr_support & (ANYNET_PTR_CUDA | ANYNET_PTR_DMABUF);

	return comm->memory == RECV_HOST || (comm->memory == RECV_NOTHING && !gpu);
}

bool recv_next_grant(struct recv_comm *comm, struct anynet_rail *rail, size_t eager,
		     struct anynet_wire_grant *grant, struct anynet_mr **mr)
{
	uint32_t oldest = oldest_grantable(comm);

	if ((int32_t)(rail->granted - oldest) < 0) /* other rails were faster */
		rail->granted = oldest;
	while (rail->granted != comm->grantable) {
		uint32_t seq = rail->granted++;
		const struct recv_sub *sub = &comm->reqs[seq & RECV_REQ_MASK].subs[0];

		if ((sub->capacity <= eager && recv_takes_frames(comm)) || !sub->mr)
			continue;
		*mr = fill_grant(sub, seq, grant);
		return true;
	}
	return false;
}

struct anynet_mr *recv_grant_of(struct recv_comm *comm, unsigned slot,
				struct anynet_wire_grant *grant)
{
	struct recv_msg *msg = &comm->msgs[slot];

	recv_settle(comm, msg);
	return fill_grant(msg->sub, msg->seq, grant);
}

int recv_control(struct recv_comm *comm, struct anynet_rail *rail,
		 const struct anynet_wire_frame *header)
{
	if (header->length) {
		comm_note_fault(&comm->base, rail, -EPROTO, "frame of type %u with a payload of "
							    "%u bytes",
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
	case ANYNET_FRAME_PING:
		return 0;
	default:
		comm_note_fault(&comm->base, rail, -EPROTO, "frame of unknown type %u", header->type);
		return -EPROTO;
	}
}

/* --- posting and reporting --- */

/* From the first GPU memory on nothing comes in frames, so that what was too small for a grant needs one. */
static ANYNET_COLD void note_memory(struct recv_comm *comm, enum recv_memory memory)
{
	comm->memory = memory;
	for (unsigned i = 0; i < comm->base.rail_count && memory == RECV_GPU; i++)
		if (comm->base.rails[i])
			recv_grant_again(comm, comm->base.rails[i]);
}

static void post_sub(struct recv_comm *comm, struct recv_sub *sub, const struct anynet_recv *recv, int i)
{
	struct anynet_mr *mr = recv->mrs ? recv->mrs[i] : NULL;

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
	comm->unfilled++;
	comm_note_gpu(&comm->base, mr);
	mr_hold(&comm->base, mr);
	if (comm->unmatched_tail)
		comm->unmatched_tail->next = sub;
	else
		comm->unmatched_head = sub;
	comm->unmatched_tail = sub;
}

int recv_post(struct anynet_comm *base, const struct anynet_recv *recv, struct anynet_request **out)
{
	struct recv_comm *comm = to_recv(base);
	struct recv_req *req = &comm->reqs[comm->posted & RECV_REQ_MASK];
	int ret = 0;

	if (anynet_unlikely(req->busy))
		return -EAGAIN;
	for (int i = 0; i < recv->n && comm_is_ib(base); i++)
		if (anynet_unlikely(!(recv->mrs && recv->mrs[i]) && recv->bytes[i]))
			return -EADDRNOTAVAIL;
	if (!comm->posted)
		comm->tag = (uint32_t)recv->tags[0];
	if (recv->n > 1 || (uint32_t)recv->tags[0] != comm->tag)
		comm->plain = false;
	req->busy = true;
	req->n = req->pending = (uint8_t)recv->n;
	atomic_store_explicit(&req->req.done, false, memory_order_relaxed);
	for (int i = 0; i < recv->n; i++)
		post_sub(comm, &req->subs[i], recv, i);
	comm->posted++;
	comm->outstanding++;
	if (comm->plain)
		comm->grantable = comm->posted;
	comm_unpark(base);
	if (anynet_unlikely(!comm->plain))
		ret = recv_match_arrivals(comm);
	comm->untold |= comm_is_ib(base);
	if (anynet_likely(!ret))
		*out = &req->req;
	return ret;
}

bool recv_has_to_tell(struct anynet_comm *base)
{
	struct recv_comm *comm = to_recv(base);

	if (!control_due(comm))
		return false;
	comm->untold = comm->held = false;
	return true;
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
	comm->outstanding--;
	while (comm->oldest != comm->posted && !comm->reqs[comm->oldest & RECV_REQ_MASK].busy)
		comm->oldest++;
	return !comm->outstanding && (comm->ack_prompt || comm->grants);
}

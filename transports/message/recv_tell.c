/* SPDX-License-Identifier: Apache-2.0 */
/* What a receive comm tells the sender: acknowledgements, grants, doubts, BYE. */
#include <assert.h>

#include "message/recv_internal.h"
#include "wire/checksum.h"

/* What a sender is left with while other grants wait to be sent together: so many, and bandwidth x delay of its
 * NIC. */
#define GRANTS_AHEAD 8
#define AHEAD_US     10

static_assert(sizeof(struct anynet_wire_frame) + ANYNET_ACK_BYTES <= RAIL_CONTROL_BYTES,
	      "ack frame");

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

bool recv_has_to_tell(struct anynet_comm *base)
{
	struct recv_comm *comm = to_recv(base);

	if (!control_due(comm))
		return false;
	comm->untold = comm->held = false;
	return true;
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
	to_recv(base)->ack_prompt |= to_recv(base)->complete > 0;
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

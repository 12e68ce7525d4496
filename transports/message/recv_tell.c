/* SPDX-License-Identifier: Apache-2.0 */
/* Control frames of a receive comm: ACK, CTS, SUSPECT, BYE. */
#include "message/recv_internal.h"
#include "wire/checksum.h"
#include "wire/hello.h"

/* CTS are held back, to go together, while the sender has this many unused ones and these cover this time at the NIC's
 * speed. */
#define CTS_AHEAD    8
#define AHEAD_US     10

static_assert(sizeof(struct anynet_wire_frame) + ANYNET_ACK_BYTES <= STREAM_CONTROL_BYTES,
	      "ack frame");

static bool held_due(const struct recv_comm *comm)
{
	return comm->owed.held && (int32_t)(comm->seen.all - comm->owed.held_until) >= 0;
}

static bool control_due(const struct recv_comm *comm)
{
	const struct recv_owed *owed = &comm->owed;

	return owed->untold || held_due(comm) || owed->ack || owed->cts || owed->again_due ||
	       owed->suspects;
}

bool recv_has_to_tell(struct anynet_comm *base)
{
	struct recv_comm *comm = to_recv(base);

	if (!control_due(comm))
		return false;
	comm->owed.untold = comm->owed.held = false;
	return true;
}

/* Writes the header to `frame`; a payload of header->length bytes lies behind it already. The bytes of both. */
static size_t put_control(struct recv_comm *comm, uint8_t *frame, struct anynet_wire_frame *header)
{
	if (anynet_unlikely(comm->base.checksum))
		checksum_header(header, frame + sizeof(*header));
	memcpy(frame, header, sizeof(*header));
	return sizeof(*header) + header->length;
}

static size_t put_cts(struct recv_comm *comm, struct recv_msg *msg, unsigned stream, uint8_t *frame)
{
	struct anynet_wire_frame header = {
		.type = ANYNET_FRAME_CTS,
		.slot = (uint16_t)(msg - comm->msgs),
		.seq = msg->seq,
		.tag = msg->tag,
	};

	msg->told_on = TOLD_ON(stream);
	return put_control(comm, frame, &header);
}

/* Part of it was unexpected, and another stream is still receiving a frame into that memory. */
static bool still_unexpected(const struct recv_msg *msg)
{
	return msg->unexpected && msg->begun != msg->received;
}

static size_t make_cts(struct recv_comm *comm, unsigned stream, uint8_t *frame)
{
	uint64_t bit = 1ull << stream;
	uint32_t left = 0; /* for other streams */

	for (unsigned slot = 0; slot < ANYNET_SENDS; slot++) {
		struct recv_msg *msg = &comm->msgs[slot];
		uint32_t due = msg->asked + (uint32_t) !!(msg->asked_by & bit);

		if (msg->state != RECV_MATCHED)
			continue;
		if (!due || still_unexpected(msg)) {
			left += msg->asked + (uint32_t)__builtin_popcountll(msg->asked_by);
			continue;
		}
		msg->asked = false;
		msg->asked_by &= ~bit;
		comm->owed.cts -= due;
		return put_cts(comm, msg, stream, frame);
	}
	comm->owed.cts = left;
	return 0;
}

static size_t make_ack(struct recv_comm *comm, unsigned stream, uint8_t *frame)
{
	struct recv_owed *owed = &comm->owed;
	struct anynet_wire_frame header = { .type = ANYNET_FRAME_ACK,
					    .seq = comm->seen.all,
					    .length = ANYNET_ACK_BYTES };

	for (unsigned word = 0; word < ANYNET_WIRE_SLOTS / 64; word++)
		for (uint64_t bits = owed->ack_bits[word]; bits; bits &= bits - 1)
			comm->msgs[64 * word + (unsigned)__builtin_ctzll(bits)].told_on =
				TOLD_ON(stream);
	memcpy(frame + sizeof(header), owed->ack_bits, ANYNET_ACK_BYTES);
	memset(owed->ack_bits, 0, sizeof(owed->ack_bits));
	owed->complete = 0;
	owed->ack = owed->ack_prompt = false;
	owed->lazy_bytes = 0;
	return put_control(comm, frame, &header);
}

void recv_suspect(struct anynet_comm *base, unsigned index, bool suspect)
{
	struct recv_owed *owed = &to_recv(base)->owed;
	uint64_t bit = 1ull << index;

	owed->suspects = suspect ? owed->suspects | bit : owed->suspects & ~bit;
	/* The sender is to know what it has to send again. */
	owed->ack |= suspect && owed->complete;
}

/* ACKs and CTS may have been lost with the connection. They are repeated with the message's number, because the sender
 * may have them already. A slot with a newer message has none to repeat: the sender has reused it. So may a SUSPECT for
 * another stream over the same path. */
void recv_tell_again(struct anynet_comm *base, unsigned index)
{
	struct recv_comm *comm = to_recv(base);

	base->streams[index]->bye.due = comm->owed.closing;
	for (unsigned slot = 0; slot < ANYNET_SENDS; slot++) {
		if (comm->msgs[slot].told_on != TOLD_ON(index))
			continue;
		comm->msgs[slot].again = true;
		comm->owed.again_due = true;
	}
	for (unsigned i = 0; i < base->stream_count; i++)
		if (i != index && base->streams[i] && base->streams[i]->state == STREAM_SUSPECT)
			recv_suspect(base, i, true);
}

bool recv_owes(const struct anynet_comm *base, unsigned index)
{
	const struct recv_comm *comm = (const struct recv_comm *)base;
	bool owes = comm->owed.complete;

	for (unsigned slot = 0; slot < ANYNET_SENDS; slot++)
		owes |= comm->msgs[slot].told_on == TOLD_ON(index);
	return owes;
}

static size_t make_ack_again(struct recv_comm *comm, struct recv_msg *msg, unsigned stream,
			     uint8_t *frame)
{
	struct anynet_wire_frame header = {
		.type = ANYNET_FRAME_ACK,
		.slot = (uint16_t)(msg - comm->msgs),
		.seq = msg->seq,
	};

	msg->told_on = TOLD_ON(stream);
	return put_control(comm, frame, &header);
}

/* Repeats one ACK or CTS, only on the stream where it was last sent: there it cannot overtake the original. */
static size_t make_again(struct recv_comm *comm, unsigned stream, uint8_t *frame)
{
	bool left = false;

	for (unsigned slot = 0; slot < ANYNET_SENDS; slot++) {
		struct recv_msg *msg = &comm->msgs[slot];

		if (!msg->again)
			continue;
		left = true;
		if (msg->told_on != TOLD_ON(stream) || still_unexpected(msg))
			continue;
		msg->again = false;
		if (msg->state == RECV_UNSEEN)
			return make_ack_again(comm, msg, stream, frame);
		if (msg->state == RECV_MATCHED && (!msg->begun || comm_is_ib(&comm->base)))
			return put_cts(comm, msg, stream, frame);
	}
	comm->owed.again_due = left;
	return 0;
}

static size_t make_bye(struct recv_comm *comm, struct anynet_stream *stream, uint8_t *frame)
{
	struct anynet_wire_frame header = { .type = ANYNET_FRAME_BYE };

	stream->bye.due = false;
	return put_control(comm, frame, &header);
}

static size_t make_suspect(struct recv_comm *comm, uint8_t *frame)
{
	unsigned index = (unsigned)__builtin_ctzll(comm->owed.suspects);
	const struct anynet_stream *stream = comm->base.streams[index];
	struct anynet_wire_frame header = {
		.type = ANYNET_FRAME_SUSPECT,
		.slot = (uint16_t)index,
		.seq = stream ? stream->epoch : 0,
	};

	comm->owed.suspects &= comm->owed.suspects - 1;
	return put_control(comm, frame, &header);
}

void recv_bye(struct anynet_comm *base)
{
	to_recv(base)->owed.closing = true;
	to_recv(base)->owed.ack |= to_recv(base)->owed.complete > 0;
	for (unsigned i = 0; i < base->stream_count; i++)
		if (base->streams[i])
			base->streams[i]->bye.due = true;
}

/* Is the stream suspect, and does another one work? Frames on a suspect path may be lost. */
static bool leave_to_others(const struct anynet_comm *comm, const struct anynet_stream *stream)
{
	if (anynet_likely(stream->state != STREAM_SUSPECT))
		return false;
	for (unsigned i = 0; i < comm->stream_count; i++)
		if (stream_works(comm->streams[i]))
			return true;
	return false;
}

size_t recv_next_control(struct recv_comm *comm, struct anynet_stream *stream,
			 uint8_t frame[STREAM_CONTROL_BYTES])
{
	size_t bytes = 0;

	if (anynet_unlikely(comm->owed.suspects) && stream->state != STREAM_SUSPECT)
		return make_suspect(comm, frame);
	if (anynet_unlikely(comm->owed.again_due))
		bytes = make_again(comm, stream->index, frame);
	if (!bytes && comm->owed.cts && !leave_to_others(&comm->base, stream))
		bytes = make_cts(comm, stream->index, frame);
	if (!bytes && comm->owed.ack && !leave_to_others(&comm->base, stream))
		bytes = make_ack(comm, stream->index, frame);
	if (!bytes && anynet_unlikely(stream->bye.due))
		bytes = make_bye(comm, stream, frame);
	return bytes;
}

/* --- CTS with a place, for paths that write there by themselves --- */

static struct anynet_mr *fill_cts(const struct recv_sub *sub, uint32_t seq,
				  struct anynet_wire_cts *cts)
{
	*cts = (struct anynet_wire_cts){
		.addr = (uintptr_t)sub->data,
		.size = sub->capacity,
		.tag = sub->tag,
		.seq = seq,
		.mark = seq + 1,
	};
	return sub->mr;
}

void recv_cts_again(const struct recv_comm *comm, struct anynet_stream *stream)
{
	stream->qp.cleared = comm->posted.oldest;
}

void recv_repeat_cts(struct recv_comm *comm, struct anynet_stream *stream, uint32_t from)
{
	if ((int32_t)(stream->qp.cleared - from) <= 0)
		return; /* it has not been given yet */
	stream->qp.cleared = from;
	comm->owed.untold = true;
}

/* How many receives like the next one the sender needs to be busy for AHEAD_US; CTS_AHEAD at least. */
static uint32_t receives_ahead(const struct recv_comm *comm, const struct anynet_stream *stream)
{
	size_t bytes = (size_t)comm->base.dev->speed_mbps * AHEAD_US / 8;
	size_t each = comm->reqs[stream->qp.cleared & RECV_REQ_MASK].subs[0].capacity;

	return each * CTS_AHEAD >= bytes ? CTS_AHEAD : (uint32_t)(bytes / (each | 1)) + 1;
}

bool recv_holds_cts(struct recv_comm *comm, const struct anynet_stream *stream)
{
	uint32_t until = stream->qp.cleared - (CTS_AHEAD - 1);

	if (!recv_is_plain(comm) || stream->qp.cleared == comm->posted.clearable ||
	    (int32_t)(comm->seen.all - until) >= 0)
		return false;
	until = stream->qp.cleared - (receives_ahead(comm, stream) - 1);
	if ((int32_t)(comm->seen.all - until) >= 0)
		return false;
	comm->owed.held = true;
	comm->owed.held_until = until;
	return true;
}

bool recv_must_be_asked(const struct recv_comm *comm, const struct anynet_stream *stream)
{
	return !recv_is_plain(comm) && stream->qp.cleared == comm->posted.clearable;
}

bool recv_takes_frames(const struct recv_comm *comm)
{
	unsigned gpu = comm->base.dev->ptr_support & (ANYNET_PTR_CUDA | ANYNET_PTR_DMABUF);

	return comm->memory == RECV_HOST || (comm->memory == RECV_NOTHING && !gpu);
}

bool recv_next_cts(struct recv_comm *comm, struct anynet_stream *stream,
		   struct anynet_wire_cts *cts, struct anynet_mr **mr)
{
	if ((int32_t)(stream->qp.cleared - comm->posted.oldest) < 0) /* done by other streams */
		stream->qp.cleared = comm->posted.oldest;
	while (stream->qp.cleared != comm->posted.clearable) {
		uint32_t seq = stream->qp.cleared++;
		const struct recv_sub *sub = &comm->reqs[seq & RECV_REQ_MASK].subs[0];

		if ((sub->capacity <= IB_EAGER_BYTES && recv_takes_frames(comm)) || !sub->mr)
			continue;
		*mr = fill_cts(sub, seq, cts);
		return true;
	}
	return false;
}

struct anynet_mr *recv_cts_of(struct recv_comm *comm, unsigned slot, struct anynet_wire_cts *cts)
{
	struct recv_msg *msg = &comm->msgs[slot];

	recv_settle(comm, msg);
	return fill_cts(msg->sub, msg->seq, cts);
}

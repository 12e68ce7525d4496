/* SPDX-License-Identifier: Apache-2.0 */
/* What streams pull from a send comm, and the ACKs and CTS that they bring. */
#include <errno.h>
#include <string.h>

#include "message/send_internal.h"
#include "wire/checksum.h"

/* Max backlog of a stream whose rate is not known yet */
#define UNKNOWN_BYTES (256u << 10)
#define AGED          1.01 /* of its rate, for a tenth of a second without a chunk */
#define SLOWER_BY     1.5 /* a stream that would finish this much later leaves the chunk to others */

/* --- the queues of messages, oldest first --- */

static void push(struct send_comm *comm, struct send_queue *queue, struct send_msg *msg)
{
	uint16_t slot = (uint16_t)(msg - comm->msgs);

	msg->next = SLOT_NONE;
	if (queue->head == SLOT_NONE)
		queue->head = slot;
	else
		comm->msgs[queue->tail].next = slot;
	queue->tail = slot;
}

static struct send_msg *pop(struct send_comm *comm, struct send_queue *queue)
{
	struct send_msg *msg = &comm->msgs[queue->head];

	queue->head = msg->next;
	return msg;
}

void send_queue(struct send_comm *comm, struct send_msg *msg, enum send_state state)
{
	msg->state = (uint8_t)state;
	push(comm, &comm->queue, msg);
}

/* --- messages that wait for a CTS without having asked --- */

bool send_cleared(const struct send_comm *comm, const struct send_msg *msg)
{
	for (unsigned i = 0; i < comm->base.stream_count; i++) {
		struct anynet_stream *stream = comm->base.streams[i];

		if (stream && stream->ops->cleared(stream, msg))
			return true;
	}
	return false;
}

/* Queues a message that has waited for an unasked CTS, with an RTS if it still needs one. */
static void ask_for(struct send_comm *comm, struct send_msg *msg)
{
	bool asks = !msg->record || !send_cleared(comm, msg);

	msg->flags |= asks ? ANYNET_FLAG_MULTI : 0;
	send_queue(comm, msg, asks ? SEND_ASKING : SEND_QUEUED);
}

void send_wait_for_cts(struct send_comm *comm, struct send_msg *msg)
{
	msg->state = SEND_WAITING;
	push(comm, &comm->waiting, msg);
}

/* The stream that has the CTS of a large message in the queue may break, and others have none for it: it asks, too. */
void send_ask_all(struct send_comm *comm)
{
	comm->tags.multi = true;
	for (uint16_t i = comm->queue.head; i != SLOT_NONE && comm_is_ib(&comm->base);
	     i = comm->msgs[i].next) {
		struct send_msg *msg = &comm->msgs[i];

		if (msg->state != SEND_QUEUED || msg->flags & ANYNET_FLAG_MULTI || msg->given ||
		    msg->record || !msg->bytes)
			continue;
		msg->flags |= ANYNET_FLAG_MULTI;
		msg->state = SEND_ASKING;
	}
	while (comm->waiting.head != SLOT_NONE)
		ask_for(comm, pop(comm, &comm->waiting));
}

void send_look_for_cts(struct send_comm *comm, struct anynet_stream *stream)
{
	while (comm->waiting.head != SLOT_NONE) {
		struct send_msg *msg = &comm->msgs[comm->waiting.head];

		if (!stream->ops->cleared(stream, msg))
			return;
		pop(comm, &comm->waiting);
		send_queue(comm, msg, SEND_QUEUED);
	}
}

/* --- completion --- */

void send_free_if_over(struct send_comm *comm, struct send_msg *msg)
{
	if (!msg->acked || !msg->tested)
		return;
	msg->state = SEND_FREE;
	if (send_slots_in_turn(comm))
		return;
	msg->next = comm->free_head;
	comm->free_head = (uint16_t)(msg - comm->msgs);
}

static int acknowledge(struct send_comm *comm, struct send_msg *msg)
{
	if (msg->state != SEND_GIVEN || msg->chunks.unwritten || msg->acked) {
		comm_note_fault(&comm->base, NULL, -EPROTO,
				"acknowledgement of slot %d, which has no unacknowledged message",
				(int)(msg - comm->msgs));
		return -EPROTO;
	}
	msg->acked = true;
	comm->unconfirmed--;
	if (msg->record)
		replay_release(&comm->ring, msg->record);
	if (anynet_unlikely(msg->kept))
		replay_release(&comm->kept, msg->kept);
	if (!msg->copied && !msg->kept)
		send_complete(comm, msg);
	send_free_if_over(comm, msg);
	return 0;
}

static int on_ack(struct send_comm *comm, const uint8_t bitmap[ANYNET_ACK_BYTES])
{
	int ret = 0;

	for (unsigned word = 0; word < ANYNET_ACK_BYTES / 8; word++) {
		uint64_t bits;

		memcpy(&bits, bitmap + 8 * word, sizeof(bits));
		for (; bits && !ret; bits &= bits - 1)
			ret = acknowledge(comm,
					  &comm->msgs[64 * word + (unsigned)__builtin_ctzll(bits)]);
	}
	return ret;
}

/* An ACK repeated on a resumed stream. It may have come before. */
static int on_ack_again(struct send_comm *comm, const struct anynet_wire_frame *header)
{
	struct send_msg *msg = &comm->msgs[header->slot];

	if (msg->state == SEND_FREE || msg->acked || msg->seq != header->seq)
		return 0;
	return acknowledge(comm, msg);
}

static int on_cts(struct send_comm *comm, const struct anynet_wire_frame *header)
{
	struct send_msg *msg = &comm->msgs[header->slot];

	/* Otherwise the CTS is a repetition on a resumed stream. */
	if (msg->seq == header->seq && msg->state == SEND_ASKED)
		send_queue(comm, msg, SEND_QUEUED);
	return 0;
}

static int on_suspect(struct send_comm *comm, unsigned index, uint32_t epoch)
{
	struct anynet_stream *stream =
		index < comm->base.stream_count ? comm->base.streams[index] : NULL;

	if (stream_stands(stream) && stream->epoch == epoch)
		comm->base.noted = stream->path.health.suspected = true;
	return 0;
}

int send_control(struct send_comm *comm, struct anynet_stream *stream,
		 const struct anynet_wire_frame *header, const uint8_t *payload)
{
	if (header->slot >= ANYNET_SENDS) {
		comm_note_fault(&comm->base, stream, -EPROTO, "frame of type %u for slot %u",
				header->type, header->slot);
		return -EPROTO;
	}
	if (header->type == ANYNET_FRAME_ACK || header->type == ANYNET_FRAME_CTS)
		comm->notices.ready = READY_HEARD; /* receives were posted, so accept has returned */
	if (header->type == ANYNET_FRAME_ACK && header->length == ANYNET_ACK_BYTES)
		return on_ack(comm, payload);
	if (header->type == ANYNET_FRAME_ACK && !header->length)
		return on_ack_again(comm, header);
	if (header->type == ANYNET_FRAME_CTS && !header->length)
		return on_cts(comm, header);
	if (header->type == ANYNET_FRAME_SUSPECT && !header->length)
		return on_suspect(comm, header->slot, header->seq);
	if (header->type == ANYNET_FRAME_PING && !header->length)
		return 0;
	if (header->type == ANYNET_FRAME_BYE && !header->length) {
		stream->bye.came = true;
		return 0;
	}
	comm_note_fault(&comm->base, stream, -EPROTO, "frame of type %u with %u bytes",
			header->type, header->length);
	return -EPROTO;
}

/* --- what streams pull --- */

/* Several streams over TCP: would another one finish the chunk much sooner, each behind its backlog? */
static bool too_slow(const struct send_comm *comm, struct anynet_stream *stream, size_t bytes)
{
	double own, best = 0;

	if (stream->sent.rate <= 0)
		return stream->ops->backlog(stream) > UNKNOWN_BYTES;
	own = (double)(stream->ops->backlog(stream) + bytes) / stream->sent.rate;
	for (unsigned i = 0; i < comm->base.stream_count; i++) {
		struct anynet_stream *other = comm->base.streams[i];
		double time;

		if (other == stream || !stream_works(other) || other->sent.rate <= 0)
			continue;
		time = (double)(other->ops->backlog(other) + bytes) / other->sent.rate;
		if (best <= 0 || time < best)
			best = time;
	}
	return best > 0 && own > SLOWER_BY * best;
}

/*
 * Nothing measures the rate of a stream that is too slow for a chunk. It is assumed to rise, until the stream gets one,
 * which measures it again: every 20 s if its rate is a tenth of the others'. So a path that has recovered is used again.
 */
void send_age_rates(struct anynet_comm *base)
{
	double best = 0;
	bool any = false;

	for (unsigned i = 0; i < base->stream_count; i++) {
		const struct anynet_stream *stream = base->streams[i];

		if (!stream_works(stream))
			continue;
		best = stream->sent.rate > best ? stream->sent.rate : best;
		any |= stream->sent.bytes != stream->sent.aged_at;
	}
	for (unsigned i = 0; i < base->stream_count && any; i++) {
		struct stream_sent *sent = base->streams[i] ? &base->streams[i]->sent : NULL;

		if (sent && sent->bytes == sent->aged_at && sent->rate < best) {
			sent->rate = sent->rate * AGED < best ? sent->rate * AGED : best;
			sent->raised = true;
		}
		if (sent)
			sent->aged_at = sent->bytes;
	}
}

static bool may_have_qps(const struct send_comm *comm)
{
	return comm_is_ib(&comm->base) && !comm->base.tcp.only;
}

/* Is `stream` the better choice: has it the smaller backlog, or fewer bytes sent so far? */
static bool is_freer(struct anynet_stream *stream, struct anynet_stream *other)
{
	size_t own = stream->ops->backlog(stream), others = other->ops->backlog(other);

	return own < others || (own == others && stream->sent.bytes < other->sent.bytes);
}

/* Several streams with queue pairs: is another one to carry the message? Of the streams that have its CTS, the freest
 * one does. If none has it any more, any stream takes the message, which asks for the CTS. */
static bool better_by_another(const struct send_comm *comm, struct anynet_stream *stream,
			      const struct send_msg *msg)
{
	bool cleared = stream->ops->cleared(stream, msg);

	for (unsigned i = 0; i < comm->base.stream_count; i++) {
		struct anynet_stream *other = comm->base.streams[i];

		if (other == stream || !stream_works(other) || !other->ops->cleared(other, msg))
			continue;
		if (!cleared || is_freer(other, stream))
			return true;
	}
	return false;
}

static size_t chunk_size(const struct send_comm *comm, const struct anynet_stream *stream,
			 const struct send_msg *msg)
{
	size_t left = anynet_min(msg->bytes - msg->given, comm->limits.frame);
	bool whole = comm->base.stream_count == 1
			     ? !comm->base.checksum
			     : comm_is_ib(&comm->base) && stream->qp.carries &&
				       !anynet_net.cfg->ib_split && !comm->base.spread;

	if (msg->copied || left <= comm->limits.chunk || whole)
		return anynet_min(left, UINT32_MAX & ~(size_t)(ANYNET_PART_ALIGN - 1));
	return comm->limits.chunk;
}

static bool next_of_queue(struct send_comm *comm, struct anynet_stream *stream, struct frame_id *id)
{
	struct send_msg *msg;
	size_t bytes;

	if (comm->queue.head == SLOT_NONE)
		return false;
	if (comm->base.stream_count > 1 && anynet_unlikely(stream->state == STREAM_SUSPECT))
		return false;
	msg = &comm->msgs[comm->queue.head];
	id->slot = comm->queue.head;
	id->seq = msg->seq;
	id->at = id->length = 0;
	if (anynet_unlikely(msg->state == SEND_ASKING)) {
		id->type = ANYNET_FRAME_RTS;
		pop(comm, &comm->queue)->state = SEND_ASKED;
		return true;
	}
	bytes = chunk_size(comm, stream, msg);
	if (comm->base.stream_count > 1 &&
	    (may_have_qps(comm) ? better_by_another(comm, stream, msg)
				: too_slow(comm, stream, bytes)))
		return false;
	id->type = ANYNET_FRAME_DATA;
	id->length = (uint32_t)bytes;
	id->at = (uint32_t)(msg->given / ANYNET_PART_ALIGN);
	msg->given += bytes;
	msg->chunks.unwritten++;
	msg->chunks.unsure++;
	if (msg->given == msg->bytes)
		pop(comm, &comm->queue)->state = SEND_GIVEN;
	return true;
}

/* READY goes first, on stream 0; BYE last, on every stream. */
static ANYNET_COLD bool next_notice(struct send_comm *comm, struct anynet_stream *stream, struct frame_id *id)
{
	if (comm->notices.ready == READY_DUE && !stream->index) {
		comm->notices.ready = READY_SENT;
		*id = (struct frame_id){ .type = ANYNET_FRAME_READY };
		return true;
	}
	if (stream->bye.due && comm->queue.head == SLOT_NONE) {
		stream->bye.due = false;
		*id = (struct frame_id){ .type = ANYNET_FRAME_BYE };
		return true;
	}
	return next_of_queue(comm, stream, id);
}

bool send_next(struct send_comm *comm, struct anynet_stream *stream, struct frame_id *id)
{
	if (anynet_unlikely(comm->notices.ready == READY_DUE || stream->bye.due))
		return next_notice(comm, stream, id);
	return next_of_queue(comm, stream, id);
}

void send_frame(const struct send_comm *comm, const struct frame_id *id, struct stream_frame *frame)
{
	const struct send_msg *msg = &comm->msgs[id->slot];

	frame->payload = NULL;
	frame->framed = frame->on_gpu = false;
	if (anynet_likely(id->type == ANYNET_FRAME_DATA)) {
		frame->header = send_header(comm, msg);
		frame->header.offset = (uint64_t)id->at * ANYNET_PART_ALIGN;
		frame->header.length = id->length;
		frame->payload = id->at ? msg->data + frame->header.offset : msg->data;
		frame->framed = msg->copied;
		frame->on_gpu = msg->on_gpu;
	} else if (id->type == ANYNET_FRAME_RTS) {
		frame->header = send_header(comm, msg);
		frame->header.type = ANYNET_FRAME_RTS;
		frame->header.flags &= (uint8_t)~ANYNET_FLAG_TAIL;
	} else {
		frame->header = (struct anynet_wire_frame){ .type = id->type };
		if (id->type == ANYNET_FRAME_READY) {
			frame->header.size = (unsigned)__builtin_popcountll(comm->notices.standing);
			frame->header.offset = comm->notices.standing;
		} else {
			frame->header.seq = comm->next_seq;
		}
	}
	if (anynet_unlikely(comm->base.checksum)) {
		frame->header.flags |= ANYNET_FLAG_CRC;
		if (!frame->framed) /* else the copy has its checksum */
			checksum_header(&frame->header, NULL);
	}
}

void send_written(struct send_comm *comm, const struct frame_id *id)
{
	struct send_msg *msg = &comm->msgs[id->slot];

	if (id->type != ANYNET_FRAME_DATA)
		return;
	msg->chunks.unwritten--;
	if (msg->chunks.unwritten || msg->state != SEND_GIVEN)
		return;
	if (msg->copied && !atomic_load_explicit(&msg->req.done, memory_order_relaxed))
		send_complete(comm, msg);
	else if (!msg->copied && anynet_unlikely(comm->kept.memory))
		send_keep(comm, msg);
}

void send_arrived(struct send_comm *comm, const struct frame_id *id)
{
	struct send_msg *msg = &comm->msgs[id->slot];

	if (id->type == ANYNET_FRAME_READY)
		comm->notices.ready = READY_HEARD;
	if (id->type != ANYNET_FRAME_DATA || msg->seq != id->seq || msg->acked)
		return;
	if (!--msg->chunks.unsure && msg->state == SEND_GIVEN && !msg->chunks.unwritten)
		acknowledge(comm, msg);
}

void send_begun(struct send_comm *comm, const struct frame_id *id)
{
	comm->msgs[id->slot].chunks.unsure++;
}

void send_rewound(struct send_comm *comm, const struct frame_id *id)
{
	comm->base.counts.rewound++;
	if (id->type == ANYNET_FRAME_DATA)
		comm->msgs[id->slot].chunks.unwritten++;
}

bool send_frame_over(const struct send_comm *comm, const struct frame_id *id)
{
	const struct send_msg *msg = &comm->msgs[id->slot];

	return msg->seq != id->seq || msg->acked;
}

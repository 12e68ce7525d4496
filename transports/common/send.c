/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending half of the message layer: isend, test, and what rails ask of it. A message takes a
 * slot from isend until it is both acknowledged and tested, whatever becomes of those before it: one
 * that nobody receives holds its own slot and no other. Small ones are copied,
 * header first, into the replay ring and are done when a rail has taken them; large ones are read
 * from NCCL's buffer and are done when the receiver has acknowledged them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "comm_internal.h"
#include "profile.h"

#define SLOT_NONE     0xffff
#define HEADER_BYTES  sizeof(struct anynet_wire_frame)
#define RING_ALIGN    64u
#define RECORD_BYTES  16u
#define CHUNK_ALIGN   128u         /* LL128 lines must not be split (net-api.md §3.5) */
#define UNKNOWN_BYTES (256u << 10) /* a rail of unknown rate gets no more than this to start with */

static_assert(ANYNET_SENDS == ANYNET_WIRE_SLOTS, "a slot for every request");

#define SLOWER_BY 1.5 /* a rail that would be this much later leaves a chunk to the others */

enum send_state {
	SEND_FREE,   /* in the free list */
	SEND_QUEUED, /* in the ready queue: bytes are left to hand to rails */
	SEND_ASKED,  /* RTS is out (or queued); waits for the grant */
	SEND_GIVEN,  /* all bytes handed to rails */
};

struct send_msg {
	struct anynet_request req; /* first */
	const uint8_t *data;       /* NCCL's buffer, or the payload in the replay ring */
	size_t bytes;
	size_t given; /* bytes handed to rails so far */
	struct anynet_mr *mr;
	void *event; /* profiler's */
	uint32_t seq, tag;
	struct ring_record *record; /* copied: of its frame */
	uint16_t next;              /* in the ready queue or the free list */
	uint16_t chunks;            /* handed to rails, not all written */
	uint8_t state;              /* enum send_state */
	uint8_t flags;              /* ANYNET_FLAG_* of its frames */
	bool copied, acked, tested, rts_due;
};

/* Lies before each frame in the replay ring. */
struct ring_record {
	uint32_t end; /* ring position behind the frame */
	bool acked;
};
static_assert(sizeof(struct ring_record) <= RECORD_BYTES, "room before the frame");

struct send_comm {
	struct anynet_comm base; /* first */
	uint32_t next_seq;       /* number of the next message */
	uint16_t free_head;      /* slots not in use, the last used first */
	uint32_t outstanding;    /* requests not yet reported done */
	uint32_t undone;         /* of these, not done yet */
	uint16_t ready_head, ready_tail;
	bool ready_due;        /* READY is to be sent */
	bool closing;          /* BYE is to be sent on every rail */
	bool tag_known, multi; /* more than one tag has been used */
	uint32_t tag;
	uint32_t rails_standing; /* count in READY */
	size_t eager_bytes, chunk_bytes;
	uint8_t *ring;
	uint32_t ring_bytes, ring_head, ring_tail; /* head = tail: empty */
	uint32_t ring_wrap;                        /* where the last frame before position 0 ends */
	struct send_msg msgs[ANYNET_SENDS];
};

static struct send_comm *to_send(struct anynet_comm *comm)
{
	return (struct send_comm *)comm;
}

struct anynet_comm *send_comm_create(const struct anynet_device *dev, unsigned rail_count)
{
	const struct anynet_config *cfg = anynet_net.cfg;
	struct send_comm *comm = calloc(1, sizeof(*comm));

	if (!comm)
		return NULL;
	comm->ring_bytes = (uint32_t)cfg->replay_bytes & ~(RING_ALIGN - 1);
	comm->eager_bytes = anynet_min(cfg->eager_bytes,
				       comm->ring_bytes / 2 - 2 * HEADER_BYTES - RECORD_BYTES);
	comm->chunk_bytes = anynet_max(cfg->chunk_bytes & ~(size_t)(CHUNK_ALIGN - 1), CHUNK_ALIGN);
	comm->ring = aligned_alloc(RING_ALIGN, comm->ring_bytes);
	comm->ready_head = comm->ready_tail = SLOT_NONE;
	comm->free_head = SLOT_NONE;
	for (int i = ANYNET_SENDS - 1; i >= 0; i--) {
		comm->msgs[i].req.comm = &comm->base;
		comm->msgs[i].next = comm->free_head;
		comm->free_head = (uint16_t)i;
	}
	if (!comm->ring || comm_init(&comm->base, true, dev, rail_count)) {
		free(comm->ring);
		free(comm);
		return NULL;
	}
	return &comm->base;
}

void send_comm_destroy(struct anynet_comm *base)
{
	struct send_comm *comm = to_send(base);

	comm_fini(base);
	free(comm->ring);
	free(comm);
}

unsigned send_pending(const struct anynet_comm *base)
{
	return ((const struct send_comm *)base)->undone;
}

void send_ready(struct anynet_comm *base, unsigned rails)
{
	to_send(base)->ready_due = true;
	to_send(base)->rails_standing = rails;
}

void send_bye(struct anynet_comm *base)
{
	to_send(base)->closing = true;
	for (unsigned i = 0; i < base->rail_count; i++)
		if (base->rails[i])
			base->rails[i]->bye_due = true;
}

/* --- the ready queue: messages with bytes (or an RTS) to hand to rails, oldest first --- */

static void ready_push(struct send_comm *comm, struct send_msg *msg)
{
	uint16_t slot = (uint16_t)(msg - comm->msgs);

	msg->state = SEND_QUEUED;
	msg->next = SLOT_NONE;
	if (comm->ready_tail == SLOT_NONE)
		comm->ready_head = slot;
	else
		comm->msgs[comm->ready_tail].next = slot;
	comm->ready_tail = slot;
}

static void ready_pop(struct send_comm *comm, enum send_state state)
{
	struct send_msg *msg = &comm->msgs[comm->ready_head];

	msg->state = (uint8_t)state;
	comm->ready_head = msg->next;
	if (comm->ready_head == SLOT_NONE)
		comm->ready_tail = SLOT_NONE;
}

/* --- the replay ring: frames of copied messages, taken and freed in order --- */

/* Room for a record and `bytes` behind it in one piece, or NULL. A frame never wraps: the rest of the
 * ring is skipped. */
static struct ring_record *ring_take(struct send_comm *comm, size_t bytes)
{
	uint32_t need = (uint32_t)(RECORD_BYTES + bytes + RING_ALIGN - 1) & ~(RING_ALIGN - 1);
	uint32_t at = comm->ring_head;
	struct ring_record *record;

	if (comm->ring_head >= comm->ring_tail) {
		if (need > comm->ring_bytes - at) {
			if (need >= comm->ring_tail)
				return NULL;
			comm->ring_wrap = at;
			at = 0;
		}
	} else if (need >= comm->ring_tail - at) {
		return NULL;
	}
	comm->ring_head = at + need;
	record = (struct ring_record *)(void *)(comm->ring + at);
	record->end = comm->ring_head;
	record->acked = false;
	return record;
}

/* A frame is acknowledged: free it with those before it that are, too. */
static void ring_release(struct send_comm *comm, struct ring_record *record)
{
	record->acked = true;
	while (comm->ring_tail != comm->ring_head) {
		if (comm->ring_tail == comm->ring_wrap && comm->ring_tail > comm->ring_head)
			comm->ring_tail = 0;
		record = (struct ring_record *)(void *)(comm->ring + comm->ring_tail);
		if (!record->acked)
			return;
		comm->ring_tail = record->end;
	}
	comm->ring_tail = comm->ring_head = 0;
}

/* --- completion --- */

static void free_if_over(struct send_comm *comm, struct send_msg *msg)
{
	if (!msg->acked || !msg->tested)
		return;
	msg->state = SEND_FREE;
	msg->next = comm->free_head;
	comm->free_head = (uint16_t)(msg - comm->msgs);
}

static void complete(struct send_comm *comm, struct send_msg *msg)
{
	comm->undone--;
	mr_drop(msg->mr);
	msg->mr = NULL;
	atomic_store_explicit(&msg->req.done, true, memory_order_release);
}

static int acknowledge(struct send_comm *comm, struct send_msg *msg)
{
	if (msg->state != SEND_GIVEN || msg->chunks || msg->acked) {
		comm_fail(&comm->base, NULL, -EPROTO,
			  "slot %d acknowledged, which has nothing sent in full",
			  (int)(msg - comm->msgs));
		return -EPROTO;
	}
	msg->acked = true;
	if (msg->copied)
		ring_release(comm, msg->record);
	else
		complete(comm, msg);
	free_if_over(comm, msg);
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

static int on_grant(struct send_comm *comm, unsigned slot)
{
	if (slot >= ANYNET_SENDS || comm->msgs[slot].state != SEND_ASKED) {
		comm_fail(&comm->base, NULL, -EPROTO, "slot %u granted, which asked for nothing",
			  slot);
		return -EPROTO;
	}
	ready_push(comm, &comm->msgs[slot]);
	return 0;
}

int send_control(struct send_comm *comm, const struct anynet_wire_frame *header,
		 const uint8_t *payload)
{
	if (header->type == ANYNET_FRAME_ACK && header->length == ANYNET_ACK_BYTES)
		return on_ack(comm, payload);
	if (header->type == ANYNET_FRAME_GRANT && !header->length)
		return on_grant(comm, header->slot);
	comm_fail(&comm->base, NULL, -EPROTO, "frame of type %u with %u bytes", header->type,
		  header->length);
	return -EPROTO;
}

/* --- what rails pull --- */

static struct anynet_wire_frame message_header(const struct send_comm *comm,
					       const struct send_msg *msg)
{
	return (struct anynet_wire_frame){
		.type = ANYNET_FRAME_DATA,
		.flags = msg->flags,
		.slot = (uint16_t)(msg - comm->msgs),
		.tag = msg->tag,
		.seq = msg->seq,
		.size = msg->bytes,
	};
}

/* READY goes first, on rail 0; BYE last, on every rail. */
static bool next_notice(struct send_comm *comm, struct anynet_rail *rail, struct rail_frame *frame)
{
	if (comm->ready_due && !rail->index) {
		comm->ready_due = false;
		*frame = (struct rail_frame){ .header = { .type = ANYNET_FRAME_READY,
							  .size = comm->rails_standing } };
		return true;
	}
	if (rail->bye_due) {
		rail->bye_due = false;
		*frame = (struct rail_frame){ .header = { .type = ANYNET_FRAME_BYE,
							  .seq = comm->next_seq } };
		return true;
	}
	return false;
}

/* With several rails: would this one finish a chunk later than the best of the others would finish
 * it after all they have? Then leave it to them. */
static bool too_slow(const struct send_comm *comm, struct anynet_rail *rail, size_t bytes)
{
	double own, best = 0;

	if (rail->rate <= 0)
		return rail->ops->backlog(rail) > UNKNOWN_BYTES;
	own = (double)(rail->ops->backlog(rail) + bytes) / rail->rate;
	for (unsigned i = 0; i < comm->base.rail_count; i++) {
		struct anynet_rail *other = comm->base.rails[i];
		double time;

		if (!other || other == rail || other->rate <= 0)
			continue;
		time = (double)(other->ops->backlog(other) + bytes) / other->rate;
		if (best <= 0 || time < best)
			best = time;
	}
	return best > 0 && own > SLOWER_BY * best;
}

static size_t chunk_size(const struct send_comm *comm, const struct send_msg *msg)
{
	size_t left = msg->bytes - msg->given;

	if (comm->base.rail_count == 1 || msg->copied || left <= comm->chunk_bytes)
		return anynet_min(left, UINT32_MAX & ~(size_t)(CHUNK_ALIGN - 1));
	return comm->chunk_bytes;
}

bool send_next(struct send_comm *comm, struct anynet_rail *rail, struct rail_frame *frame)
{
	struct send_msg *msg;
	size_t bytes;

	if (anynet_unlikely(comm->ready_due || comm->closing) && next_notice(comm, rail, frame))
		return true;
	if (comm->ready_head == SLOT_NONE)
		return false;
	msg = &comm->msgs[comm->ready_head];
	if (anynet_unlikely(msg->rts_due)) {
		msg->rts_due = false;
		*frame = (struct rail_frame){ .header = message_header(comm, msg) };
		frame->header.type = ANYNET_FRAME_RTS;
		ready_pop(comm, SEND_ASKED);
		return true;
	}
	bytes = chunk_size(comm, msg);
	if (comm->base.rail_count > 1 && too_slow(comm, rail, bytes))
		return false;
	frame->header = message_header(comm, msg);
	frame->header.offset = msg->given;
	frame->header.length = (uint32_t)bytes;
	frame->payload = msg->given ? msg->data + msg->given : msg->data;
	frame->framed = msg->copied;
	frame->msg = msg;
	msg->given += bytes;
	msg->chunks++;
	if (msg->given == msg->bytes)
		ready_pop(comm, SEND_GIVEN);
	return true;
}

void send_written(struct send_comm *comm, struct send_msg *msg)
{
	msg->chunks--;
	if (msg->copied && !msg->chunks && msg->state == SEND_GIVEN)
		complete(comm, msg);
}

/* --- isend and test --- */

/* Copy a small message, header first, into the replay ring. */
static bool copy_in(struct send_comm *comm, struct send_msg *msg, const void *data)
{
	struct ring_record *record = ring_take(comm, HEADER_BYTES + msg->bytes + ANYNET_TAIL_BYTES);
	struct anynet_wire_frame header;
	uint8_t *frame;

	if (!record)
		return false;
	frame = (uint8_t *)record + RECORD_BYTES;
	msg->record = record;
	msg->flags |= ANYNET_FLAG_TAIL;
	header = message_header(comm, msg);
	header.length = (uint32_t)msg->bytes;
	memcpy(frame, &header, HEADER_BYTES);
	if (msg->bytes)
		memcpy(frame + HEADER_BYTES, data, msg->bytes);
	frame[HEADER_BYTES + msg->bytes] = 0;
	msg->data = frame + HEADER_BYTES;
	return true;
}

static void learn_tag(struct send_comm *comm, uint32_t tag)
{
	if (!comm->tag_known) {
		comm->tag_known = true;
		comm->tag = tag;
	} else if (tag != comm->tag) {
		comm->multi = true;
	}
}

static void start_message(struct send_comm *comm, struct send_msg *msg, const void *data,
			  size_t bytes, uint32_t tag, struct anynet_mr *mr)
{
	if (anynet_unlikely(!comm->multi && (!comm->tag_known || tag != comm->tag)))
		learn_tag(comm, tag);
	msg->bytes = bytes;
	msg->given = 0;
	msg->seq = comm->next_seq;
	msg->tag = tag;
	msg->chunks = 0;
	msg->flags = comm->multi ? ANYNET_FLAG_MULTI : 0;
	msg->acked = msg->tested = msg->rts_due = false;
	msg->copied = bytes <= comm->eager_bytes;
	atomic_store_explicit(&msg->req.done, false, memory_order_relaxed);
	if (msg->copied && copy_in(comm, msg, data)) {
		msg->mr = NULL;
	} else {
		msg->copied = false;
		msg->data = data;
		msg->mr = mr;
		msg->flags |= ANYNET_FLAG_ACK;
		msg->rts_due = comm->multi;
		mr_hold(mr);
	}
	comm->next_seq++;
	comm->undone++;
	ready_push(comm, msg);
}

static int isend_entered(struct send_comm *comm, const void *data, size_t bytes, int tag,
			 struct anynet_mr *mr, void *phandle, struct anynet_request **req)
{
	struct send_msg *msg;
	int ret = comm_error(&comm->base);

	if (anynet_unlikely(ret))
		return ret;
	if (anynet_unlikely(comm->base.peer_closed)) {
		comm_fail(&comm->base, NULL, -ECONNRESET, "the peer closed the connection");
		return -ECONNRESET;
	}
	if (anynet_unlikely(comm->free_head == SLOT_NONE)) {
		ret = comm_turn(&comm->base); /* acks may be waiting */
		if (ret || comm->free_head == SLOT_NONE)
			return ret;
	}
	msg = &comm->msgs[comm->free_head];
	comm->free_head = msg->next;
	start_message(comm, msg, data, bytes, (uint32_t)tag, mr);
	msg->event = profile_start(&comm->base, phandle, bytes);
	/* The first message leaves at once; those behind it leave together at the next test. */
	if (comm->outstanding++ == 0)
		ret = comm_transmit(&comm->base);
	if (anynet_likely(!ret))
		*req = &msg->req;
	return ret;
}

int anynet_isend(struct anynet_comm *base, const void *data, size_t bytes, int tag,
		 struct anynet_mr *mr, void *phandle, struct anynet_request **req)
{
	int ret;

	*req = NULL;
	if (anynet_unlikely(!base->is_send || bytes > ANYNET_MESSAGE_MAX))
		return -EINVAL;
	comm_enter(base);
	ret = isend_entered(to_send(base), data, bytes, tag, mr, phandle, req);
	comm_leave(base);
	return ret;
}

static int test_entered(struct send_comm *comm, struct send_msg *msg, int *done, int *sizes)
{
	int ret;

	if (!atomic_load_explicit(&msg->req.done, memory_order_acquire)) {
		ret = comm_transmit(&comm->base);
		if (!ret && !atomic_load_explicit(&msg->req.done, memory_order_acquire))
			ret = comm_turn(&comm->base);
		if (ret)
			return ret;
		if (!atomic_load_explicit(&msg->req.done, memory_order_acquire))
			return 0;
	}
	profile_stop(msg->event);
	if (sizes)
		sizes[0] = (int)msg->bytes;
	msg->tested = true;
	free_if_over(comm, msg);
	comm->outstanding--;
	*done = 1;
	return 0;
}

int send_test(struct anynet_request *req, int *done, int *sizes)
{
	struct send_comm *comm = to_send(req->comm);
	int ret;

	comm_enter(&comm->base);
	ret = comm_error(&comm->base);
	if (anynet_likely(!ret))
		ret = test_entered(comm, (struct send_msg *)req, done, sizes);
	comm_leave(&comm->base);
	return ret;
}

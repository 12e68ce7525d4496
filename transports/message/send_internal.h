/* SPDX-License-Identifier: Apache-2.0 */
/* A send comm from the inside: send.c has isend and test, send_streams.c what streams ask for and bring. */
#ifndef ANYNET_SEND_INTERNAL_H
#define ANYNET_SEND_INTERNAL_H

#include "message/message.h"
#include "message/replay.h"

#define SLOT_NONE 0xffff

static_assert(ANYNET_SENDS == ANYNET_WIRE_SLOTS, "a slot for every request");

enum send_state {
	SEND_FREE,   /* in the free list, or fresh */
	SEND_QUEUED, /* in the ready queue: bytes are left to hand to streams */
	SEND_ASKED,  /* RTS is out (or queued); waits for the CTS */
	SEND_GIVEN,  /* all bytes handed to streams */
};

/* The comm's first frame. */
enum send_ready {
	READY_UNUSED, /* not asked for yet */
	READY_DUE,    /* is to be sent */
	READY_SENT,
	READY_HEARD, /* the receiver has it: it has told something of messages, or a queue pair says so */
};

/* Chunks of a message, handed to streams. */
struct send_chunks {
	uint32_t unwritten; /* not all written */
	uint32_t unsure;    /* not known to have arrived but by an ACK */
};

struct send_msg {
	struct anynet_request req; /* first */
	const uint8_t *data;       /* NCCL's buffer, or the payload in the replay ring */
	size_t bytes;
	size_t given; /* bytes handed to streams so far */
	struct anynet_mr *mr;
	void *event; /* profiler's */
	uint32_t seq, tag;
	struct replay_record *record; /* of its frame in the ring; NULL: it has none there */
	struct replay_record *kept;   /* done before its ACK: of its payload; NULL: it is not */
	uint16_t next;                /* in the ready queue or the free list */
	struct send_chunks chunks;
	uint8_t state;                /* enum send_state */
	uint8_t flags;                /* ANYNET_FLAG_* of its frames */
	bool copied, acked, tested, rts_due;
	bool on_gpu;      /* `data` is GPU memory */
	bool acked_early; /* before its last byte was written */
};

/* Slots of messages with bytes (or an RTS) to hand to streams: the ends of their list. */
struct send_queue {
	uint16_t head, tail;
};

/* What is to be said besides messages: READY, first of all; BYE on every stream, last. */
struct send_notices {
	enum send_ready ready;
	bool bye; /* is to be sent on every stream */
	uint64_t standing; /* in READY: bit i = stream i */
};

struct send_tags {
	uint32_t first;
	bool known, multi; /* one has been used; more than one */
};

/* Slots of messages that wait for a CTS unasked, in order. */
struct send_waiting {
	uint16_t slots[ANYNET_SENDS];
	uint32_t head, tail;
};

/* Bytes at most: of a message that is copied, of a chunk, of the payload of a frame. */
struct send_limits {
	size_t eager, chunk, frame;
};

struct send_comm {
	struct anynet_comm base; /* first */
	uint32_t next_seq;       /* number of the next message */
	uint16_t
		free_head; /* slots that were used and are free, the last used first; and those … */
	uint16_t fresh;    /* … from this one on never were: their memory is not there yet */
	uint32_t outstanding;    /* requests not yet reported done */
	uint32_t undone;         /* of these, not done yet */
	uint32_t unconfirmed;    /* messages not acknowledged */
	uint64_t moved;          /* messages acknowledged */
	struct send_queue queue;
	struct send_notices notices;
	bool ask_all; /* receives without a CTS so far get one only if asked for */
	struct send_tags tags;
	struct send_limits limits;
	struct send_waiting waiting;
	struct replay_ring ring;
	struct replay_ring kept; /* send_keep.c; no memory: none are */
	/* IB_EAGER_BYTES: of a small message out of GPU memory; NULL = none so far */
	uint8_t *fetched;
	struct send_msg *msgs; /* ANYNET_SENDS, in pages of their own */
};

static inline struct send_comm *to_send(struct anynet_comm *comm)
{
	return (struct send_comm *)comm;
}

static inline struct anynet_wire_frame send_header(const struct send_comm *comm,
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

/* Its send is done: NCCL may have its buffer back. */
static inline void send_complete(struct send_comm *comm, struct send_msg *msg)
{
	comm->undone--;
	mr_drop(&comm->base, msg->mr);
	msg->mr = NULL;
	atomic_store_explicit(&msg->req.done, true, memory_order_release);
}

/* --- send_keep.c --- */

/* All of a message that is not copied is out: it is, if there is room, and its send is done. */
void send_keep(struct send_comm *comm, struct send_msg *msg);

/* --- send_streams.c --- */

/* To the end of the ready queue: the messages with bytes (or an RTS) to hand to streams, oldest first. */
void send_queue(struct send_comm *comm, struct send_msg *msg);

/* It waits until the receiver has said where it may be written. */
void send_wait_for_cts(struct send_comm *comm, struct send_msg *msg);

/* Of an IB device: may any of its streams carry the message now? */
bool send_cleared(const struct send_comm *comm, const struct send_msg *msg);

/* Those that wait have to ask now. */
void send_ask_for_waiting(struct send_comm *comm);

/* If the message is both acknowledged and tested, its slot is free. */
void send_free_if_over(struct send_comm *comm, struct send_msg *msg);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a send comm. send.c has isend and test, send_streams.c what streams pull and report, send_keep.c the
 * copies for long round trips. */
#ifndef ANYNET_SEND_INTERNAL_H
#define ANYNET_SEND_INTERNAL_H

#include "message/message.h"
#include "message/replay.h"

#define SLOT_NONE 0xffff

static_assert(ANYNET_SENDS == ANYNET_WIRE_SLOTS, "a slot for every request");

enum send_state {
	SEND_FREE,    /* holds no message */
	SEND_ASKING,  /* in the ready queue: an RTS is left to hand to a stream */
	SEND_ASKED,   /* an RTS has been handed to a stream, and the CTS has not come */
	SEND_WAITING, /* in send_comm.waiting: waits for a CTS that comes unasked */
	SEND_QUEUED,  /* in the ready queue: bytes are left to hand to streams */
	SEND_GIVEN,   /* all bytes handed to streams */
};

/* State of READY, the comm's first frame. */
enum send_ready {
	READY_UNUSED, /* send_ready has not been called */
	READY_DUE,    /* to be sent */
	READY_SENT,
	READY_HEARD, /* it has arrived: an ACK or CTS, a completion, or the position in the answer to a RESUME says so */
};

/* Chunks of a message that have been handed to streams. */
struct send_chunks {
	uint32_t unwritten; /* not completely taken by a path */
	uint32_t unsure;    /* arrival not reported by a path */
};

struct send_msg {
	struct anynet_request req; /* first */
	const uint8_t *data;       /* NCCL's buffer, or the payload in the replay ring */
	size_t bytes;
	size_t given; /* bytes handed to streams so far */
	struct anynet_mr *mr;
	void *event; /* the profiler's; NULL = none */
	uint32_t seq, tag;
	struct replay_record *record; /* its frame (GPU memory: its header) in `ring`; NULL = none */
	struct replay_record *kept;   /* the copy of its payload in send_comm.kept; NULL = none */
	struct send_chunks chunks;
	uint16_t next;              /* in a queue or the free list */
	uint8_t state;              /* enum send_state */
	uint8_t flags;              /* ANYNET_FLAG_* of its frames */
	bool copied, acked, tested; /* copied: at isend, into `ring` */
	bool on_gpu;                /* `data` is GPU memory */
};

/* Slots of messages, linked by send_msg.next. */
struct send_queue {
	uint16_t head, tail; /* head SLOT_NONE: it is empty */
};

/* Frames besides messages: READY first, BYE last on every stream. */
struct send_notices {
	enum send_ready ready;
	uint64_t standing; /* connected streams, for READY: bit i = stream i */
};

struct send_tags {
	uint32_t first;
	bool known; /* at least one tag has been used */
	bool multi; /* more than one, or ASK_ALL has come: the receiver matches by tag, and messages ask for their CTS */
};

/* Max bytes of a message that is copied, of a chunk, and of the payload of a frame. */
struct send_limits {
	size_t eager, chunk, frame;
};

struct send_comm {
	struct anynet_comm base; /* first */
	uint32_t next_seq;       /* number of the next message */
	uint16_t free_head;   /* free list of used slots, last used first; empty where slots are used in turn */
	uint16_t fresh;       /* slots from this one on were never used and take no memory yet */
	uint16_t turn;        /* where slots are used in turn: the one after the last */
	uint32_t outstanding; /* requests not reported done */
	uint32_t unconfirmed; /* messages not acknowledged */
	bool refused; /* there was no room for the latest send: NCCL tries it again and again */
	struct send_queue queue;   /* the ready queue: messages with bytes or an RTS to hand to streams */
	struct send_queue waiting; /* messages that wait for a CTS in the CTS ring, for which they send no RTS */
	struct send_notices notices;
	struct send_tags tags;
	struct send_limits limits;
	struct replay_ring ring;
	struct replay_ring kept; /* copies of large messages (send_keep.c); no memory = they are not copied */
	/* IB_EAGER_BYTES: a small message copied from GPU memory; NULL = not needed so far */
	uint8_t *fetched;
	struct send_msg *msgs; /* ANYNET_SENDS entries, in whole pages (pinned.h) */
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

/* The send is done: NCCL may reuse its buffer. */
static inline void send_complete(struct send_comm *comm, struct send_msg *msg)
{
	comm->base.counts.pending--;
	mr_drop(&comm->base, msg->mr);
	msg->mr = NULL;
	atomic_store_explicit(&msg->req.done, true, memory_order_release);
}

/* --- send_keep.c --- */

/* Called when a path has taken all of a large message: copies it if there is room, and its send is done. */
void send_keep(struct send_comm *comm, struct send_msg *msg);

/* --- send_streams.c --- */

/* Appends the message to the ready queue, as SEND_ASKING or SEND_QUEUED. */
void send_queue(struct send_comm *comm, struct send_msg *msg, enum send_state state);

/* Lets the message wait for its CTS. */
void send_wait_for_cts(struct send_comm *comm, struct send_msg *msg);

/* IB device: may any stream carry the message now? */
bool send_cleared(const struct send_comm *comm, const struct send_msg *msg);

/*
 * Are free slots used in turn, so that one rests as long as possible? Otherwise the one used last is used next, because it
 * is in the cache. With several streams of queue pairs an adapter may confirm a message long before the receiver reads its
 * frame. If a newer message took the slot at once, its first chunk could be read earlier, on another stream. The older
 * frame would then wait for the slot, and the newer message's other chunk would wait behind that frame: for ever.
 */
static inline bool send_slots_in_turn(const struct send_comm *comm)
{
	return comm->base.stream_count > 1 && comm_is_ib(&comm->base);
}

/* Frees the slot if the message is both acknowledged and tested. */
void send_free_if_over(struct send_comm *comm, struct send_msg *msg);

#endif

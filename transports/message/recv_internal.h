/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a receive comm. recv.c has its requests, recv_tell.c its control frames, recv_match.c the matching of
 * messages and posted buffers, recv_placed.c bytes that have come, recv_flush.c iflush. */
#ifndef ANYNET_RECV_INTERNAL_H
#define ANYNET_RECV_INTERNAL_H

#include <assert.h>

#include "message/message.h"

#define RECV_REQ_MASK (ANYNET_REQUESTS - 1)

static_assert((ANYNET_REQUESTS & RECV_REQ_MASK) == 0, "requests are found by mask");

struct recv_req;

/* One posted buffer. */
struct recv_sub {
	uint8_t *data;
	size_t capacity;
	size_t size; /* bytes of the message that filled it */
	struct anynet_mr *mr;
	void *event;           /* the profiler's; NULL = none */
	struct recv_sub *next; /* in the list of unmatched buffers, in posting order */
	struct recv_req *owner;
	uint32_t tag;
	bool on_gpu; /* `data` is GPU memory */
	bool polled; /* the GPU polls the buffer for flags while it is filled */
};

struct recv_req {
	struct anynet_request req; /* first */
	bool busy;                 /* between irecv and the test that reported it done */
	uint8_t n, pending;        /* buffers in the group, and how many are not filled */
	struct recv_sub subs[ANYNET_RECVS_MAX];
};

/* An unexpected message: seen before a buffer was posted for it. */
struct unexpected {
	struct unexpected *next; /* in the order of message numbers */
	struct recv_msg *msg;    /* its slot; NULL once it is complete */
	uint8_t *data;           /* its bytes; NULL = only its RTS has come */
	size_t size;
	uint32_t tag;
};

enum recv_state {
	RECV_UNSEEN,
	RECV_WAITING, /* seen; it waits for a posted buffer */
	RECV_MATCHED,
};

#define TOLD_NOTHING  0
#define TOLD_ON(stream) ((uint8_t)((stream) + 1))

/* The message in a slot of the sender, from its first frame until all its bytes are in place. */
struct recv_msg {
	struct recv_sub *sub;          /* its buffer; NULL = not matched */
	struct unexpected *unexpected; /* its bytes go to unexpected->data; NULL = straight into the buffer */
	size_t size, begun, received;  /* bytes; begun: of frames that have been given a place */
	uint64_t asked_by;             /* bit i: an ASK for its CTS has come on stream i and is not answered */
	uint32_t seq, tag;
	uint8_t state;    /* enum recv_state */
	uint8_t told_on;  /* stream on which its last ACK or CTS was sent, as TOLD_ON; or TOLD_NOTHING */
	bool again;       /* that one is to be repeated */
	bool asked;       /* an RTS has come: once matched it gets a CTS, on any stream */
	bool wants_ack;   /* ANYNET_FLAG_ACK: the sender waits for its ACK */
	bool begun_empty; /* it has no bytes, and its only frame is begun */
	bool unsure;      /* needs an ACK: bytes have come by a path that reports no arrival to the sender */
};

struct recv_flush; /* recv_flush.c */

/* Which receive a message fills. A comm is plain before RECV_BY_TAG. */
enum recv_order {
	RECV_FIRST,  /* none is posted yet */
	RECV_PLAIN,  /* only single receives and one tag so far: message k fills receive k */
	RECV_BY_TAG, /* the first one of its tag */
};

/* Kinds of memory that the receives so far have used. */
enum recv_memory {
	RECV_NOTHING, /* no receive with bytes yet */
	RECV_HOST,    /* host memory only */
	RECV_GPU,     /* GPU memory, at least once */
};

/* The messages that have been seen. */
struct recv_seen {
	uint32_t all;       /* all before this number */
	uint64_t early;     /* bit i: message all + 1 + i */
	uint32_t completed; /* number after the highest one that is complete */
	bool slot_awaited;  /* a frame waits in its stream for the slot of an earlier message */
};

/* Numbers of receives; all counts are modulo 2^32 and begin at cfg->first_number. */
struct recv_posted {
	uint32_t all; /* posted so far */
	/* All before this number were posted while the comm was plain, or are reported done. While it is plain, receive k is
	 * for message k. */
	uint32_t clearable;
	/* All before this number have been reported done, which happens in any order. */
	uint32_t oldest;
};

/* Control frames that are due (recv_tell.c), and what decides when. */
struct recv_owed {
	bool ack;        /* an ACK is due */
	bool ack_prompt; /* and the sender waits for it */
	/* Receives have been posted that may need a CTS. They are sent at the next `test` and not in irecv, so that
	 * what NCCL sends between the two leaves first. */
	bool untold;
	bool held;             /* CTS are held back until the sender has used earlier ones */
	bool again_due;        /* there are messages with `again` */
	bool closing;          /* the comm is being closed: a resumed stream sends BYE again */
	uint32_t held_until;   /* with `held`: until all messages before this number have been seen */
	uint32_t cts;          /* RTS and ASK of matched messages that are not answered */
	uint64_t suspects;     /* bit i: SUSPECT is due for stream i */
	uint32_t replay_bytes; /* size of the sender's replay ring, which ACKs must free before it is full */
	uint32_t lazy_bytes;   /* received since the first unacknowledged message, headers included */
	uint32_t complete;     /* messages that the next ACK names */
	uint64_t ack_bits[ANYNET_WIRE_SLOTS / 64]; /* their slots */
};

/* Totals of payload in place. */
struct recv_placed {
	uint64_t chunks, bytes;
};

/* Unexpected messages, oldest first. */
struct recv_unexpected {
	struct unexpected *first, **end;
	size_t bytes; /* memory that they take, up to UNEXPECTED_MAX */
};

/* Posted buffers without a message, in the order of posting. */
struct recv_unmatched {
	struct recv_sub *first, **end;
};

struct recv_comm {
	struct anynet_comm base; /* first */
	struct recv_seen seen;
	struct recv_posted posted;
	uint32_t tag;  /* RECV_PLAIN: the only tag */
	uint8_t order; /* enum recv_order */
	bool ready;    /* READY has come */
	enum recv_memory memory;
	uint64_t streams_standing; /* the connected streams by READY: bit i = stream i */
	struct recv_owed owed;
	struct recv_placed placed;
	struct recv_unexpected unexpected;
	struct recv_unmatched unmatched;
	uint64_t wrote; /* bits of the NICs that have written to GPU memory since the last flush (ib_memory_bit) */
	struct recv_flush *flushes; /* ANYNET_REQUESTS entries; NULL = no flush so far */
	struct recv_req *reqs;      /* in struct recv_tables */
	struct recv_msg *msgs;      /* in struct recv_tables, which begins with them */
};

/* Whole pages: a page that is never used takes no memory. */
struct recv_tables {
	struct recv_msg msgs[ANYNET_SENDS];
	struct recv_req reqs[ANYNET_REQUESTS];
};

static inline struct recv_comm *to_recv(struct anynet_comm *comm)
{
	assert(!comm->is_send);
	return (struct recv_comm *)comm;
}

/* What was last told of the message needs no repetition any more. */
static inline void recv_forget_told(struct recv_msg *msg)
{
	msg->told_on = TOLD_NOTHING;
	msg->again = false;
}

static inline bool recv_is_plain(const struct recv_comm *comm)
{
	return comm->order != RECV_BY_TAG;
}

/* --- recv_flush.c --- */

/* Does a flush in flight use this memory? */
bool recv_flush_uses(const struct recv_comm *comm, const struct anynet_mr *mr);

/* --- recv_tell.c --- */

/* Makes recv_next_cts give the CTS of receive `from` and of those behind it again on this stream, at the next `test`. */
void recv_repeat_cts(struct recv_comm *comm, struct anynet_stream *stream, uint32_t from);

/* --- recv_match.c --- */

/* Handles an RTS: a message waits for its CTS. 0, -EAGAIN or -errno as for recv_place. */
int recv_announced(struct recv_comm *comm, const struct anynet_wire_frame *header);

/* Gives newly posted buffers to unexpected messages, oldest first. 0 or -errno. */
int recv_match_unexpected(struct recv_comm *comm);

/* --- recv_placed.c --- */

/* Memory of an unexpected message: its bytes, and about what the heap and its struct add. */
size_t recv_unexpected_cost(size_t bytes);

/* Copies an unexpected message to its buffer, which is then filled, and frees it. Streams may wait for its memory. */
void recv_deliver(struct recv_comm *comm, struct unexpected *unexpected, struct recv_sub *sub);

/* Moves what has come of a matched unexpected message to its buffer, where the rest is then placed directly. */
void recv_settle(struct recv_comm *comm, struct recv_msg *msg);

void recv_unexpected_free(struct recv_comm *comm, struct unexpected *unexpected);
void recv_unexpected_free_all(struct recv_comm *comm);

#endif

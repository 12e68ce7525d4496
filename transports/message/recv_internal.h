/* SPDX-License-Identifier: Apache-2.0 */
/* A receive comm from the inside: recv.c has its requests, recv_tell.c what it tells the sender, recv_match.c
 * brings messages and posted buffers together. */
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
	size_t size; /* of the message that filled it */
	struct anynet_mr *mr;
	void *event;           /* profiler's */
	struct recv_sub *next; /* in the list of unmatched buffers, posting order */
	struct recv_req *owner;
	uint32_t tag;
	bool on_gpu; /* `data` is GPU memory … */
	bool polled; /* … in which the GPU looks for flags meanwhile */
};

struct recv_req {
	struct anynet_request req; /* first */
	bool busy;                 /* between irecv and the test that reported it done */
	uint8_t n, pending;        /* buffers in the group, those not filled yet */
	struct recv_sub subs[ANYNET_RECVS_MAX];
};

/* A message seen before a buffer was posted for it, in the order of numbers. */
struct unexpected {
	struct unexpected *next;
	struct recv_msg *msg; /* its slot; NULL once it is complete */
	uint8_t *data;        /* its bytes; NULL if it came as RTS and has none yet */
	size_t size;
	uint32_t tag;
};

enum recv_state {
	RECV_UNSEEN,
	RECV_WAITING, /* seen; nothing posted for it yet */
	RECV_MATCHED,
};

#define TOLD_NOTHING  0
#define TOLD_ON(stream) ((uint8_t)((stream) + 1))

/* What is in a slot of the sender: from the first frame until the last byte is there. */
struct recv_msg {
	struct recv_sub *sub;         /* NULL: none yet */
	struct unexpected *unexpected; /* its bytes go there; NULL: straight into the buffer */
	size_t size, begun, received; /* begun: in frames whose payload has a place */
	uint64_t asked_by;            /* streams on which the sender wants the CTS as well */
	uint32_t seq, tag;
	uint8_t state;   /* enum recv_state */
	uint8_t told_on; /* TOLD_ON the stream that its ack or CTS was told on; or TOLD_NOTHING */
	bool asked;      /* came as RTS: gets its CTS once matched, on any stream */
	bool wants_ack;
	bool begun_empty; /* it has no bytes, and its only frame is begun */
	bool unsure;      /* some of it has come by a path that does not tell the sender: ack it */
};

struct recv_flush; /* recv_flush.c */

/* What its receives have been so far. */
enum recv_memory {
	RECV_NOTHING,
	RECV_HOST, /* host memory only */
	RECV_GPU,  /* GPU memory, if only once */
};

/* Which messages have been seen: all before `all`, and of those behind … */
struct recv_seen {
	uint32_t all;
	uint64_t early;     /* … bit i: message all + 1 + i */
	uint32_t completed; /* no message from this one on is complete */
};

/* Receives posted in all, as numbers. */
struct recv_posted {
	uint32_t all;
	/* All before this one were posted while plain, or are reported done; while plain number k is for message k */
	uint32_t clearable;
	uint32_t oldest;      /* all before this one are reported done; tests come in any order */
	uint32_t completions; /* requests completed in all */
	uint32_t outstanding; /* requests not reported done */
};

/* What the sender is still to be told (recv_tell.c), and what decides when. */
struct recv_owed {
	bool ack_prompt; /* the sender waits for an ack */
	/* Receives have been posted that streams may have to tell: at the next test, not in irecv. What NCCL
	 * sends between the two leaves first. */
	bool untold;
	bool held;           /* … CTS wait for the sender's use of earlier ones … */
	bool again_due;      /* there are bits in `again` */
	bool closing;        /* BYE is due, also on a stream that is resumed */
	uint32_t held_until; /* … until all messages before this one have been seen */
	uint32_t cts;
	uint64_t suspects;     /* streams whose path is suspect */
	uint32_t replay_bytes; /* the sender's ring: told before it is full */
	uint32_t lazy_bytes;   /* received since the first message that is to be acked */
	uint32_t complete;     /* messages completed since the last ack … */
	uint64_t ack_bits[ANYNET_WIRE_SLOTS / 64]; /* … and their slots */
	uint64_t again[ANYNET_WIRE_SLOTS / 64];    /* slots whose ack or CTS is to be told again */
};

/* In all. */
struct recv_placed {
	uint64_t chunks, bytes; /* of payload */
};

/* Messages without a buffer, oldest first. */
struct recv_unexpected {
	struct unexpected *first, **end;
	size_t bytes;
};

/* Posted buffers without a message, in the order of posting. */
struct recv_unmatched {
	struct recv_sub *head, *tail;
};

struct recv_comm {
	struct anynet_comm base; /* first */
	struct recv_seen seen;
	struct recv_posted posted;
	uint32_t tag; /* the one tag, while plain */
	bool plain;   /* one tag, single receives */
	bool ready;   /* READY has come … */
	enum recv_memory memory;
	uint64_t streams_standing; /* … which says so */
	struct recv_owed owed;
	struct recv_placed placed;
	uint32_t unfilled; /* posted buffers that wait for a message or its rest */
	struct recv_unexpected unexpected;
	struct recv_unmatched unmatched;
	uint32_t wrote; /* bits of NICs that have written to GPU memory since the last flush */
	struct recv_flush *flushes; /* ANYNET_REQUESTS; NULL = none so far */
	struct recv_req *reqs;      /* both in struct recv_tables */
	struct recv_msg *msgs;
};

/* In pages of their own: what is never used is never there. */
struct recv_tables {
	struct recv_msg msgs[ANYNET_SENDS];
	struct recv_req reqs[ANYNET_REQUESTS];
};

static inline struct recv_comm *to_recv(struct anynet_comm *comm)
{
	assert(!comm->is_send);
	return (struct recv_comm *)comm;
}

/* --- recv_flush.c --- */

/* Does one of them use this memory? */
bool recv_flush_uses(const struct recv_comm *comm, const struct anynet_mr *mr);

/* --- recv_match.c --- */

/* The sender has said that a message waits for its CTS. 0, -EAGAIN or -errno as for recv_place. */
int recv_announced(struct recv_comm *comm, const struct anynet_wire_frame *header);

/* Buffers have been posted: give them to the messages that came before, oldest first. */
int recv_match_unexpected(struct recv_comm *comm);

/* What has come of a matched message before its buffer goes there: the rest will, too. */
void recv_settle(struct recv_comm *comm, struct recv_msg *msg);

void recv_free_unexpected(struct recv_comm *comm);

#endif

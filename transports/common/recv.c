/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving half of the message layer: irecv, test, and what rails ask of it.
 *
 * Matching: the k-th message of a tag fills the k-th posted buffer of that tag. As long as a comm has
 * used one tag and single receives only ("plain"), that is message number k into receive number k,
 * in whatever order chunks arrive. Otherwise messages are matched strictly in the order of their
 * numbers: a rail whose head is a later one is parked until the earlier ones have been seen. A
 * message that nothing is posted for stays in its rail while no posted receive waits; when one does,
 * it is set aside (spilled), so that nothing blocks what is behind it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "comm_internal.h"
#include "profile.h"

#define MSG_MASK    (ANYNET_SENDS - 1)
#define REQ_MASK    (ANYNET_REQUESTS - 1)
#define BITMAP_BYTES (ANYNET_SENDS / 8)

static_assert((ANYNET_REQUESTS & REQ_MASK) == 0, "requests are found by mask");
static_assert(sizeof(struct anynet_wire_frame) + BITMAP_BYTES <= RAIL_CONTROL_BYTES, "ack frame");

struct recv_req;

/* One posted buffer. */
struct recv_sub {
	uint8_t *data;
	size_t capacity;
	size_t size; /* of the message that filled it */
	struct anynet_mr *mr;
	void *event;		/* profiler's */
	struct recv_sub *next;	/* in the list of unmatched buffers, posting order */
	struct recv_req *owner;
	uint32_t tag;
	bool matched;
};

struct recv_req {
	struct anynet_request req; /* first */
	bool busy;		   /* between irecv and the test that reported it done */
	uint8_t n, pending;	   /* buffers in the group, those not filled yet */
	struct recv_sub subs[ANYNET_RECVS_MAX];
};

enum recv_state {
	RECV_UNSEEN,
	RECV_WAITING, /* announced; nothing posted for it yet */
	RECV_MATCHED,
	RECV_COMPLETE, /* all bytes there; not acknowledged yet in sequence */
};

/* Message number seq, at seq % ANYNET_SENDS. */
struct recv_msg {
	struct recv_sub *sub; /* NULL: none yet */
	uint8_t *spill;	      /* its bytes, when they came before a buffer was posted */
	size_t size, received;
	uint32_t tag;
	uint8_t state; /* enum recv_state */
	bool asked;    /* came as RTS: grant it once matched */
	bool wants_ack;
};

struct recv_comm {
	struct anynet_comm base; /* first */
	uint32_t ack_base;	 /* all messages before are complete */
	uint32_t announced;	 /* all messages before have been seen */
	uint32_t acked;		 /* ack_base as last told */
	uint32_t posted;	 /* receives posted in all */
	uint32_t outstanding;	 /* requests not reported done */
	uint32_t completions;	 /* requests completed in all */
	uint32_t tag;		 /* the one tag, while plain */
	bool plain;		 /* one tag, single receives */
	bool ready;		 /* the sender's READY has come */
	bool ack_prompt;	 /* the sender waits for an ack */
	uint32_t gaps;		 /* complete messages that ack_base has not reached */
	uint32_t replay_bytes;	 /* the sender's ring: told before it is full */
	uint32_t lazy_bytes;	 /* received since the last ack without being asked for one */
	uint32_t grants;	 /* messages to grant */
	struct recv_sub *unmatched_head, *unmatched_tail;
	struct recv_req reqs[ANYNET_REQUESTS];
	struct recv_msg msgs[ANYNET_SENDS];
};

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
	struct recv_comm *comm = to_recv(base);

	comm_fini(base);
	for (int i = 0; i < ANYNET_SENDS; i++)
		free(comm->msgs[i].spill);
	free(comm);
}

unsigned recv_pending(const struct anynet_comm *base)
{
	return ((const struct recv_comm *)base)->outstanding;
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
	return comm->ack_base - comm->acked >= ANYNET_SENDS / 4 ||
	       comm->lazy_bytes >= comm->replay_bytes / 4;
}

static bool control_due(const struct recv_comm *comm)
{
	return comm->ack_prompt || comm->grants || ack_lazy_due(comm);
}

static size_t make_grant(struct recv_comm *comm, uint8_t *frame)
{
	struct anynet_wire_frame header = { .type = ANYNET_FRAME_GRANT };

	for (uint32_t seq = comm->ack_base; seq != comm->announced; seq++) {
		struct recv_msg *msg = &comm->msgs[seq & MSG_MASK];

		if (!msg->asked || msg->state != RECV_MATCHED)
			continue;
		msg->asked = false;
		comm->grants--;
		header.seq = seq;
		header.tag = msg->tag;
		memcpy(frame, &header, sizeof(header));
		return sizeof(header);
	}
	comm->grants = 0;
	return 0;
}

static size_t make_ack(struct recv_comm *comm, uint8_t *frame)
{
	struct anynet_wire_frame header = { .type = ANYNET_FRAME_ACK, .seq = comm->ack_base };
	uint8_t *bitmap = frame + sizeof(header);

	if (comm->gaps) {
		header.length = BITMAP_BYTES;
		memset(bitmap, 0, BITMAP_BYTES);
		for (uint32_t bit = 0; bit < ANYNET_SENDS; bit++)
			if (comm->msgs[(comm->ack_base + bit) & MSG_MASK].state == RECV_COMPLETE)
				bitmap[bit / 8] |= (uint8_t)(1u << bit % 8);
	}
	memcpy(frame, &header, sizeof(header));
	comm->acked = comm->ack_base;
	comm->ack_prompt = false;
	comm->lazy_bytes = 0;
	return sizeof(header) + header.length;
}

size_t recv_next_control(struct recv_comm *comm, uint8_t frame[RAIL_CONTROL_BYTES])
{
	size_t bytes = comm->grants ? make_grant(comm, frame) : 0;

	if (bytes)
		return bytes;
	return comm->ack_prompt || ack_lazy_due(comm) ? make_ack(comm, frame) : 0;
}

/* --- completion --- */

static void fill_sub(struct recv_comm *comm, struct recv_msg *msg)
{
	struct recv_sub *sub = msg->sub;
	struct recv_req *req = sub->owner;

	sub->size = msg->size;
	mr_drop(sub->mr);
	sub->mr = NULL;
	msg->sub = NULL;
	if (--req->pending)
		return;
	comm->completions++;
	atomic_store_explicit(&req->req.done, true, memory_order_release);
}

static void unspill(struct recv_msg *msg)
{
	if (!msg->spill)
		return;
	memcpy(msg->sub->data, msg->spill, msg->size);
	free(msg->spill);
	msg->spill = NULL;
}

static void complete_message(struct recv_comm *comm, struct recv_msg *msg)
{
	if (msg->sub) {
		unspill(msg);
		fill_sub(comm, msg);
	}
	if (msg->state != RECV_COMPLETE)
		comm->gaps++;
	msg->state = RECV_COMPLETE;
	if (msg->wants_ack)
		comm->ack_prompt = true;
	comm->lazy_bytes += (uint32_t)(sizeof(struct anynet_wire_frame) +
				       anynet_min(msg->size, comm->replay_bytes));
	/* A complete message that is still spilled keeps its slot until it is delivered. */
	while (comm->msgs[comm->ack_base & MSG_MASK].state == RECV_COMPLETE &&
	       !comm->msgs[comm->ack_base & MSG_MASK].spill) {
		comm->msgs[comm->ack_base & MSG_MASK].state = RECV_UNSEEN;
		comm->ack_base++;
		comm->gaps--;
	}
}

/* --- matching --- */

static int check_fits(struct recv_comm *comm, const struct recv_msg *msg, const struct recv_sub *sub)
{
	if (anynet_likely(msg->size <= sub->capacity))
		return 0;
	comm_fail(&comm->base, NULL, -EMSGSIZE,
		  "message of %zu bytes for a posted receive of %zu bytes (tag %u); the ranks disagree "
		  "about sizes",
		  msg->size, sub->capacity, msg->tag);
	return -EMSGSIZE;
}

static void unmatched_remove(struct recv_comm *comm, struct recv_sub *prev, struct recv_sub *sub)
{
	if (prev)
		prev->next = sub->next;
	else
		comm->unmatched_head = sub->next;
	if (comm->unmatched_tail == sub)
		comm->unmatched_tail = prev;
	sub->next = NULL;
}

static int bind_buffer(struct recv_comm *comm, struct recv_msg *msg, struct recv_sub *sub)
{
	int ret = check_fits(comm, msg, sub);

	if (ret)
		return ret;
	sub->matched = true;
	msg->sub = sub;
	if (msg->state != RECV_COMPLETE)
		msg->state = RECV_MATCHED;
	if (msg->asked)
		comm->grants++;
	return 0;
}

/* First posted buffer of this tag that has no message yet. */
static int match_message(struct recv_comm *comm, struct recv_msg *msg)
{
	struct recv_sub *prev = NULL;

	for (struct recv_sub *sub = comm->unmatched_head; sub; prev = sub, sub = sub->next) {
		if (sub->tag != msg->tag)
			continue;
		unmatched_remove(comm, prev, sub);
		return bind_buffer(comm, msg, sub);
	}
	return -EAGAIN;
}

/* The buffer of receive number seq, in a plain comm. -EAGAIN: not posted yet. */
static int match_plain(struct recv_comm *comm, struct recv_msg *msg, uint32_t seq)
{
	struct recv_sub *sub = &comm->reqs[seq & REQ_MASK].subs[0], *prev = NULL;

	if ((int32_t)(seq - comm->posted) >= 0)
		return -EAGAIN;
	for (struct recv_sub *at = comm->unmatched_head; at != sub; at = at->next) {
		if (!at) {
			comm_fail(&comm->base, NULL, -EPROTO, "message %u came twice", seq);
			return -EPROTO;
		}
		prev = at;
	}
	unmatched_remove(comm, prev, sub);
	return bind_buffer(comm, msg, sub);
}

/* Rails parked at a frame may have become able to go on. */
static void unpark(struct anynet_comm *base)
{
	for (unsigned i = 0; i < base->rail_count; i++)
		if (base->rails[i])
			base->rails[i]->parked = false;
}

static void note_announced(struct recv_comm *comm)
{
	while (comm->msgs[comm->announced & MSG_MASK].state != RECV_UNSEEN &&
	       comm->announced - comm->ack_base < ANYNET_SENDS)
		comm->announced++;
	if (comm->base.rail_count > 1)
		unpark(&comm->base);
}

/* First sight of a message. -EAGAIN: it has to wait in its rail. */
static int announce(struct recv_comm *comm, struct recv_msg *msg,
		    const struct anynet_wire_frame *header)
{
	bool plain = comm->plain && !(header->flags & ANYNET_FLAG_MULTI) &&
		     (!comm->posted || header->tag == comm->tag);
	bool asked = header->type == ANYNET_FRAME_RTS;
	int ret;

	msg->tag = header->tag;
	msg->size = header->size;
	msg->received = 0;
	msg->asked = asked;
	msg->wants_ack = header->flags & ANYNET_FLAG_ACK;
	if (plain) {
		ret = match_plain(comm, msg, header->seq);
	} else {
		if (header->seq != comm->announced)
			return -EAGAIN;
		ret = match_message(comm, msg);
		/* Somebody waits for what is behind it: take it out of the way. */
		if (ret == -EAGAIN && (comm->unmatched_head || asked)) {
			msg->state = RECV_WAITING;
			ret = 0;
		}
	}
	if (!ret)
		note_announced(comm);
	return ret;
}

static int check_header(struct recv_comm *comm, const struct anynet_wire_frame *header,
			const struct recv_msg *msg)
{
	bool in_window = header->seq - comm->ack_base < ANYNET_SENDS;
	bool inside = header->size <= ANYNET_MESSAGE_MAX && header->offset <= header->size &&
		      header->length <= header->size - header->offset;

	if (anynet_likely(in_window && inside &&
			  (msg->state == RECV_UNSEEN ||
			   (msg->state != RECV_COMPLETE && msg->size == header->size &&
			    msg->tag == header->tag &&
			    header->length <= msg->size - msg->received))))
		return 0;
	comm_fail(&comm->base, NULL, -EPROTO,
		  "bad frame: message %u (window from %u) offset %" PRIu64 " length %u size %" PRIu64,
		  header->seq, comm->ack_base, header->offset, header->length, header->size);
	return -EPROTO;
}

static int spill_alloc(struct recv_comm *comm, struct recv_msg *msg)
{
	if (msg->spill)
		return 0;
	msg->spill = malloc(anynet_max(msg->size, 1));
	if (msg->spill)
		return 0;
	comm_fail(&comm->base, NULL, -ENOMEM,
		  "no memory to set aside a message of %zu bytes that came before its receive",
		  msg->size);
	return -ENOMEM;
}

int recv_place(struct recv_comm *comm, const struct anynet_wire_frame *header,
	       struct recv_msg **out, uint8_t **dst)
{
	struct recv_msg *msg = &comm->msgs[header->seq & MSG_MASK];
	int ret = check_header(comm, header, msg);

	if (ret)
		return ret;
	if (msg->state == RECV_UNSEEN) {
		ret = announce(comm, msg, header);
		if (ret)
			return ret;
	}
	if (!msg->sub || msg->spill) {
		ret = spill_alloc(comm, msg);
		if (ret)
			return ret;
		*dst = msg->spill + header->offset;
	} else {
		*dst = msg->sub->data + header->offset;
	}
	if (!header->length)
		*dst = NULL;
	*out = msg;
	return 0;
}

void recv_placed(struct recv_comm *comm, struct recv_msg *msg, size_t bytes)
{
	msg->received += bytes;
	if (msg->received == msg->size)
		complete_message(comm, msg);
}

static int on_rts(struct recv_comm *comm, const struct anynet_wire_frame *header)
{
	struct recv_msg *msg = &comm->msgs[header->seq & MSG_MASK];
	int ret = check_header(comm, header, msg);

	if (ret)
		return ret;
	if (msg->state != RECV_UNSEEN || !(header->flags & ANYNET_FLAG_MULTI)) {
		comm_fail(&comm->base, NULL, -EPROTO, "message %u announced twice", header->seq);
		return -EPROTO;
	}
	return announce(comm, msg, header);
}

int recv_control(struct recv_comm *comm, struct anynet_rail *rail,
		 const struct anynet_wire_frame *header)
{
	switch (header->type) {
	case ANYNET_FRAME_RTS:
		return on_rts(comm, header);
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
	sub->matched = false;
	sub->next = NULL;
	mr_hold(mr);
	if (comm->unmatched_tail)
		comm->unmatched_tail->next = sub;
	else
		comm->unmatched_head = sub;
	comm->unmatched_tail = sub;
}

/* Messages that arrived before their buffer was posted, oldest first. */
static int match_waiting(struct recv_comm *comm)
{
	int ret;

	for (uint32_t seq = comm->ack_base; seq != comm->announced && comm->unmatched_head; seq++) {
		struct recv_msg *msg = &comm->msgs[seq & MSG_MASK];
		bool complete = msg->state == RECV_COMPLETE && msg->spill && !msg->sub;

		if (msg->state != RECV_WAITING && !complete)
			continue;
		ret = match_message(comm, msg);
		if (ret == -EAGAIN)
			continue;
		if (ret)
			return ret;
		if (complete)
			complete_message(comm, msg);
	}
	return 0;
}

static int irecv_entered(struct recv_comm *comm, int n, void *const *data, const size_t *bytes,
			 const int *tags, struct anynet_mr *const *mrs, void *const *phandles,
			 struct anynet_request **out)
{
	struct recv_req *req = &comm->reqs[comm->posted & REQ_MASK];
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
	unpark(&comm->base);
	if (anynet_unlikely(!comm->plain))
		ret = match_waiting(comm);
	if (anynet_likely(!ret))
		*out = &req->req;
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving half of the message layer: irecv, test, and what rails ask of it.
 *
 * Matching: the k-th message of a tag fills the k-th posted buffer of that tag. As long as a comm has
 * used one tag and single receives only ("plain"), that is message number k into receive number k,
 * in whatever order chunks arrive. Otherwise messages are matched strictly in the order of their
 * numbers: a rail whose head is a later one is parked until the earlier ones have been seen. A
 * message that nothing is posted for stays in its rail while no posted receive waits; when one does,
 * it is set aside, so that nothing blocks what is behind it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "comm_internal.h"
#include "copy.h"
#include "profile.h"

#define REQ_MASK  (ANYNET_REQUESTS - 1)
#define EARLY_MAX 64 /* messages seen before an earlier one: fewer than posted receives */
/* What may be set aside of one comm. Beyond, messages stay in their rails: by then a sender has sent
 * this much, in messages of ANYNET_TCP_EAGER at most, to a tag that nobody receives. */
#define ASIDE_MAX ((size_t)64 << 20)

static_assert((ANYNET_REQUESTS & REQ_MASK) == 0, "requests are found by mask");
static_assert(sizeof(struct anynet_wire_frame) + ANYNET_ACK_BYTES <= RAIL_CONTROL_BYTES, "ack frame");

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
};

struct recv_req {
	struct anynet_request req; /* first */
	bool busy;		   /* between irecv and the test that reported it done */
	uint8_t n, pending;	   /* buffers in the group, those not filled yet */
	struct recv_sub subs[ANYNET_RECVS_MAX];
};

/* A message seen before a buffer was posted for it, in the order of numbers. */
struct arrival {
	struct arrival *next;
	struct recv_msg *msg; /* its slot; NULL once it is complete */
	uint8_t *data;	      /* its bytes; NULL if it came as RTS and has none yet */
	size_t size;
	uint32_t tag;
};

enum recv_state {
	RECV_UNSEEN,
	RECV_WAITING, /* seen; nothing posted for it yet */
	RECV_MATCHED,
};

/* What is in a slot of the sender: from the first frame until the last byte is there. */
struct recv_msg {
	struct recv_sub *sub;	 /* NULL: none yet */
	struct arrival *arrival; /* its bytes go there; NULL: straight into the buffer */
	size_t size, begun, received; /* begun: in frames whose payload has a place */
	uint32_t seq, tag;
	uint8_t state; /* enum recv_state */
	bool asked;    /* came as RTS: grant it once matched */
	bool wants_ack;
};

struct recv_comm {
	struct anynet_comm base; /* first */
	uint32_t announced;	 /* all messages before have been seen */
	uint64_t early;		 /* bit i: message announced + 1 + i has been seen, too */
	uint32_t posted;	 /* receives posted in all */
	uint32_t outstanding;	 /* requests not reported done */
	uint32_t completions;	 /* requests completed in all */
	uint32_t tag;		 /* the one tag, while plain */
	bool plain;		 /* one tag, single receives */
	bool ready;		 /* the sender's READY has come */
	bool ack_prompt;	 /* the sender waits for an ack */
	uint32_t replay_bytes;	 /* the sender's ring: told before it is full */
	uint32_t lazy_bytes;	 /* received since the last ack without being asked for one */
	uint32_t complete;	 /* messages completed since the last ack … */
	uint64_t ack_bits[ANYNET_WIRE_SLOTS / 64]; /* … and their slots */
	uint32_t grants;	 /* messages to grant */
	uint32_t unfilled;	 /* posted buffers that wait for a message or its rest */
	size_t aside;		 /* bytes in arrivals */
	struct arrival *arrivals, **arrivals_end; /* without a buffer, oldest first */
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
	comm->arrivals_end = &comm->arrivals;
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

static void arrival_free(struct recv_comm *comm, struct arrival *arrival)
{
	if (arrival->data)
		comm->aside -= arrival->size;
	free(arrival->data);
	free(arrival);
}

void recv_comm_destroy(struct anynet_comm *base)
{
	struct recv_comm *comm = to_recv(base);

	comm_fini(base);
	/* Those in the list, and those matched while their bytes were still coming. */
	while (comm->arrivals) {
		struct arrival *next = comm->arrivals->next;

		if (comm->arrivals->msg)
			comm->arrivals->msg->arrival = NULL;
		arrival_free(comm, comm->arrivals);
		comm->arrivals = next;
	}
	for (int i = 0; i < ANYNET_SENDS; i++)
		if (comm->msgs[i].arrival)
			arrival_free(comm, comm->msgs[i].arrival);
	free(comm);
}

unsigned recv_pending(const struct anynet_comm *base)
{
	const struct recv_comm *comm = (const struct recv_comm *)base;

	return comm->posted - comm->completions;
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

static bool control_due(const struct recv_comm *comm)
{
	return comm->ack_prompt || comm->grants || ack_lazy_due(comm);
}

static size_t make_grant(struct recv_comm *comm, uint8_t *frame)
{
	struct anynet_wire_frame header = { .type = ANYNET_FRAME_GRANT };

	for (unsigned slot = 0; slot < ANYNET_SENDS; slot++) {
		struct recv_msg *msg = &comm->msgs[slot];

		if (!msg->asked || msg->state != RECV_MATCHED)
			continue;
		msg->asked = false;
		comm->grants--;
		header.slot = (uint16_t)slot;
		header.seq = msg->seq;
		header.tag = msg->tag;
		memcpy(frame, &header, sizeof(header));
		return sizeof(header);
	}
	comm->grants = 0;
	return 0;
}

static size_t make_ack(struct recv_comm *comm, uint8_t *frame)
{
	struct anynet_wire_frame header = { .type = ANYNET_FRAME_ACK,
					    .seq = comm->announced,
					    .length = ANYNET_ACK_BYTES };

	memcpy(frame, &header, sizeof(header));
	memcpy(frame + sizeof(header), comm->ack_bits, ANYNET_ACK_BYTES);
	memset(comm->ack_bits, 0, sizeof(comm->ack_bits));
	comm->complete = 0;
	comm->ack_prompt = false;
	comm->lazy_bytes = 0;
	return sizeof(header) + ANYNET_ACK_BYTES;
}

size_t recv_next_control(struct recv_comm *comm, uint8_t frame[RAIL_CONTROL_BYTES])
{
	size_t bytes = comm->grants ? make_grant(comm, frame) : 0;

	if (bytes)
		return bytes;
	return comm->ack_prompt || ack_lazy_due(comm) ? make_ack(comm, frame) : 0;
}

/* --- completion --- */

static void fill_sub(struct recv_comm *comm, struct recv_sub *sub, size_t size)
{
	struct recv_req *req = sub->owner;

	sub->size = size;
	mr_drop(sub->mr);
	sub->mr = NULL;
	comm->unfilled--;
	if (--req->pending)
		return;
	comm->completions++;
	atomic_store_explicit(&req->req.done, true, memory_order_release);
}

/* A message set aside goes where it belongs. */
static void deliver(struct recv_comm *comm, struct arrival *arrival, struct recv_sub *sub)
{
	copy_ascending(sub->data, arrival->data, arrival->size);
	fill_sub(comm, sub, arrival->size);
	arrival_free(comm, arrival);
}

static void complete_message(struct recv_comm *comm, struct recv_msg *msg)
{
	unsigned slot = (unsigned)(msg - comm->msgs);

	if (msg->sub && msg->arrival)
		deliver(comm, msg->arrival, msg->sub);
	else if (msg->sub)
		fill_sub(comm, msg->sub, msg->size);
	else
		msg->arrival->msg = NULL; /* stays in the list until a buffer is posted */
	msg->sub = NULL;
	msg->arrival = NULL;
	msg->state = RECV_UNSEEN;
	comm->ack_bits[slot / 64] |= 1ull << slot % 64;
	comm->complete++;
	if (msg->wants_ack)
		comm->ack_prompt = true;
	comm->lazy_bytes += (uint32_t)(sizeof(struct anynet_wire_frame) +
				       anynet_min(msg->size, comm->replay_bytes));
}

/* --- matching --- */

static int check_fits(struct recv_comm *comm, size_t size, const struct recv_sub *sub)
{
	if (anynet_likely(size <= sub->capacity))
		return 0;
	comm_fail(&comm->base, NULL, -EMSGSIZE,
		  "message of %zu bytes for a posted receive of %zu bytes (tag %u); the ranks disagree "
		  "about sizes",
		  size, sub->capacity, sub->tag);
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
	int ret = check_fits(comm, msg->size, sub);

	if (ret)
		return ret;
	msg->sub = sub;
	msg->state = RECV_MATCHED;
	if (msg->asked)
		comm->grants++;
	return 0;
}

/* Take the first posted buffer of this tag that has no message yet; NULL = none. */
static struct recv_sub *unmatched_take(struct recv_comm *comm, uint32_t tag)
{
	struct recv_sub *prev = NULL;

	for (struct recv_sub *sub = comm->unmatched_head; sub; prev = sub, sub = sub->next) {
		if (sub->tag != tag)
			continue;
		unmatched_remove(comm, prev, sub);
		return sub;
	}
	return NULL;
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

static void note_seen(struct recv_comm *comm, uint32_t seq)
{
	if (seq != comm->announced) {
		comm->early |= 1ull << (seq - comm->announced - 1);
		return;
	}
	do {
		bool next_seen = comm->early & 1;

		comm->announced++;
		comm->early >>= 1;
		if (!next_seen)
			break;
	} while (true);
	if (comm->base.rail_count > 1)
		unpark(&comm->base);
}

/* Nothing is posted for a message at the head of a rail. It stays there while nobody waits for what
 * may be behind it, or when too much lies aside already; else it is taken out of the way. */
static int set_aside(struct recv_comm *comm, struct recv_msg *msg)
{
	size_t bytes = msg->asked ? 0 : msg->size;
	struct arrival *arrival;

	if (!msg->asked && (!comm->unfilled || (comm->aside && comm->aside + bytes > ASIDE_MAX)))
		return -EAGAIN;
	arrival = calloc(1, sizeof(*arrival));
	if (arrival && !msg->asked)
		arrival->data = malloc(anynet_max(bytes, 1));
	if (!arrival || (!msg->asked && !arrival->data)) {
		free(arrival);
		comm_fail(&comm->base, NULL, -ENOMEM,
			  "no memory to set aside a message of %zu bytes that came before its receive",
			  msg->size);
		return -ENOMEM;
	}
	arrival->msg = msg;
	arrival->size = msg->size;
	arrival->tag = msg->tag;
	comm->aside += bytes;
	*comm->arrivals_end = arrival;
	comm->arrivals_end = &arrival->next;
	msg->arrival = arrival;
	msg->state = RECV_WAITING;
	return 0;
}

static int match_in_order(struct recv_comm *comm, struct recv_msg *msg)
{
	struct recv_sub *sub;

	comm->plain = false;
	if (msg->seq != comm->announced)
		return -EAGAIN;
	sub = unmatched_take(comm, msg->tag);
	return sub ? bind_buffer(comm, msg, sub) : set_aside(comm, msg);
}

/* First sight of a message. -EAGAIN: it has to wait in its rail. */
static int announce(struct recv_comm *comm, struct recv_msg *msg,
		    const struct anynet_wire_frame *header)
{
	bool plain = comm->plain && !(header->flags & ANYNET_FLAG_MULTI) &&
		     (!comm->posted || header->tag == comm->tag);
	int ret;

	msg->seq = header->seq;
	msg->tag = header->tag;
	msg->size = header->size;
	msg->begun = msg->received = 0;
	msg->asked = header->type == ANYNET_FRAME_RTS;
	msg->wants_ack = header->flags & ANYNET_FLAG_ACK;
	ret = plain ? match_plain(comm, msg, header->seq) : match_in_order(comm, msg);
	if (!ret)
		note_seen(comm, header->seq);
	return ret;
}

static ANYNET_COLD int bad_frame(struct recv_comm *comm, const struct anynet_wire_frame *header)
{
	comm_fail(&comm->base, NULL, -EPROTO,
		  "bad frame: type %u slot %u message %u (seen up to %u) offset %" PRIu64
		  " length %u size %" PRIu64,
		  header->type, header->slot, header->seq, comm->announced, header->offset,
		  header->length, header->size);
	return -EPROTO;
}

static bool seen_early(const struct recv_comm *comm, uint32_t ahead)
{
	return ahead && ahead <= EARLY_MAX && comm->early >> (ahead - 1) & 1;
}

/* The slot of a DATA or RTS frame, after a look at every field. NULL = comm_fail has been called. */
static struct recv_msg *find_slot(struct recv_comm *comm, const struct anynet_wire_frame *header)
{
	struct recv_msg *msg = &comm->msgs[header->slot % ANYNET_SENDS];
	uint32_t ahead = header->seq - comm->announced;
	bool inside = header->slot < ANYNET_SENDS && header->size <= ANYNET_MESSAGE_MAX &&
		      header->offset <= header->size &&
		      header->length <= header->size - header->offset;
	bool fits = msg->state == RECV_UNSEEN
			    ? (int32_t)ahead >= 0 && !seen_early(comm, ahead)
			    : msg->seq == header->seq && msg->size == header->size &&
				      msg->tag == header->tag && !msg->asked &&
				      header->length <= msg->size - msg->begun;

	if (anynet_likely(inside && fits))
		return msg;
	bad_frame(comm, header);
	return NULL;
}

int recv_place(struct recv_comm *comm, const struct anynet_wire_frame *header,
	       struct recv_msg **out, uint8_t **dst)
{
	struct recv_msg *msg = find_slot(comm, header);
	int ret;

	if (!msg)
		return -EPROTO;
	if (msg->state == RECV_UNSEEN) {
		ret = announce(comm, msg, header);
		if (ret)
			return ret;
	}
	*dst = NULL;
	if (header->length)
		*dst = (msg->arrival ? msg->arrival->data : msg->sub->data) + header->offset;
	msg->begun += header->length;
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
	struct recv_msg *msg = find_slot(comm, header);

	if (!msg)
		return -EPROTO;
	if (msg->state != RECV_UNSEEN || !(header->flags & ANYNET_FLAG_MULTI))
		return bad_frame(comm, header);
	return announce(comm, msg, header);
}

int recv_control(struct recv_comm *comm, struct anynet_rail *rail,
		 const struct anynet_wire_frame *header)
{
	if (header->length) {
		comm_fail(&comm->base, rail, -EPROTO, "frame of type %u with %u bytes behind it",
			  header->type, header->length);
		return -EPROTO;
	}
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
	sub->next = NULL;
	comm->unfilled++;
	mr_hold(mr);
	if (comm->unmatched_tail)
		comm->unmatched_tail->next = sub;
	else
		comm->unmatched_head = sub;
	comm->unmatched_tail = sub;
}

/* Give an arrival its buffer. */
static int match_arrival(struct recv_comm *comm, struct arrival *arrival, struct recv_sub *sub)
{
	struct recv_msg *msg = arrival->msg;
	int ret = check_fits(comm, arrival->size, sub);

	if (ret) {
		if (msg)
			msg->arrival = NULL;
		arrival_free(comm, arrival);
		return ret;
	}
	if (!msg) {
		deliver(comm, arrival, sub);
		return 0;
	}
	if (!arrival->data) {
		msg->arrival = NULL;
		arrival_free(comm, arrival);
	}
	return bind_buffer(comm, msg, sub);
}

/* Messages that came before their buffer was posted, oldest first. */
static int match_arrivals(struct recv_comm *comm)
{
	struct arrival **link = &comm->arrivals;

	while (*link && comm->unmatched_head) {
		struct arrival *arrival = *link;
		struct recv_sub *sub = unmatched_take(comm, arrival->tag);
		int ret;

		if (!sub) {
			link = &arrival->next;
			continue;
		}
		*link = arrival->next;
		if (!*link)
			comm->arrivals_end = link;
		arrival->next = NULL;
		ret = match_arrival(comm, arrival, sub);
		if (ret)
			return ret;
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
		ret = match_arrivals(comm);
	if (anynet_likely(!ret))
		*out = &req->req;
	else
		comm_close_rails(&comm->base);
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matching of messages and posted buffers: the k-th message of a tag fills the k-th posted buffer of that tag.
 *
 * While a comm is plain (only one tag and single receives so far), message k belongs to receive k, in whatever order
 * chunks arrive. Otherwise messages are matched strictly in the order of their numbers: a stream whose head is a later
 * message is parked until the earlier ones have been seen. A message without a posted buffer stays in its stream,
 * unless a posted receive is unfilled: what that waits for may be behind the message, which is then kept as unexpected.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "message/recv_internal.h"

#define EARLY_MAX 64 /* bits of seen.early; messages are seen less than ANYNET_REQUESTS ahead of an unseen one */
/* Max memory for unexpected messages of one comm; further ones stay in their streams. By then a sender has sent this
 * much, in messages of up to ANYNET_TCP_EAGER, with a tag for which nothing is posted. */
#define UNEXPECTED_MAX ((size_t)64 << 20)

static int check_fits(struct recv_comm *comm, size_t size, const struct recv_sub *sub)
{
	if (anynet_likely(size <= sub->capacity))
		return 0;
	comm_note_fault(
		&comm->base, NULL, -EMSGSIZE,
		"message of %zu bytes for a posted receive of %zu bytes (tag %u); the ranks disagree "
		"about sizes",
		size, sub->capacity, sub->tag);
	return -EMSGSIZE;
}

static void bind_buffer(struct recv_comm *comm, struct recv_msg *msg, struct recv_sub *sub)
{
	msg->sub = sub;
	msg->state = RECV_MATCHED;
	if (anynet_unlikely(msg->asked || msg->asked_by))
		comm->owed.cts += msg->asked + (uint32_t)__builtin_popcountll(msg->asked_by);
}

/* The link to the unmatched buffer `wanted`, or if it is NULL to the first one of this tag. It points to NULL if there is
 * none. */
static struct recv_sub **unmatched_find(struct recv_comm *comm, const struct recv_sub *wanted, uint32_t tag)
{
	struct recv_sub **link = &comm->unmatched.first, *sub;

	while ((sub = *link) && (wanted ? sub != wanted : sub->tag != tag))
		link = &sub->next;
	return link;
}

static struct recv_sub *unmatched_take(struct recv_comm *comm, struct recv_sub **link)
{
	struct recv_sub *sub = *link;

	*link = sub->next;
	if (!*link)
		comm->unmatched.end = link;
	return sub;
}

static void note_seen(struct recv_comm *comm, uint32_t seq)
{
	bool next_seen;

	if (seq != comm->seen.all) {
		comm->seen.early |= 1ull << (seq - comm->seen.all - 1);
		return;
	}
	do {
		next_seen = comm->seen.early & 1;
		comm->seen.all++;
		comm->seen.early >>= 1;
	} while (next_seen);
	if (comm->base.stream_count > 1)
		comm_unpark(&comm->base);
}

static ANYNET_COLD int no_memory(struct recv_comm *comm, size_t bytes)
{
	comm_note_fault(&comm->base, NULL, -ENOMEM, "out of memory for an unexpected message of %zu bytes", bytes);
	return -ENOMEM;
}

/* Memory for the bytes of an unexpected message. -EAGAIN: no posted buffer is unfilled, or UNEXPECTED_MAX is reached. */
static int give_memory(struct recv_comm *comm, struct unexpected *unexpected)
{
	size_t cost = recv_unexpected_cost(unexpected->size);

	if (!comm_pending(&comm->base) ||
	    (comm->unexpected.bytes && comm->unexpected.bytes + cost > UNEXPECTED_MAX))
		return -EAGAIN;
	/* Zeroed: a peer may report bytes as sent that it has not, and must not get old heap contents delivered. */
	unexpected->data = calloc(1, anynet_max(unexpected->size, 1));
	if (!unexpected->data)
		return no_memory(comm, unexpected->size);
	comm->unexpected.bytes += cost;
	return 0;
}

/* Makes a message without a posted buffer, at the head of a stream, an unexpected one: 0. -EAGAIN: it stays in the
 * stream. An RTS never stays. */
static int keep_unexpected(struct recv_comm *comm, struct recv_msg *msg)
{
	struct unexpected *unexpected = calloc(1, sizeof(*unexpected));
	int ret;

	if (!unexpected)
		return no_memory(comm, msg->size);
	*unexpected = (struct unexpected){ .msg = msg, .size = msg->size, .tag = msg->tag };
	ret = msg->asked ? 0 : give_memory(comm, unexpected);
	if (ret) {
		free(unexpected);
		return ret;
	}
	*comm->unexpected.end = unexpected;
	comm->unexpected.end = &unexpected->next;
	msg->unexpected = unexpected;
	msg->state = RECV_WAITING;
	return 0;
}

/* -EAGAIN: the message stays in its stream. Plain: until its receive is posted, which no other message has taken. */
static int match(struct recv_comm *comm, struct recv_msg *msg, bool plain)
{
	const struct recv_sub *own = plain ? &comm->reqs[msg->seq & RECV_REQ_MASK].subs[0] : NULL;
	struct recv_sub **link;
	int ret;

	if (plain ? (int32_t)(msg->seq - comm->posted.all) >= 0 : msg->seq != comm->seen.all)
		return -EAGAIN;
	link = unmatched_find(comm, own, msg->tag);
	assert(*link || !own);
	if (!*link)
		return keep_unexpected(comm, msg);
	ret = check_fits(comm, msg->size, *link);
	if (!ret)
		bind_buffer(comm, msg, unmatched_take(comm, link));
	return ret;
}

/* Handles the first frame of a message: fills *msg and matches it. 0, -EAGAIN: the frame waits in its stream, or
 * -errno. */
static int announce(struct recv_comm *comm, struct recv_msg *msg,
		    const struct anynet_wire_frame *header)
{
	bool plain = recv_is_plain(comm) && !(header->flags & ANYNET_FLAG_MULTI) &&
		     (comm->order == RECV_FIRST || header->tag == comm->tag);
	int ret;

	recv_forget_told(msg); /* the sender reuses the slot, so it has received the last ACK */
	msg->seq = header->seq;
	msg->tag = header->tag;
	msg->size = header->size;
	msg->begun = msg->received = 0;
	msg->begun_empty = false;
	msg->asked = header->type == ANYNET_FRAME_RTS;
	msg->asked_by = 0;
	msg->unsure = false;
	msg->wants_ack = header->flags & ANYNET_FLAG_ACK;
	if (anynet_unlikely(!plain))
		comm->order = RECV_BY_TAG;
	ret = match(comm, msg, plain);
	if (!ret)
		note_seen(comm, header->seq);
	return ret;
}

static ANYNET_COLD int bad_frame(struct recv_comm *comm, const struct anynet_wire_frame *header)
{
	comm_note_fault(
		&comm->base, NULL, -EPROTO,
		"bad frame, report it with the logs of both hosts: type %u slot %u message %u (seen up to %u) offset %" PRIu64
		" length %u size %" PRIu64,
		header->type, header->slot, header->seq, comm->seen.all, header->offset,
		header->length, header->size);
	return -EPROTO;
}

static bool seen_early(const struct recv_comm *comm, uint32_t ahead)
{
	return ahead && ahead <= EARLY_MAX && comm->seen.early >> (ahead - 1) & 1;
}

/* Has a message that has been seen a place for its bytes: an unexpected one's memory, or its buffer? */
static bool has_place(const struct recv_msg *msg)
{
	return (msg->unexpected && msg->unexpected->data) || msg->sub;
}

/* Are the fields valid by themselves? DATA without payload is an empty message; checksums are there if agreed on. */
static bool makes_sense(const struct recv_comm *comm, const struct anynet_wire_frame *header)
{
	return header->slot < ANYNET_SENDS && header->size <= ANYNET_MESSAGE_MAX &&
	       header->offset <= header->size && header->length <= header->size - header->offset &&
	       (header->length || !header->size || header->type != ANYNET_FRAME_DATA) &&
	       (comm->base.checksum || !(header->flags & ANYNET_FLAG_CRC));
}

/* Does the frame continue its message? No byte may come twice, nor the frame of an empty message: it would be complete
 * twice. */
static bool goes_on(const struct recv_msg *msg, const struct anynet_wire_frame *header)
{
	return msg->seq == header->seq && msg->size == header->size && msg->tag == header->tag &&
	       (has_place(msg) || msg->asked_by) &&
	       (header->length ? header->length <= msg->size - msg->begun : !msg->begun_empty);
}

static struct recv_msg *msg_of(struct recv_comm *comm, const struct anynet_wire_frame *header)
{
	return &comm->msgs[header->slot % ANYNET_SENDS];
}

/* Is it the first frame of a message? */
static bool is_new(const struct recv_comm *comm, const struct anynet_wire_frame *header)
{
	uint32_t ahead = header->seq - comm->seen.all;

	return (int32_t)ahead >= 0 && !seen_early(comm, ahead);
}

/*
 * Checks every field of a DATA, RTS or ASK frame for the slot of `msg`. 0; -EPROTO = invalid, the fault is noted;
 * -EAGAIN: the slot's last message has arrived by the queue pair of another stream, and the sender knows that, but its
 * frame is still unread. What is before it there is older than this message, so it does not wait for this one.
 */
static int check_frame(struct recv_comm *comm, const struct recv_msg *msg, const struct anynet_wire_frame *header)
{
	bool sane = makes_sense(comm, header);

	if (anynet_likely(sane && (msg->state == RECV_UNSEEN ? is_new(comm, header) : goes_on(msg, header))))
		return 0;
	if (sane && comm->base.stream_count > 1 && is_new(comm, header)) {
		comm->seen.slot_awaited = true;
		return -EAGAIN;
	}
	return bad_frame(comm, header);
}

/* The sender has asked where to write it, and sends it in frames all the same: it uses TCP now, or has learned that the
 * receives are in host memory. */
static ANYNET_COLD int place_asked(struct recv_comm *comm, struct recv_msg *msg)
{
	int ret = give_memory(comm, msg->unexpected);

	msg->asked &= ret != 0;
	msg->asked_by = ret ? msg->asked_by : 0;
	return ret;
}

int recv_place(struct recv_comm *comm, const struct anynet_wire_frame *header,
	       struct recv_msg **out, uint8_t **dst)
{
	struct recv_msg *msg = msg_of(comm, header);
	int ret = check_frame(comm, msg, header);

	if (ret)
		return ret;
	ret = msg->state == RECV_UNSEEN ? announce(comm, msg, header) : has_place(msg) ? 0 : place_asked(comm, msg);
	if (ret)
		return ret;
	*dst = NULL;
	if (header->length)
		*dst = (msg->unexpected ? msg->unexpected->data : msg->sub->data) + header->offset;
	msg->begun += header->length;
	msg->begun_empty = !header->length;
	*out = msg;
	return 0;
}

int recv_announced(struct recv_comm *comm, const struct anynet_wire_frame *header)
{
	struct recv_msg *msg = msg_of(comm, header);
	int ret = check_frame(comm, msg, header);

	if (ret)
		return ret;
	if (msg->state != RECV_UNSEEN || !(header->flags & ANYNET_FLAG_MULTI))
		return bad_frame(comm, header);
	return announce(comm, msg, header);
}

int recv_looked(struct recv_comm *comm, struct anynet_stream *stream,
		const struct anynet_wire_frame *header)
{
	bool posted = (int32_t)(header->seq - comm->posted.oldest) >= 0 &&
		      (int32_t)(header->seq - comm->posted.all) < 0;

	/* A message of another tag is not for that receive. The sender learns by ASK_ALL that it has to ask. */
	if (!recv_is_plain(comm) || header->tag != comm->tag || !posted)
		return 0;
	recv_repeat_cts(comm, stream, header->seq);
	return check_fits(comm, header->size, &comm->reqs[header->seq & RECV_REQ_MASK].subs[0]);
}

int recv_asked(struct recv_comm *comm, struct anynet_stream *stream,
	       const struct anynet_wire_frame *header)
{
	struct recv_msg *msg = msg_of(comm, header);
	struct anynet_wire_frame rts = *header;
	uint64_t bit = 1ull << stream->index;
	int ret;

	if (msg->state == RECV_UNSEEN && recv_is_plain(comm))
		return recv_looked(comm, stream,
				   header); /* its CTS goes to the CTS ring, unasked */
	if (msg->state == RECV_UNSEEN || msg->seq != header->seq) {
		rts.type = ANYNET_FRAME_RTS;
		ret = check_frame(comm, msg, &rts);
		if (!ret)
			ret = announce(comm, msg, &rts);
		if (ret)
			return ret;
	}
	comm->owed.cts += !(msg->asked_by & bit) && msg->state == RECV_MATCHED;
	msg->asked_by |= bit;
	return 0;
}

/* Gives an unexpected message, which is out of the list, its buffer. */
static void match_unexpected(struct recv_comm *comm, struct unexpected *unexpected,
			     struct recv_sub *sub)
{
	struct recv_msg *msg = unexpected->msg;

	if (!msg) {
		recv_deliver(comm, unexpected, sub);
		return;
	}
	if (!unexpected->data) {
		msg->unexpected = NULL;
		recv_unexpected_free(comm, unexpected);
	}
	bind_buffer(comm, msg, sub);
}

int recv_match_unexpected(struct recv_comm *comm)
{
	struct unexpected **link = &comm->unexpected.first;

	while (*link && comm->unmatched.first) {
		struct unexpected *unexpected = *link;
		struct recv_sub **sub = unmatched_find(comm, NULL, unexpected->tag);
		int ret;

		if (!*sub) {
			link = &unexpected->next;
			continue;
		}
		ret = check_fits(comm, unexpected->size, *sub);
		if (ret)
			return ret;
		*link = unexpected->next;
		if (!*link)
			comm->unexpected.end = link;
		match_unexpected(comm, unexpected, unmatched_take(comm, sub));
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A send comm: posting and reporting of sends. A message holds a slot from isend until it is both acknowledged and
 * tested. A message that nobody receives holds its own slot only. A small message is copied, header first, into the
 * replay ring and is done when a stream has taken it. A large one is read from NCCL's buffer and is done when the
 * receiver has acknowledged it; over a queue pair at its last completion (send_arrived), over a long round trip when it
 * has been copied (send_keep.c). session/data.c transmits.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pinned.h"
#include "message/profile.h"
#include "message/send_internal.h"
#include "wire/checksum.h"

#define SLOTS_BYTES (ANYNET_SENDS * sizeof(struct send_msg))

struct anynet_comm *send_create(const struct anynet_device *dev)
{
	const struct anynet_config *cfg = anynet_net.cfg;
	struct send_comm *comm = calloc(1, sizeof(*comm));
	bool ib = dev->transport == ANYNET_TRANSPORT_IB;

	if (!comm)
		return NULL;
	comm->msgs = pinned_alloc(SLOTS_BYTES);
	if (!comm->msgs || replay_init(&comm->ring, ib ? IB_REPLAY_BYTES : cfg->replay_bytes)) {
		send_free(&comm->base);
		return NULL;
	}
	comm->limits.frame = ib ? IB_FRAME_BYTES : SIZE_MAX;
	comm->limits.eager = ib ? IB_EAGER_BYTES : cfg->eager_bytes; /* at most half of the ring (config.c) */
	comm->limits.chunk =
		anynet_max(cfg->chunk_bytes & ~(size_t)(ANYNET_PART_ALIGN - 1), ANYNET_PART_ALIGN);
	comm->next_seq = cfg->first_number;
	comm->queue.head = comm->waiting.head = comm->free_head = SLOT_NONE;
	comm->base.is_send = true;
	comm->base.dev = dev;
	return &comm->base;
}

void send_free(struct anynet_comm *base)
{
	struct send_comm *comm = to_send(base);

	replay_fini(&comm->kept);
	replay_fini(&comm->ring);
	pinned_free(comm->msgs, SLOTS_BYTES);
	free(comm->fetched);
	free(comm);
}

static bool uses(const struct anynet_comm *base, const struct anynet_mr *mr)
{
	const struct send_comm *comm = (const struct send_comm *)base;

	for (int i = 0; i < comm->fresh; i++)
		if (comm->msgs[i].mr == mr)
			return true;
	return false;
}

bool send_comm_ready(const struct anynet_comm *base)
{
	enum send_ready ready = ((const struct send_comm *)base)->notices.ready;

	return ready == READY_UNUSED || ready == READY_HEARD;
}

bool send_confirmed(const struct anynet_comm *base)
{
	return !((const struct send_comm *)base)->unconfirmed && send_comm_ready(base);
}

bool send_owes(const struct anynet_comm *base)
{
	const struct send_comm *comm = (const struct send_comm *)base;

	for (int i = 0; i < comm->fresh; i++)
		if (comm->msgs[i].state == SEND_GIVEN && comm->msgs[i].chunks.unwritten &&
		    atomic_load_explicit(&comm->msgs[i].req.done, memory_order_relaxed))
			return true;
	return false;
}

bool send_refused(const struct anynet_comm *base)
{
	return ((const struct send_comm *)base)->refused;
}

static uint32_t requests(const struct anynet_comm *base)
{
	return ((const struct send_comm *)base)->next_seq;
}

static uint64_t bytes_sent(const struct anynet_comm *base)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < base->stream_count; i++)
		bytes += base->streams[i] ? base->streams[i]->sent.bytes : 0;
	return bytes;
}

static uint64_t progress(const struct anynet_comm *base)
{
	const struct send_comm *comm = (const struct send_comm *)base;

	return (uint32_t)(comm->next_seq - comm->unconfirmed);
}

static void describe(const struct anynet_comm *base, char *text, size_t bytes)
{
	const struct send_comm *comm = (const struct send_comm *)base;
	const struct send_msg *oldest = NULL;

	for (int i = 0; i < comm->fresh; i++) {
		const struct send_msg *msg = &comm->msgs[i];

		if (!atomic_load(&msg->req.done) &&
		    (!oldest || (int32_t)(msg->seq - oldest->seq) < 0))
			oldest = msg;
	}
	if (!oldest && comm->refused)
		snprintf(
			text, bytes,
			"a send, for which there is no room before the %u sent last are acknowledged",
			comm->unconfirmed);
	else if (!oldest)
		snprintf(text, bytes, "nothing");
	else
		snprintf(text, bytes, "%u sends, the oldest of %zu bytes, tag %u (%s)",
			 comm_pending(base), oldest->bytes, oldest->tag,
			 oldest->state == SEND_GIVEN ? "sent, not acknowledged"
			 : oldest->state == SEND_ASKED || oldest->state == SEND_WAITING
				 ? "no receive posted for it yet"
				 : "not fully sent");
}

const struct message_ops send_ops = {
	.uses = uses,
	.requests = requests,
	.bytes = bytes_sent,
	.progress = progress,
	.describe = describe,
};

void send_ready(struct anynet_comm *base)
{
	struct send_comm *comm = to_send(base);

	comm->notices.ready = READY_DUE;
	for (unsigned i = 0; i < base->stream_count; i++)
		if (base->streams[i])
			comm->notices.standing |= UINT64_C(1) << i;
}

void send_bye(struct anynet_comm *base)
{
	for (unsigned i = 0; i < base->stream_count; i++)
		if (base->streams[i])
			base->streams[i]->bye.due = true;
}

/* --- posting and reporting --- */

/* What a copied message takes in the replay ring. */
static size_t copy_bytes(const struct send_comm *comm, size_t bytes)
{
	return HEADER_BYTES + bytes + (comm->base.checksum ? ANYNET_CRC_BYTES : 0) + ANYNET_TAIL_BYTES;
}

/* Copies a small message, header first, into the replay ring. False = no room. */
static bool copy_in(struct send_comm *comm, struct send_msg *msg, const void *data)
{
	struct replay_record *record = replay_take(&comm->ring, copy_bytes(comm, msg->bytes));
	struct anynet_wire_frame *header;
	uint8_t *payload, *end;

	if (!record)
		return false;
	header = (struct anynet_wire_frame *)(void *)((uint8_t *)record + REPLAY_RECORD_BYTES);
	payload = (uint8_t *)(header + 1);
	end = payload + msg->bytes;
	msg->record = record;
	msg->data = payload;
	msg->flags |= ANYNET_FLAG_TAIL;
	*header = send_header(comm, msg);
	header->length = (uint32_t)msg->bytes;
	if (msg->bytes)
		memcpy(payload, data, msg->bytes);
	if (anynet_unlikely(comm->base.checksum)) {
		uint32_t crc = crc32c(0, payload, msg->bytes);

		checksum_header(header, NULL);
		memcpy(end, &crc, sizeof(crc));
		end += ANYNET_CRC_BYTES;
	}
	*end = 0; /* the tail byte */
	return true;
}

static void learn_tag(struct send_comm *comm, uint32_t tag)
{
	if (!comm->tags.known) {
		comm->tags.known = true;
		comm->tags.first = tag;
	} else if (tag != comm->tags.first) {
		send_ask_all(comm); /* those that wait: later messages are matched behind them */
	}
}

/* One tag, IB device: must the message wait for its CTS in the CTS ring? It also waits if an earlier message does: the
 * receiver may match them in order. */
static bool must_wait(const struct send_comm *comm, const struct send_msg *msg)
{
	if (!comm_is_ib(&comm->base) || comm->tags.multi)
		return false;
	if (comm->waiting.head != SLOT_NONE)
		return true;
	return !(msg->record && stream_takes_frames(comm->base.streams[0])) && !send_cleared(comm, msg);
}

/* Several tags: must the message be announced by an RTS? A small one only if a queue pair would need a CTS for it, which
 * an empty one never does. */
static bool must_ask(const struct send_comm *comm, const struct send_msg *msg)
{
	if (!comm->tags.multi || (comm_is_ib(&comm->base) && !msg->bytes))
		return false;
	return !msg->record || (comm_is_ib(&comm->base) && !send_cleared(comm, msg));
}

static bool can_gather(const struct send_comm *comm)
{
	for (unsigned i = 0; i < comm->base.stream_count; i++)
		if (comm->base.streams[i] && comm->base.streams[i]->qp.fetches)
			return false;
	return true;
}

/* Sends the message from NCCL's buffer. A small one in GPU memory gets room for its header in the ring, if a NIC can
 * gather its frame from both. */
static void refer_to(struct send_comm *comm, struct send_msg *msg, const void *data,
		     struct anynet_mr *mr)
{
	msg->copied = false;
	msg->data = data;
	msg->mr = mr;
	msg->flags |= ANYNET_FLAG_ACK;
	if (msg->on_gpu && comm_is_ib(&comm->base) && msg->bytes <= comm->limits.eager &&
	    can_gather(comm))
		msg->record = replay_take(&comm->ring, HEADER_BYTES);
	mr_hold(&comm->base, mr);
}

static void start_message(struct send_comm *comm, struct send_msg *msg, const void *data,
			  size_t bytes, uint32_t tag, struct anynet_mr *mr)
{
	if (anynet_unlikely(!comm->tags.multi && (!comm->tags.known || tag != comm->tags.first)))
		learn_tag(comm, tag);
	msg->bytes = bytes;
	msg->given = 0;
	msg->seq = comm->next_seq;
	msg->tag = tag;
	msg->chunks.unwritten = msg->chunks.unsure = 0;
	msg->flags = comm->tags.multi ? ANYNET_FLAG_MULTI : 0;
	msg->acked = msg->tested = false;
	msg->record = msg->kept = NULL;
	msg->on_gpu = false;
	msg->copied = bytes <= comm->limits.eager;
	if (anynet_unlikely(mr && mr->gpu && bytes)) {
		comm_note_gpu(&comm->base, mr);
		msg->on_gpu = true;
		msg->copied = false;
	}
	atomic_store_explicit(&msg->req.done, false, memory_order_relaxed);
	if (msg->copied && copy_in(comm, msg, data))
		msg->mr = NULL;
	else
		refer_to(comm, msg, data, mr);
	comm->next_seq++;
	comm->base.counts.pending++;
	comm->unconfirmed++;
	comm->refused = false;
	if (anynet_unlikely(must_wait(comm, msg)))
		send_wait_for_cts(comm, msg);
	else
		send_queue(comm, msg, must_ask(comm, msg) ? SEND_ASKING : SEND_QUEUED);
}

/* Must a small message be copied from GPU memory first? Without room in the ring it goes like a large one. */
static bool must_fetch(const struct send_comm *comm, const struct anynet_send *send)
{
	return anynet_unlikely(send->mr && send->mr->gpu && send->bytes &&
			       send->bytes <= comm->limits.eager) &&
	       !can_gather(comm) && replay_has_room(&comm->ring, copy_bytes(comm, send->bytes));
}

/* Copies a small message from GPU memory to comm->fetched because an adapter cannot gather it. It is then sent like host
 * memory. 0 or -errno. */
static ANYNET_COLD int fetch_small(struct send_comm *comm, const struct anynet_send *send)
{
	comm_note_gpu(&comm->base, send->mr);
	if (!comm->fetched)
		comm->fetched = malloc(IB_EAGER_BYTES);
	if (!comm->fetched)
		return -ENOMEM;
	if (gpu_fetch(send->mr->gpu, comm->fetched, send->data, send->bytes))
		return comm_note_gpu_fault(&comm->base, NULL, send->mr->gpu);
	return 0;
}

/* Queue pairs send small messages from the ring, and others from registered memory. If the ring is full and there are
 * several tags, what fills it may wait for receives of other tags: a small message then goes like a large one. 0, or
 * -errno as for send_post. */
static int check_for_qp(const struct send_comm *comm, const struct anynet_send *send)
{
	const struct send_tags *tags = &comm->tags;

	if (send->bytes <= comm->limits.eager) {
		if (anynet_likely(replay_has_room(&comm->ring, copy_bytes(comm, send->bytes))))
			return 0;
		if (!tags->multi && (!tags->known || (uint32_t)send->tag == tags->first))
			return -EAGAIN;
	}
	return send->mr || !send->bytes ? 0 : -EADDRNOTAVAIL;
}

/* The slot for the next message; NULL = none is free. */
static struct send_msg *next_slot(const struct send_comm *comm)
{
	if (anynet_likely(comm->free_head != SLOT_NONE))
		return &comm->msgs[comm->free_head];
	if (!send_slots_in_turn(comm))
		return comm->fresh < ANYNET_SENDS ? &comm->msgs[comm->fresh] : NULL;
	for (unsigned i = 0; i < ANYNET_SENDS; i++) {
		struct send_msg *msg = &comm->msgs[(comm->turn + i) % ANYNET_SENDS];

		if (msg->state == SEND_FREE)
			return msg;
	}
	return NULL;
}

bool send_has_room(struct anynet_comm *base, size_t bytes)
{
	struct send_comm *comm = to_send(base);

	return next_slot(comm) && (bytes > comm->limits.eager ||
				   replay_has_room(&comm->ring, copy_bytes(comm, bytes)));
}

static void take_slot(struct send_comm *comm, struct send_msg *msg)
{
	if (anynet_likely(comm->free_head != SLOT_NONE)) {
		comm->free_head = msg->next;
		return;
	}
	comm->turn = (uint16_t)(msg - comm->msgs + 1);
	comm->fresh = (uint16_t)anynet_max(comm->fresh, comm->turn);
	msg->req.comm = &comm->base;
}

int send_post(struct anynet_comm *base, const struct anynet_send *send, struct anynet_request **req)
{
	struct send_comm *comm = to_send(base);
	struct anynet_mr *mr = send->mr;
	const void *data = send->data;
	size_t bytes = send->bytes;
	struct send_msg *msg = next_slot(comm);
	int ret;

	if (anynet_unlikely(!msg)) {
		comm->refused = true;
		return -EAGAIN;
	}
	if (comm_is_ib(base)) {
		ret = check_for_qp(comm, send);
		comm->refused |= ret == -EAGAIN;
		if (anynet_unlikely(ret))
			return ret;
		if (must_fetch(comm, send)) {
			ret = fetch_small(comm, send);
			if (ret)
				return ret;
			data = comm->fetched;
			mr = NULL;
		}
	}
	take_slot(comm, msg);
	start_message(comm, msg, data, bytes, (uint32_t)send->tag, mr);
	msg->event = profile_start(base, send->phandle, bytes);
	*req = &msg->req;
	return comm->outstanding++ == 0;
}

void send_report(struct anynet_request *req, int *sizes)
{
	struct send_comm *comm = to_send(req->comm);
	struct send_msg *msg = (struct send_msg *)req;

	profile_stop(msg->event);
	if (sizes)
		sizes[0] = (int)msg->bytes;
	msg->tested = true;
	send_free_if_over(comm, msg);
	comm->outstanding--;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of messages that have come: they are put in place, in the posted buffer or in an unexpected message, and
 * complete messages and receives. */
#include <stdlib.h>

#include "memory/copy.h"
#include "message/recv_internal.h"

size_t recv_unexpected_cost(size_t bytes)
{
	return bytes + 128;
}

void recv_unexpected_free(struct recv_comm *comm, struct unexpected *unexpected)
{
	if (unexpected->data)
		comm->unexpected.bytes -= recv_unexpected_cost(unexpected->size);
	free(unexpected->data);
	free(unexpected);
}

void recv_unexpected_free_all(struct recv_comm *comm)
{
	/* Those that were matched before all their bytes had come are not in the list. */
	for (int i = 0; comm->unexpected.bytes && i < ANYNET_SENDS; i++)
		if (comm->msgs[i].unexpected && comm->msgs[i].sub)
			recv_unexpected_free(comm, comm->msgs[i].unexpected);
	while (comm->unexpected.first) {
		struct unexpected *next = comm->unexpected.first->next;

		recv_unexpected_free(comm, comm->unexpected.first);
		comm->unexpected.first = next;
	}
}

static void fill_sub(struct recv_comm *comm, struct recv_sub *sub, size_t size)
{
	struct recv_req *req = sub->owner;

	sub->size = size;
	mr_drop(&comm->base, sub->mr);
	sub->mr = NULL;
	if (--req->pending)
		return;
	comm->base.counts.pending--;
	atomic_store_explicit(&req->req.done, true, memory_order_release);
}

/* Copies from the plugin's memory to `to`: in the buffer, or in the plugin's memory if `sub` is NULL. A failed copy to
 * GPU memory is noted as a fault. */
static inline void copy_to(struct recv_comm *comm, const struct recv_sub *sub, uint8_t *to,
			   const uint8_t *from, size_t bytes)
{
	if (anynet_likely(!sub || !sub->on_gpu))
		copy_ascending(to, from, bytes);
	else if (bytes && gpu_put(sub->mr->gpu, to, from, bytes, sub->polled))
		comm_note_gpu_fault(&comm->base, NULL, sub->mr->gpu);
}

void recv_deliver(struct recv_comm *comm, struct unexpected *unexpected, struct recv_sub *sub)
{
	copy_to(comm, sub, sub->data, unexpected->data, unexpected->size);
	fill_sub(comm, sub, unexpected->size);
	recv_unexpected_free(comm, unexpected);
	comm_unpark(&comm->base);
}

/* A complete message is to be acknowledged: at once if its sender waits for that or if it comes late, else when such messages
 * fill a quarter of the slots or of the sender's ring. One that queue pairs alone have brought needs no ACK. */
static void owe_ack(struct recv_comm *comm, const struct recv_msg *msg)
{
	unsigned slot = (unsigned)(msg - comm->msgs);
	bool late = (int32_t)(msg->seq - comm->seen.completed) < 0;
	struct recv_owed *owed = &comm->owed;

	if (anynet_likely(!late))
		comm->seen.completed = msg->seq + 1;
	if (msg->unsure) {
		owed->ack_bits[slot / 64] |= 1ull << slot % 64;
		owed->complete++;
		/* The sender's ring may be full of acknowledged messages that only this late one holds up. */
		owed->ack_prompt |= msg->wants_ack || late;
	} else if (anynet_likely(!owed->complete)) {
		return;
	}
	/* Includes a message that needs no ACK: in the sender's ring it lies behind those that do. */
	owed->lazy_bytes += (uint32_t)(sizeof(struct anynet_wire_frame) +
				       anynet_min(msg->size, owed->replay_bytes));
	owed->ack |= owed->ack_prompt || owed->complete >= ANYNET_SENDS / 4 ||
		     owed->lazy_bytes >= owed->replay_bytes / 4;
}

static void complete_message(struct recv_comm *comm, struct recv_msg *msg)
{
	if (msg->sub && msg->unexpected)
		recv_deliver(comm, msg->unexpected, msg->sub);
	else if (msg->sub)
		fill_sub(comm, msg->sub, msg->size);
	else
		msg->unexpected->msg = NULL; /* stays in the list until a buffer is posted */
	msg->sub = NULL;
	msg->unexpected = NULL;
	msg->state = RECV_UNSEEN;
	if (anynet_unlikely(comm->seen.slot_awaited)) {
		comm->seen.slot_awaited = false;
		comm_unpark(&comm->base);
	}
	recv_forget_told(msg); /* its CTS; now the ACK is due */
	owe_ack(comm, msg);
}

bool recv_is_on_gpu(const struct recv_msg *msg)
{
	return !msg->unexpected && msg->sub && msg->sub->on_gpu;
}

bool recv_is_polled(const struct recv_msg *msg)
{
	return msg->sub && msg->sub->polled;
}

void recv_put(struct recv_comm *comm, const struct recv_msg *msg, uint8_t *to, const uint8_t *from,
	      size_t bytes)
{
	copy_to(comm, recv_is_on_gpu(msg) ? msg->sub : NULL, to, from, bytes);
}

void recv_placed(struct recv_comm *comm, struct recv_msg *msg, size_t bytes)
{
	msg->unsure = true;
	recv_arrived(comm, msg, bytes);
}

void recv_arrived(struct recv_comm *comm, struct recv_msg *msg, size_t bytes)
{
	comm->placed.bytes += bytes;
	comm->placed.chunks++;
	msg->received += bytes;
	if (msg->received == msg->size)
		complete_message(comm, msg);
}

void recv_unplace(struct recv_comm *comm, struct recv_msg *msg, size_t length, size_t part)
{
	msg->begun -= length - part;
	msg->begun_empty = false;
	msg->received += part;
	comm->placed.bytes += part;
	msg->unsure |= part;
}

void recv_settle(struct recv_comm *comm, struct recv_msg *msg)
{
	struct unexpected *unexpected = msg->unexpected;

	if (!unexpected)
		return;
	/* Not only the first msg->begun bytes: another stream may have brought chunks from behind. What has not come is
	 * zeros until it does. */
	copy_to(comm, msg->sub, msg->sub->data, unexpected->data, unexpected->size);
	msg->unexpected = NULL;
	recv_unexpected_free(comm, unexpected);
	comm_unpark(&comm->base);
}

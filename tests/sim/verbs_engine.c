/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces engine.c and wire.c of the fake libibverbs: its clock, its lock, and the transport between processes are the
 * simulator's. See verbs.h.
 */
#include "fakes/verbs/fake.h"
#include "sim/verbs.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PACKET_BYTES 40u       /* of a request without data, of an answer */
#define HEADER_BYTES 60u       /* of each packet */
#define PARTS        300000    /* per million long requests: arrive in two steps */
#define PART_LEAST   256u
#define READ_LATE    300000    /* per million requests: their data is read only when they arrive */
#define IS_PART      1         /* flag of a message: its request follows as a whole */

struct fake fake;

static bool locked;
static pid_t owner;

uint64_t now_ns(void)
{
	return sim_now;
}

/* The adapter is not a simulated thread, and works at any time. */
void fake_lock(void)
{
	if (!owner)
		owner = getpid();
	if (owner != getpid())
		sim_fail("a forked child calls libibverbs");
	if (!sim_self)
		return;
	sched_may_preempt();
	while (locked)
		sched_yield();
	locked = true;
}

void fake_unlock(void)
{
	if (sim_self)
		locked = false;
}

void fake_wait_acks(void)
{
	fake_unlock();
	sched_yield();
	fake_lock();
}

void fake_acked(void)
{
}

int engine_start(void)
{
	fake.slot = verbs_slot();
	return 0;
}

void engine_stop(void)
{
}

void engine_wake(void)
{
	verbs_wake();
}

uint64_t fake_verbs_turn(void);
uint64_t fake_verbs_turn(void)
{
	uint64_t sends = requester_timers(), receives = responder_timers();

	return sends < receives ? sends : receives;
}

/* --- transport --- */

/* A GID ends in the NIC's address. A LID consists of the NIC's network and the host in it. */
static uint32_t nic_of(const struct address *address)
{
	const uint8_t *raw = address->gid.raw + 12;

	if (!address->global)
		return 10u << 24 | (address->lid >> 8) << 16 | (address->lid & 0xff);
	return (uint32_t)raw[0] << 24 | (uint32_t)raw[1] << 16 | (uint32_t)raw[2] << 8 | raw[3];
}

static void send_message(struct verbs_label *label, const struct message *message, const struct span *payload)
{
	char *packet = malloc(sizeof(*message) + (size_t)message->bytes), *at = packet + sizeof(*message);

	if (!packet)
		abort();
	memcpy(packet, message, sizeof(*message));
	for (size_t left = (size_t)message->bytes; left; payload++) {
		size_t part = payload->bytes < left ? payload->bytes : left;

		if (part)
			memcpy(at, payload->at, part);
		at += part;
		left -= part;
	}
	label->bytes = PACKET_BYTES + message->bytes + HEADER_BYTES * (message->bytes / 1024 + 1);
	verbs_send(label, packet);
}

/* Memory may change at any time until the completion: half of the data arrives first, then all of it again. */
static bool comes_in_parts(const struct request *request)
{
	return request->length >= PART_LEAST && !request->torn && !request->ahead && !request->cut &&
	       request->opcode != IBV_WR_RDMA_READ && verbs_chance(PARTS);
}

bool wire_send(uint32_t slot, const struct request *request, const struct span *payload)
{
	struct message message = { .kind = MESSAGE_REQUEST };
	struct verbs_label label = { .source = nic_of(&request->from),
				     .target = nic_of(&request->to),
				     .slot = slot,
				     .flow = request->from_qpn << 4 ^ request->from_device };

	message.request = *request;
	if (request->opcode != IBV_WR_RDMA_READ)
		message.bytes = request->length;
	if (comes_in_parts(request)) {
		message.request.cut = label.is_part = true;
		message.ret = IS_PART;
		send_message(&label, &message, payload);
		message.request.cut = false;
		message.ret = 0;
	}
	label.is_part = request->torn || request->ahead;
	send_message(&label, &message, payload);
	return true;
}

static void answer(const struct request *request, const struct reply *reply)
{
	struct verbs_label label = { .source = nic_of(&request->to),
				     .target = nic_of(&request->from),
				     .slot = request->from_qpn >> SLOT_SHIFT,
				     .flow = request->from_qpn << 4 ^ request->from_device,
				     .is_reply = true };
	struct message message = { .kind = MESSAGE_REPLY, .reply = *reply };
	struct span data = { .bytes = 0 };

	if (reply->outcome == OUT_ACK)
		message.bytes = reply->length;
	memcpy(&data.at, &reply->data, sizeof(data.at)); /* only read from */
	data.bytes = (size_t)message.bytes;
	send_message(&label, &message, &data);
}

static void on_request(const struct message *in, const char *data)
{
	struct span payload = { .bytes = (size_t)in->bytes };
	struct reply reply = { .outcome = OUT_LOST };

	memcpy(&payload.at, &data, sizeof(payload.at)); /* only read from */
	responder_serve(&in->request, &payload, &reply);
	if (reply.outcome == OUT_PENDING || (in->ret == IS_PART && reply.outcome != OUT_NAK))
		return;
	answer(&in->request, &reply);
}

static void on_reply(struct reply reply, const char *data)
{
	reply.data = data;
	qp_reply(&reply);
}

/* Runs in the process that waits for the answer. */
static void on_loss(const struct message *in)
{
	struct reply reply = in->reply;

	if (in->kind == MESSAGE_REQUEST)
		reply = (struct reply){ .psn = in->request.psn,
					.to_device = in->request.from_device,
					.to_qpn = in->request.from_qpn,
					.attempt = in->request.attempt };
	reply.outcome = OUT_LOST;
	on_reply(reply, NULL);
}

static void read_wqe(const struct fake_qp *qp, const struct fake_wqe *wqe, char *to)
{
	struct span spans[SGE_MAX];

	if (wqe->flags & IBV_SEND_INLINE || !spans_resolve(wqe->sges, wqe->sge_count, qp->qp.pd, 0, spans))
		return;
	for (int i = 0; i < wqe->sge_count; i++) {
		if (spans[i].bytes)
			memcpy(to, spans[i].at, spans[i].bytes);
		to += spans[i].bytes;
	}
}

/* Until the answer has arrived the adapter may read the memory again, to retransmit. Here it sometimes reads it that
 * late. */
void fake_verbs_read(void *packet);
void fake_verbs_read(void *packet)
{
	const struct message *message = packet;
	struct fake_qp *qp;

	if (message->kind != MESSAGE_REQUEST || !message->bytes || !verbs_chance(READ_LATE))
		return;
	LIST_FOREACH(qp, &fake.qps, next)
	{
		if (qp->qp.qp_num != message->request.from_qpn || qp->state != IBV_QPS_RTS ||
		    (uint32_t)(qp->device - fake.devices) != message->request.from_device)
			continue;
		for (uint32_t i = qp->sq_head; i != qp->sq_next; i++) {
			const struct fake_wqe *wqe = &qp->sq[i % qp->init.cap.max_send_wr];

			if (wqe->psn == message->request.psn && wqe->state == WQE_PENDING)
				read_wqe(qp, wqe, (char *)packet + sizeof(*message));
		}
	}
}

void fake_verbs_arrive(const void *packet, bool lost);
void fake_verbs_arrive(const void *packet, bool lost)
{
	const struct message *message = packet;
	const char *data = (const char *)packet + sizeof(*message);

	if (lost)
		on_loss(message);
	else if (message->kind == MESSAGE_REQUEST)
		on_request(message, data);
	else
		on_reply(message->reply, data);
}

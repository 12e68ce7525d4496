/* SPDX-License-Identifier: Apache-2.0 */
/* The receiving half of a QP: packets are checked according to the specification, applied, and answered. */
#include "fake.h"

#include <string.h>

static struct fake_port *port_of(const struct fake_qp *qp)
{
	return &qp->device->ports[qp->attr.port_num - 1];
}

/* The QP that it is for; NULL if none here accepts it, as when the port is down or has another GID now. */
static struct fake_qp *receiver(const struct request *request)
{
	struct address from;
	struct fake_qp *qp;

	LIST_FOREACH(qp, &fake.qps, next)
	{
		if (qp->qp.qp_num != request->to_qpn ||
		    (qp->state != IBV_QPS_RTR && qp->state != IBV_QPS_RTS) ||
		    !port_has(port_of(qp), &request->to))
			continue;
		from = qp_destination(qp);
		if (port_of(qp)->state != IBV_PORT_ACTIVE || qp->device->dead ||
		    qp->attr.dest_qp_num != request->from_qpn ||
		    memcmp(&from.gid, &request->from.gid, sizeof(from.gid)) ||
		    from.gid_type != request->from.gid_type ||
		    (!from.global && from.lid != request->from.lid))
			continue;
		return qp;
	}
	return NULL;
}

static bool wants_receive(const struct request *request)
{
	return request->opcode == IBV_WR_SEND || request->opcode == IBV_WR_SEND_WITH_IMM ||
	       request->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_send(const struct request *request)
{
	return request->opcode == IBV_WR_SEND || request->opcode == IBV_WR_SEND_WITH_IMM;
}

/* Completions come in order, so those behind a late one are late, too. */
static void hold(struct fake_qp *qp, const struct fake_cqe *cqe, uint64_t hold_ns)
{
	qp->held[qp->held_tail++ % qp->init.cap.max_recv_wr] =
		(struct held_cqe){ .cqe = *cqe,
				   .due_ns = hold_ns == NEVER ? NEVER : now_ns() + hold_ns };
	qp->deaf = qp->deaf || hold_ns == NEVER;
	engine_wake();
}

static const struct held_cqe *oldest_held(const struct fake_qp *qp)
{
	return qp->held_head == qp->held_tail ? NULL
					      : &qp->held[qp->held_head % qp->init.cap.max_recv_wr];
}

static void release(struct fake_qp *qp, uint64_t due_ns)
{
	const struct held_cqe *held;

	while ((held = oldest_held(qp)) && held->due_ns <= due_ns) {
		cq_push(qp->qp.recv_cq, &held->cqe);
		qp->held_head++;
	}
}

void responder_release(void)
{
	struct fake_qp *qp;

	LIST_FOREACH(qp, &fake.qps, next)
	release(qp, NEVER - 1);
}

uint64_t responder_timers(void)
{
	uint64_t now = now_ns(), next = NEVER;
	const struct held_cqe *held;
	struct fake_qp *qp;

	LIST_FOREACH(qp, &fake.qps, next)
	{
		release(qp, now);
		held = oldest_held(qp);
		if (held && held->due_ns < next)
			next = held->due_ns;
	}
	return next;
}

static void receive_done(struct fake_qp *qp, const struct request *request,
			 enum ibv_wc_status status)
{
	const struct fake_rqe *rqe = &qp->rq[qp->rq_head % qp->init.cap.max_recv_wr];
	struct fake_cqe cqe = {
		.wc = { .wr_id = rqe->id,
			.status = status,
			.opcode = (enum ibv_wc_opcode)0x5a,
			.byte_len = UINT32_MAX,
			.vendor_err = status ? 0xfa : 0,
			.qp_num = qp->qp.qp_num },
		.qp = qp,
		.recv_slots = 1,
	};
	uint64_t hold_ns = status ? 0 : fault_hold_ns(qp, request->length);

	if (!status) {
		cqe.wc.opcode = is_send(request) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM;
		cqe.wc.byte_len = (uint32_t)request->length;
		cqe.wc.src_qp = request->from_qpn;
		cqe.solicited = request->solicited;
		if (request->opcode != IBV_WR_SEND) {
			cqe.wc.wc_flags = IBV_WC_WITH_IMM;
			cqe.wc.imm_data = request->imm;
		}
	}
	qp->rq_head++;
	if (hold_ns || oldest_held(qp))
		hold(qp, &cqe, hold_ns);
	else
		cq_push(qp->qp.recv_cq, &cqe);
}

void responder_flush(struct fake_qp *qp)
{
	release(qp, NEVER);
	qp->deaf = false;
	while (qp->rq_head != qp->rq_tail)
		receive_done(qp, NULL, IBV_WC_WR_FLUSH_ERR);
}

static void refuse(struct reply *reply, enum ibv_wc_status status)
{
	reply->outcome = OUT_NAK;
	reply->status = status;
}

/* Fails a receive, and what arrived for it. */
static void fail_receive(struct fake_qp *qp, const struct request *request, struct reply *reply,
			 enum ibv_wc_status here, enum ibv_wc_status there)
{
	receive_done(qp, request, here);
	refuse(reply, there);
}

static const struct span *whole_or_half(const struct request *request, const struct span *payload,
					uint64_t *bytes)
{
	*bytes = request->cut ? request->length / 2 : request->length - request->garbled;
	return payload;
}

static void apply_send(struct fake_qp *qp, const struct request *request,
		       const struct span *payload, struct reply *reply)
{
	const struct fake_rqe *rqe = &qp->rq[qp->rq_head % qp->init.cap.max_recv_wr];
	struct span to[SGE_MAX];
	uint64_t bytes;

	payload = whole_or_half(request, payload, &bytes);
	if (!spans_resolve(rqe->sges, rqe->sge_count, qp->qp.pd, IBV_ACCESS_LOCAL_WRITE, to))
		fail_receive(qp, request, reply, IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR);
	else if (spans_bytes(to, rqe->sge_count) < request->length)
		fail_receive(qp, request, reply, IBV_WC_LOC_LEN_ERR, IBV_WC_REM_INV_REQ_ERR);
	else
		dma_copy(to, payload, bytes);
}

/* The memory of an RDMA operation. Without bytes no key is needed. */
static char *remote_memory(const struct fake_qp *qp, const struct request *request, unsigned access)
{
	const struct fake_mr *mr = mr_find(request->rkey, qp->qp.pd);

	if (!mr || mr->mr.rkey != request->rkey || !(mr->access & access) ||
	    !(qp->attr.qp_access_flags & access))
		return NULL;
	return mr_range(mr, request->remote_addr, request->length);
}

static void apply_write(struct fake_qp *qp, const struct request *request,
			const struct span *payload, struct reply *reply)
{
	struct span to = { .bytes = (size_t)request->length };
	uint64_t bytes;

	if (!request->length)
		return;
	to.at = remote_memory(qp, request, IBV_ACCESS_REMOTE_WRITE);
	if (!to.at) {
		refuse(reply, IBV_WC_REM_ACCESS_ERR);
		return;
	}
	payload = whole_or_half(request, payload, &bytes);
	if (request->ahead || qp->ahead != request->psn + 1)
		dma_copy(&to, payload, bytes);
}

/* It has overtaken earlier ones. Its errors are detected at its turn, and it is not written again. Only this end knows that
 * it has come: the simulated network may have lost it. */
static void place_ahead(struct fake_qp *qp, const struct request *request,
			const struct span *payload)
{
	struct reply unused;

	apply_write(qp, request, payload, &unused);
	qp->ahead = request->psn + 1;
}

static void show_end(const struct fake_qp *qp, const struct request *request,
		     const struct span *payload)
{
	char *to = remote_memory(qp, request, IBV_ACCESS_REMOTE_WRITE);

	if (to)
		dma_copy_end(to, payload, request->length);
}

static void apply_read(struct fake_qp *qp, const struct request *request, struct reply *reply)
{
	if (!qp->attr.max_dest_rd_atomic) {
		refuse(reply, IBV_WC_REM_INV_REQ_ERR);
		return;
	}
	if (!request->length)
		return;
	reply->data = remote_memory(qp, request, IBV_ACCESS_REMOTE_READ);
	reply->length = request->length;
	if (!reply->data) {
		refuse(reply, IBV_WC_REM_ACCESS_ERR);
		return;
	}
	if (gpu_refuses_read(reply->data)) {
		refuse(reply, IBV_WC_REM_OP_ERR);
		return;
	}
	gpu_read(&(struct span){ .at = (char *)(uintptr_t)reply->data, .bytes = 1 }, 1);
}

/* `reply` says ACK at this point. */
static void apply(struct fake_qp *qp, const struct request *request, const struct span *payload,
		  struct reply *reply)
{
	enum ibv_wc_status scripted;

	if (request->mtu > (uint32_t)qp->attr.path_mtu &&
	    request->length > 128u << qp->attr.path_mtu) {
		refuse(reply, IBV_WC_REM_INV_REQ_ERR);
		return;
	}
	if (wants_receive(request) && qp->rq_head == qp->rq_tail) {
		reply->outcome = OUT_RNR;
		reply->rnr_timer = qp->attr.min_rnr_timer;
		return;
	}
	scripted = wants_receive(request) ? fault_on_recv(qp, request->length) : IBV_WC_SUCCESS;
	if (scripted)
		fail_receive(qp, request, reply, scripted, IBV_WC_REM_OP_ERR);
	else if (request->opcode == IBV_WR_RDMA_READ)
		apply_read(qp, request, reply);
	else if (is_send(request))
		apply_send(qp, request, payload, reply);
	else
		apply_write(qp, request, payload, reply);
	if (request->cut)
		reply->outcome = OUT_LOST;
	if (reply->outcome == OUT_ACK && wants_receive(request))
		receive_done(qp, request, IBV_WC_SUCCESS);
}

static void advance(struct fake_qp *qp, uint32_t packets)
{
	qp->expected_psn = (qp->expected_psn + packets) & PSN_MASK;
	qp->received += packets;
	if (qp->received > PSN_MASK / 2)
		qp->received = PSN_MASK / 2;
}

static void on_first_packet(struct fake_qp *qp)
{
	if (!qp->heard && qp->state == IBV_QPS_RTR)
		event_qp(qp, IBV_EVENT_COMM_EST);
	qp->heard = true;
}

/* After a NAK the QP fails. One that is connected to itself is failed by its own requester. */
static void after_nak(struct fake_qp *qp, const struct request *request, const struct reply *reply)
{
	if (reply->status == IBV_WC_REM_ACCESS_ERR)
		event_qp(qp, IBV_EVENT_QP_ACCESS_ERR);
	if (request->from_qpn != request->to_qpn ||
	    memcmp(&request->from.gid, &request->to.gid, sizeof(request->to.gid)))
		qp_error(qp);
}

void responder_serve(const struct request *request, const struct span *payload, struct reply *reply)
{
	struct fake_qp *qp = receiver(request);
	uint32_t behind;

	reply->outcome = OUT_LOST;
	reply->psn = request->psn;
	reply->to_device = request->from_device;
	reply->to_qpn = request->from_qpn;
	reply->attempt = request->attempt;
	if (!qp || qp->deaf)
		return;
	if (request->ahead) {
		reply->outcome = OUT_PENDING;
		place_ahead(qp, request, payload);
		return;
	}
	behind = (qp->expected_psn - request->psn) & PSN_MASK;
	if (behind > qp->received) /* too early, or from before this QP's time */
		return;
	if (request->torn) {
		reply->outcome = OUT_PENDING;
		if (!behind)
			show_end(qp, request, payload);
		return;
	}
	reply->outcome = OUT_ACK;
	on_first_packet(qp);
	if (!behind) {
		apply(qp, request, payload, reply);
		if (reply->outcome == OUT_ACK)
			advance(qp, request->psn_count);
	} else if (request->opcode == IBV_WR_RDMA_READ) {
		apply_read(qp, request, reply); /* again */
	}
	if (request->mute || vanishes(qp->device, qp->attr.port_num, &request->from))
		reply->outcome = OUT_LOST;
	else if (reply->outcome == OUT_NAK)
		after_nak(qp, request, reply);
}

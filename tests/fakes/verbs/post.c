/* SPDX-License-Identifier: Apache-2.0 */
/* Work requests: from the call into the queues. */
#include "fake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PACKET_BYTES(mtu) (128u << (mtu))

static bool opcode_served(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
	       opcode == IBV_WR_RDMA_READ;
}

static uint64_t length_of(const struct ibv_sge *sges, int count)
{
	uint64_t bytes = 0;

	for (int i = 0; i < count; i++)
		bytes += sges[i].length;
	return bytes;
}

static int send_refusal(const struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	const struct ibv_qp_cap *cap = &qp->init.cap;
	int ret = fault_call("post_send", &qp->device->device);

	if (ret)
		return ret;
	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_ERR)
		return EINVAL;
	if (!opcode_served(wr->opcode) || wr->num_sge < 0 || wr->num_sge > (int)cap->max_send_sge)
		return EINVAL;
	if (wr->send_flags & IBV_SEND_INLINE &&
	    (wr->opcode == IBV_WR_RDMA_READ ||
	     length_of(wr->sg_list, wr->num_sge) > cap->max_inline_data))
		return EINVAL;
	return qp->sq_slots >= cap->max_send_wr ? ENOMEM : 0;
}

static void copy_inline(struct fake_wqe *wqe, const struct ibv_send_wr *wr)
{
	char *at = wqe->inlined;

	for (int i = 0; i < wr->num_sge; i++) {
		if (wr->sg_list[i].length)
			memcpy(at, (const void *)(uintptr_t)wr->sg_list[i].addr,
			       wr->sg_list[i].length);
		at += wr->sg_list[i].length;
	}
}

static void add_send(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	uint32_t at = qp->sq_tail % qp->init.cap.max_send_wr;
	uint32_t mtu = PACKET_BYTES(qp->attr.path_mtu);
	struct fake_wqe *wqe = &qp->sq[at];

	*wqe = (struct fake_wqe){
		.id = wr->wr_id,
		.opcode = wr->opcode,
		.flags = wr->send_flags,
		.imm = wr->imm_data,
		.sge_count = wr->num_sge,
		.length = length_of(wr->sg_list, wr->num_sge),
		.inlined = qp->inline_room + (size_t)at * (qp->init.cap.max_inline_data + 1),
	};
	if (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM) {
		wqe->remote_addr = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
	}
	if (qp->init.sq_sig_all)
		wqe->flags |= IBV_SEND_SIGNALED;
	if (wr->num_sge)
		memcpy(wqe->sges, wr->sg_list, (size_t)wr->num_sge * sizeof(*wqe->sges));
	if (qp->device->ignores_inline)
		wqe->flags &= ~(unsigned)IBV_SEND_INLINE;
	if (wqe->flags & IBV_SEND_INLINE)
		copy_inline(wqe, wr);
	wqe->psn = qp->psn;
	wqe->psn_count = wqe->length ? (uint32_t)((wqe->length + mtu - 1) / mtu) : 1;
	qp->psn = (qp->psn + wqe->psn_count) & PSN_MASK;
	qp->sq_tail++;
	qp->sq_slots++;
	fake.counts.sends++;
	fake.counts.bytes_sent[qp->device - fake.devices] += wqe->length;
}

static void ring(struct fake_qp *qp)
{
	if (qp->state == IBV_QPS_ERR) {
		requester_flush(qp);
	} else if (!fake.by_thread) {
		requester_run(qp);
	} else if (qp->wait == WAIT_NOTHING) {
		qp->wait = WAIT_TURN;
		qp->wake_ns = 1;
		engine_wake();
	}
}

int post_send(struct ibv_qp *ibv_qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_qp *qp = qp_of(ibv_qp);
	int ret = 0;

	fake_lock();
	fake.counts.send_calls++;
	for (; wr && !ret; wr = ret ? wr : wr->next) {
		ret = send_refusal(qp, wr);
		if (ret)
			*bad = wr;
		else
			add_send(qp, wr);
	}
	ring(qp);
	fake_unlock();
	return ret;
}

static int recv_refusal(const struct fake_qp *qp, const struct ibv_recv_wr *wr)
{
	const struct ibv_qp_cap *cap = &qp->init.cap;
	int ret = fault_call("post_recv", &qp->device->device);

	if (ret)
		return ret;
	if (qp->state == IBV_QPS_RESET || wr->num_sge < 0 || wr->num_sge > (int)cap->max_recv_sge)
		return EINVAL;
	return qp->rq_slots >= cap->max_recv_wr ? ENOMEM : 0;
}

static void add_recv(struct fake_qp *qp, const struct ibv_recv_wr *wr)
{
	struct fake_rqe *rqe = &qp->rq[qp->rq_tail % qp->init.cap.max_recv_wr];

	*rqe = (struct fake_rqe){ .id = wr->wr_id, .sge_count = wr->num_sge };
	if (wr->num_sge)
		memcpy(rqe->sges, wr->sg_list, (size_t)wr->num_sge * sizeof(*rqe->sges));
	qp->rq_tail++;
	qp->rq_slots++;
	fake.counts.recvs++;
}

int post_recv(struct ibv_qp *ibv_qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_qp *qp = qp_of(ibv_qp);
	int ret = 0;

	fake_lock();
	for (; wr && !ret; wr = ret ? wr : wr->next) {
		ret = recv_refusal(qp, wr);
		if (ret)
			*bad = wr;
		else
			add_recv(qp, wr);
	}
	if (qp->state == IBV_QPS_ERR)
		responder_flush(qp);
	fake_unlock();
	return ret;
}

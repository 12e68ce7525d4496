/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs and completion queues; see stub_verbs.h. The structs of libibverbs come first in those of the stub. */
#include <errno.h>

#include <nccl_net/util.h>

#include "stub_internal.h"

#define QPS_MAX     64
#define RECVS_MAX   64
#define SENDS_MAX   256
#define CQES_MAX    512
#define WRITTEN_MAX 4096

struct stub_qp;

struct stub_cqe {
	struct ibv_wc wc;
	struct stub_qp *qp; /* of a send: when it is polled … */
	uint32_t sends;     /* … this many have left the send queue */
};

struct stub_cq {
	struct ibv_cq cq;
	uint32_t room, head, tail;
	struct stub_cqe cqes[CQES_MAX];
};

struct stub_request {
	uint64_t wr_id;
	struct ibv_sge sge;
	bool signaled, is_inline;
};

struct stub_qp {
	struct ibv_qp qp;
	struct stub_cq *cq;
	struct ibv_qp_cap cap;
	bool hold_back;
	uint32_t recv_head, recv_tail;
	uint32_t send_gone, send_head, send_tail; /* left the queue, done, posted in total */
	struct stub_request recvs[RECVS_MAX], sends[SENDS_MAX];
	uint32_t held;
	struct stub_cqe late[RECVS_MAX];
	uint8_t written[WRITTEN_MAX]; /* at the peer, last of all */
};

static struct ibv_qp *all[QPS_MAX];
static unsigned count_of_all;

void (*stub_on_post)(const struct ibv_qp *qp, const struct ibv_send_wr *wr);
unsigned stub_refused_posts;
bool stub_never_flushes, stub_peer_lies;

struct ibv_qp *stub_qp(unsigned index)
{
	return index < count_of_all ? all[index] : NULL;
}

/* The adapter reads it: it has to exist and be registered. False: it does not, because of the peer. */
static bool read_memory(const struct stub_request *req)
{
	static uint8_t sink[65536];
	const uint8_t *from = (const uint8_t *)(uintptr_t)req->sge.addr;
	bool there = req->is_inline ||
		     stub_is_registered(req->sge.lkey, req->sge.addr, req->sge.length, 0);

	must(there || stub_peer_lies);
	for (uint32_t n, at = 0; there && !req->is_inline && at < req->sge.length; at += n) {
		n = (uint32_t)anynet_min(req->sge.length - at, (uint32_t)sizeof(sink));
		memcpy(sink, from + at, n);
	}
	return there;
}

/* --- completions --- */

static struct ibv_cq *create_cq(struct ibv_context *context, int entries, void *user,
				struct ibv_comp_channel *channel, int vector)
{
	struct stub_cq *cq = stub_make(sizeof(*cq));

	(void)channel;
	(void)vector;
	must(entries <= CQES_MAX);
	cq->room = (uint32_t)entries;
	cq->cq.context = context;
	cq->cq.cq_context = user;
	return &cq->cq;
}

static int destroy_cq(struct ibv_cq *cq)
{
	return stub_unmake(cq);
}

static void put_cqe(struct stub_cq *cq, const struct stub_cqe *cqe)
{
	must(cq->tail - cq->head < cq->room);
	cq->cqes[cq->tail++ % CQES_MAX] = *cqe;
}

static int poll_cq(struct ibv_cq *base, int count, struct ibv_wc *wcs)
{
	struct stub_cq *cq = (struct stub_cq *)base;
	int n = 0;

	for (; n < count && cq->head != cq->tail; n++) {
		const struct stub_cqe *cqe = &cq->cqes[cq->head++ % CQES_MAX];

		wcs[n] = cqe->wc;
		if (cqe->qp)
			cqe->qp->send_gone = cqe->sends;
	}
	return n;
}

static void receive_done(struct stub_qp *qp, const struct ibv_wc *wc)
{
	struct stub_cqe cqe = { .wc = *wc };

	cqe.wc.wr_id = qp->recvs[qp->recv_head++ % RECVS_MAX].wr_id;
	cqe.wc.qp_num = qp->qp.qp_num;
	if (qp->hold_back)
		qp->late[qp->held++] = cqe;
	else
		put_cqe(qp->cq, &cqe);
}

/* Returns its status. */
static enum ibv_wc_status send_done(struct stub_qp *qp, enum ibv_wc_status status)
{
	const struct stub_request *req = &qp->sends[qp->send_head++ % SENDS_MAX];
	struct stub_cqe cqe = {
		.wc = { .wr_id = req->wr_id, .status = status, .qp_num = qp->qp.qp_num },
		.qp = qp,
		.sends = qp->send_head,
	};

	if (!read_memory(req) && !status)
		cqe.wc.status = IBV_WC_LOC_PROT_ERR;
	if (req->signaled || cqe.wc.status)
		put_cqe(qp->cq, &cqe);
	return cqe.wc.status;
}

static bool is_connected(const struct stub_qp *qp)
{
	return qp->qp.state == IBV_QPS_RTR || qp->qp.state == IBV_QPS_RTS;
}

/* What has come is reported, then all posted requests are flushed. */
static void flush(struct stub_qp *qp)
{
	const struct ibv_wc wc = { .status = IBV_WC_WR_FLUSH_ERR };

	qp->qp.state = IBV_QPS_ERR;
	for (uint32_t i = 0; i < qp->held; i++)
		put_cqe(qp->cq, &qp->late[i]);
	qp->held = 0;
	qp->hold_back = false;
	while (qp->send_head != qp->send_tail)
		send_done(qp, IBV_WC_WR_FLUSH_ERR);
	while (!stub_never_flushes && qp->recv_head != qp->recv_tail)
		receive_done(qp, &wc);
}

/* --- queue pairs --- */

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	static uint32_t next_number = 0x11;
	struct stub_qp *qp;

	if (count_of_all == QPS_MAX) { /* as a device at its limit */
		errno = ENOMEM;
		return NULL;
	}
	qp = stub_make(sizeof(*qp));
	must(attr->cap.max_send_wr <= SENDS_MAX && attr->cap.max_recv_wr <= RECVS_MAX);
	all[count_of_all++] = &qp->qp;
	qp->cap = attr->cap;
	qp->cq = (struct stub_cq *)attr->send_cq;
	qp->qp = (struct ibv_qp){ .context = pd->context,
				  .qp_context = attr->qp_context,
				  .pd = pd,
				  .send_cq = attr->send_cq,
				  .recv_cq = attr->recv_cq,
				  .qp_num = next_number++ & 0xffffff,
				  .state = IBV_QPS_RESET,
				  .qp_type = attr->qp_type };
	return &qp->qp;
}

static int destroy_qp(struct ibv_qp *base)
{
	struct stub_qp *qp = (struct stub_qp *)base;

	unsigned i = 0;

	stub_forget_events_of(base);
	while (all[i] != base)
		i++;
	count_of_all--;
	memmove(&all[i], &all[i + 1], (count_of_all - i) * sizeof(all[0]));
	qp->cq->head = qp->cq->tail; /* not used by others */
	return stub_unmake(qp);
}

static int modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
	struct stub_qp *qp = (struct stub_qp *)base;

	must(mask & IBV_QP_STATE);
	if (attr->qp_state == IBV_QPS_ERR) {
		flush(qp);
	} else if (attr->qp_state == IBV_QPS_RESET) {
		qp->cq->head = qp->cq->tail;
		qp->recv_head = qp->recv_tail;
		qp->send_gone = qp->send_head = qp->send_tail;
		qp->held = 0;
	}
	qp->qp.state = attr->qp_state;
	return 0;
}

static int query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		    struct ibv_qp_init_attr *init)
{
	(void)mask;
	(void)init;
	attr->qp_state = qp->state;
	return 0;
}

static bool refuse_post(void)
{
	if (!stub_refused_posts)
		return false;
	stub_refused_posts--;
	return true;
}

static int post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct stub_qp *qp = (struct stub_qp *)base;

	(void)bad;
	if (refuse_post())
		return ENOMEM;
	must(!wr->next && wr->num_sge == 1);
	must(qp->recv_tail - qp->recv_head < qp->cap.max_recv_wr);
	must(stub_is_registered(wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length,
				IBV_ACCESS_LOCAL_WRITE));
	qp->recvs[qp->recv_tail++ % RECVS_MAX] =
		(struct stub_request){ .wr_id = wr->wr_id, .sge = *wr->sg_list };
	if (qp->qp.state == IBV_QPS_ERR)
		flush(qp);
	return 0;
}

static void post_one(struct stub_qp *qp, const struct ibv_send_wr *wr)
{
	struct stub_request *req = &qp->sends[qp->send_tail++ % SENDS_MAX];

	must(wr->num_sge == 1 && qp->send_tail - qp->send_gone <= qp->cap.max_send_wr);
	*req = (struct stub_request){
		.wr_id = wr->wr_id,
		.sge = *wr->sg_list,
		.signaled = wr->send_flags & IBV_SEND_SIGNALED,
		.is_inline = wr->send_flags & IBV_SEND_INLINE,
	};
	must(!req->is_inline || req->sge.length <= qp->cap.max_inline_data);
	must(req->is_inline ||
	     stub_is_registered(req->sge.lkey, req->sge.addr, req->sge.length,
				wr->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE : 0));
	if (wr->opcode == IBV_WR_RDMA_READ)
		memcpy((void *)(uintptr_t)req->sge.addr, qp->written,
		       anynet_min(req->sge.length, (uint32_t)WRITTEN_MAX));
	else if (wr->opcode == IBV_WR_RDMA_WRITE)
		memcpy(qp->written, (const void *)(uintptr_t)req->sge.addr,
		       anynet_min(req->sge.length, (uint32_t)WRITTEN_MAX));
	if (stub_on_post)
		stub_on_post(&qp->qp, wr);
}

static int post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct stub_qp *qp = (struct stub_qp *)base;

	(void)bad;
	must(qp->qp.state == IBV_QPS_RTS || qp->qp.state == IBV_QPS_ERR);
	if (refuse_post())
		return ENOMEM;
	for (; wr; wr = wr->next)
		post_one(qp, wr);
	if (qp->qp.state == IBV_QPS_ERR)
		flush(qp);
	return 0;
}

void stub_qp_functions(struct verbs *verbs, struct ibv_context *context)
{
	verbs->create_cq = create_cq;
	verbs->destroy_cq = destroy_cq;
	verbs->create_qp = create_qp;
	verbs->modify_qp = modify_qp;
	verbs->query_qp = query_qp;
	verbs->destroy_qp = destroy_qp;
	context->ops.poll_cq = poll_cq;
	context->ops.post_send = post_send;
	context->ops.post_recv = post_recv;
}

/* --- the peer's NIC --- */

/* The next posted receive; NULL: nothing can arrive. */
static const struct stub_request *next_receive(const struct stub_qp *qp)
{
	if (!is_connected(qp) || qp->recv_head == qp->recv_tail)
		return NULL;
	return &qp->recvs[qp->recv_head % RECVS_MAX];
}

bool stub_send(struct ibv_qp *base, const void *bytes, uint32_t count, const uint32_t *imm)
{
	struct stub_qp *qp = (struct stub_qp *)base;
	const struct stub_request *recv = next_receive(qp);
	struct ibv_wc wc = { .opcode = IBV_WC_RECV, .byte_len = count };

	if (!recv)
		return false;
	must(count <= recv->sge.length);
	must(stub_is_registered(recv->sge.lkey, recv->sge.addr, recv->sge.length,
				IBV_ACCESS_LOCAL_WRITE));
	if (count)
		memcpy((void *)(uintptr_t)recv->sge.addr, bytes, count);
	if (imm) {
		wc.wc_flags = IBV_WC_WITH_IMM;
		wc.imm_data = *imm;
	}
	receive_done(qp, &wc);
	return true;
}

bool stub_write_imm(struct ibv_qp *base, uint32_t imm, uint32_t written)
{
	struct stub_qp *qp = (struct stub_qp *)base;
	const struct ibv_wc wc = {
		.opcode = IBV_WC_RECV_RDMA_WITH_IMM,
		.byte_len = written,
		.wc_flags = IBV_WC_WITH_IMM,
		.imm_data = imm,
	};

	if (!next_receive(qp))
		return false;
	receive_done(qp, &wc);
	return true;
}

bool stub_write(struct ibv_qp *base, uint64_t addr, uint32_t rkey, const void *bytes,
		uint32_t count)
{
	struct stub_qp *qp = (struct stub_qp *)base;

	if (!is_connected(qp))
		return false;
	if (!stub_is_registered(rkey, addr, count, IBV_ACCESS_REMOTE_WRITE)) {
		flush(qp);
		stub_event(base, IBV_EVENT_QP_ACCESS_ERR);
		return false;
	}
	if (count)
		memcpy((void *)(uintptr_t)addr, bytes, count);
	return true;
}

void stub_complete(struct ibv_qp *base, unsigned count, enum ibv_wc_status status)
{
	struct stub_qp *qp = (struct stub_qp *)base;

	for (; count && qp->qp.state == IBV_QPS_RTS && qp->send_head != qp->send_tail; count--) {
		if (send_done(qp, status))
			flush(qp);
	}
}

void stub_hold_back(struct ibv_qp *base)
{
	if (is_connected((struct stub_qp *)base))
		((struct stub_qp *)base)->hold_back = true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs of the fake libibverbs: just enough for one that is connected to itself and writes to
 * itself, which they do at once. What an adapter would refuse they refuse too. Its steps fail as
 * FAKE_VERBS says.
 */
#include "fake_verbs.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define QP_NUMBER 0x17
#define LKEY      0x100
#define RKEY      0x200
#define WCS_MAX   8

#undef ibv_reg_mr /* the header has macros of these names */

struct fake_cq {
	struct ibv_cq cq; /* first */
	struct ibv_wc wcs[WCS_MAX];
	int head, tail;
};

struct fake_qp {
	struct ibv_qp qp; /* first */
	struct fake_cq *cq;
	uint8_t port;
	int receives;
	uint32_t inline_bytes;
	struct ibv_sge second; /* of the receive for the SEND */
	struct ibv_qp_attr to_receive;
};

static int objects, proofs;
static struct ibv_mr *registered; /* the last one */

int fake_verbs_object_count(void)
{
	return objects;
}

int fake_verbs_proof_count(void)
{
	return proofs;
}

/* An object of `bytes`, or NULL because the step is to fail. */
static void *make(struct ibv_context *context, enum fake_step step, size_t bytes)
{
	void *object;

	errno = fake_of(context)->errors[step];
	if (errno)
		return NULL;
	object = calloc(1, bytes);
	objects += !!object;
	return object;
}

static int unmake(void *object)
{
	free(object);
	objects--;
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = make(context, FAKE_PD, sizeof(*pd));

	if (pd)
		pd->context = context;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return unmake(pd);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	struct ibv_mr *mr = make(pd->context, FAKE_MR, sizeof(*mr));

	if (!mr)
		return NULL;
	if (!(access & IBV_ACCESS_LOCAL_WRITE) || !(access & IBV_ACCESS_REMOTE_WRITE))
		abort();
	*mr = (struct ibv_mr){ .context = pd->context,
			       .pd = pd,
			       .addr = addr,
			       .length = bytes,
			       .lkey = LKEY,
			       .rkey = RKEY };
	registered = mr;
	return mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	registered = NULL;
	return unmake(mr);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *user,
			     struct ibv_comp_channel *channel, int vector)
{
	struct fake_cq *cq = make(context, FAKE_CQ, sizeof(*cq));

	(void)vector;
	if (!cq)
		return NULL;
	cq->cq = (struct ibv_cq){
		.context = context, .channel = channel, .cq_context = user, .cqe = entries
	};
	return &cq->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	return unmake(cq);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct fake_qp *qp = make(pd->context, FAKE_QP, sizeof(*qp));

	if (!qp)
		return NULL;
	if (attr->qp_type != IBV_QPT_RC || attr->send_cq != attr->recv_cq)
		abort();
	qp->qp.context = pd->context;
	qp->qp.pd = pd;
	qp->qp.qp_num = QP_NUMBER;
	qp->qp.state = IBV_QPS_RESET;
	qp->cq = (struct fake_cq *)(void *)attr->send_cq;
	if (fake_of(pd->context)->clamps && attr->cap.max_inline_data > 32)
		attr->cap.max_inline_data = 32;
	qp->inline_bytes = attr->cap.max_inline_data;
	return &qp->qp;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	return unmake(qp);
}

static bool has_gid(const struct fake_port *port, const struct ibv_global_route *grh)
{
	for (int i = 0; i < port->gid_count; i++)
		if (port->gids[i].gid_index == grh->sgid_index)
			return !memcmp(&port->gids[i].gid, &grh->dgid, sizeof(grh->dgid));
	return false;
}

/* Does it lead to the port itself? */
static bool is_own_address(const struct fake_qp *qp, const struct ibv_ah_attr *ah)
{
	const struct fake_port *port = &fake_of(qp->qp.context)->ports[qp->port - 1];

	if (ah->port_num != qp->port)
		return false;
	if (port->layer == IBV_LINK_LAYER_INFINIBAND)
		return ah->dlid == port->lid;
	return ah->is_global && ah->grh.hop_limit && has_gid(port, &ah->grh);
}

static int to_rtr(struct fake_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const int needed = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

	if (qp->qp.state != IBV_QPS_INIT || mask != needed || attr->path_mtu != IBV_MTU_1024 ||
	    attr->dest_qp_num != qp->qp.qp_num || !is_own_address(qp, &attr->ah_attr))
		return EINVAL;
	qp->to_receive = *attr;
	return 0;
}

static int to_rts(const struct fake_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const int needed = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

	/* 7 retries are for ever on soft-RoCE */
	if (qp->qp.state != IBV_QPS_RTR || mask != needed || !attr->timeout ||
	    attr->retry_cnt > 6 || attr->sq_psn != qp->to_receive.rq_psn)
		return EINVAL;
	return 0;
}

static int to_init(struct fake_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const int needed = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

	if (qp->qp.state != IBV_QPS_RESET || mask != needed || !attr->port_num ||
	    attr->port_num > fake_of(qp->qp.context)->port_count)
		return EINVAL;
	qp->port = attr->port_num;
	return 0;
}

int ibv_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *qp = (struct fake_qp *)(void *)base;
	const int *errors = fake_of(base->context)->errors;
	int error = EINVAL;

	if (attr->qp_state == IBV_QPS_INIT)
		error = errors[FAKE_INIT] ? errors[FAKE_INIT] : to_init(qp, attr, mask);
	else if (attr->qp_state == IBV_QPS_RTR)
		error = errors[FAKE_RTR] ? errors[FAKE_RTR] : to_rtr(qp, attr, mask);
	else if (attr->qp_state == IBV_QPS_RTS)
		error = errors[FAKE_RTS] ? errors[FAKE_RTS] : to_rts(qp, attr, mask);
	if (!error)
		base->state = attr->qp_state;
	return error;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	(void)qp;
	(void)attr;
	(void)mask;
	(void)init;
	abort();
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	(void)context;
	(void)event;
	abort();
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
	abort();
}

static int post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_qp *qp = (struct fake_qp *)(void *)base;

	*bad = wr;
	if (fake_of(base->context)->errors[FAKE_RECV])
		return fake_of(base->context)->errors[FAKE_RECV];
	for (; wr; wr = wr->next) {
		*bad = wr;
		if (base->state == IBV_QPS_RESET)
			return EINVAL;
		if (wr->num_sge)
			qp->second = wr->sg_list[0];
		qp->receives++;
	}
	return 0;
}

static void complete(struct fake_qp *qp, const struct ibv_wc *wc)
{
	struct ibv_wc *next = &qp->cq->wcs[qp->cq->tail % WCS_MAX];

	if (fake_of(qp->qp.context)->silent)
		return;
	qp->cq->tail++;
	*next = *wc;
	next->vendor_err = wc->status ? 0x81 : 0;
	next->qp_num = qp->qp.qp_num;
}

static bool is_registered(uint64_t addr, uint32_t bytes)
{
	uint64_t start = registered ? (uintptr_t)registered->addr : 0;

	return registered && addr >= start && addr + bytes <= start + registered->length;
}

static int take_write(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	const struct fake_device *fake = fake_of(qp->qp.context);
	const struct ibv_sge *sge = wr->sg_list;
	uint8_t *to = (uint8_t *)(uintptr_t)wr->wr.rdma.remote_addr;
	struct ibv_wc wc = { .wr_id = wr->wr_id,
			     .status = (enum ibv_wc_status)fake->status,
			     .opcode = IBV_WC_RDMA_WRITE };

	if (sge->lkey != LKEY || wr->wr.rdma.rkey != RKEY ||
	    !is_registered(sge->addr, sge->length) || !is_registered((uintptr_t)to, sge->length))
		return EINVAL;
	proofs++;
	if (!fake->status)
		memcpy(to, (const void *)(uintptr_t)sge->addr, sge->length);
	if (fake->garbles)
		to[0] ^= 1;
	complete(qp, &wc);
	wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
	wc.imm_data = wr->imm_data;
	if (!fake->status)
		complete(qp, &wc);
	return 0;
}

/* As a driver does that does not know the flag for inline data: it looks for the bytes in registered memory. */
static int take_send(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	const struct fake_device *fake = fake_of(qp->qp.context);
	const struct ibv_sge *sge = wr->sg_list;
	bool inlined = wr->send_flags & IBV_SEND_INLINE;
	struct ibv_wc wc = { .wr_id = wr->wr_id, .opcode = IBV_WC_SEND };

	if (inlined ? sge->length > qp->inline_bytes : sge->lkey != LKEY)
		return EINVAL;
	if (inlined && fake->ignores_inline)
		wc.status = IBV_WC_LOC_PROT_ERR;
	else if (!inlined || !fake->garbles_inline)
		memcpy((void *)(uintptr_t)qp->second.addr, (const void *)(uintptr_t)sge->addr,
		       sge->length);
	complete(qp, &wc);
	wc.opcode = IBV_WC_RECV;
	if (!wc.status)
		complete(qp, &wc);
	return 0;
}

static int post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_qp *qp = (struct fake_qp *)(void *)base;
	const struct fake_device *fake = fake_of(base->context);
	int ret = fake->errors[FAKE_SEND];

	for (; wr && !ret; wr = wr->next) {
		*bad = wr;
		if (base->state != IBV_QPS_RTS || wr->num_sge != 1 || !qp->receives--)
			return EINVAL;
		if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
			ret = take_write(qp, wr);
		else
			ret = wr->opcode == IBV_WR_SEND ? take_send(qp, wr) : EINVAL;
		if (fake->status)
			break;
	}
	return ret;
}

static int poll_cq(struct ibv_cq *base, int entries, struct ibv_wc *wc)
{
	struct fake_cq *cq = (struct fake_cq *)(void *)base;
	int n = 0;

	if (fake_of(base->context)->errors[FAKE_POLL])
		return -1;
	while (n < entries && cq->head < cq->tail)
		wc[n++] = cq->wcs[cq->head++ % WCS_MAX];
	return n;
}

void fake_verbs_data_ops(struct ibv_context *context)
{
	context->ops.post_send = post_send;
	context->ops.post_recv = post_recv;
	context->ops.poll_cq = poll_cq;
}

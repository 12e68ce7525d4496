/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: create, modify, query, destroy. Only RC. */
#include "fake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MAX 31

struct fake_qp *qp_of(struct ibv_qp *qp)
{
	return (struct fake_qp *)(void *)qp;
}

static int qp_refusal(const struct fake_device *device, const struct ibv_qp_init_attr *init)
{
	const struct ibv_qp_cap *cap = &init->cap;
	int ret = fault_call("create_qp", &device->device);

	if (ret)
		return ret;
	if (device->dead)
		return EIO;
	if (init->qp_type != IBV_QPT_RC || init->srq)
		return EOPNOTSUPP;
	if (!init->send_cq || !init->recv_cq || cap->max_send_wr > (uint32_t)device->max_wr ||
	    cap->max_recv_wr > (uint32_t)device->max_wr ||
	    cap->max_send_sge > (uint32_t)device->max_sge ||
	    cap->max_recv_sge > (uint32_t)device->max_sge ||
	    (cap->max_inline_data > (uint32_t)device->max_inline && !device->clamps))
		return EINVAL;
	return device->qp_count >= device->max_qp ? ENOMEM : 0;
}

static bool qpn_in_use(const struct fake_device *device, uint32_t qpn)
{
	const struct fake_qp *qp;

	LIST_FOREACH(qp, &fake.qps, next)
	if (qp->device == device && qp->qp.qp_num == qpn)
		return true;
	return false;
}

static uint32_t qpn_take(struct fake_device *device)
{
	uint32_t qpn;

	do {
		if (device->next_qpn < FIRST_QPN || device->next_qpn >= 1u << SLOT_SHIFT)
			device->next_qpn = FIRST_QPN;
		qpn = fake.slot << SLOT_SHIFT | device->next_qpn++;
	} while (qpn_in_use(device, qpn));
	return qpn;
}

static void qp_free(struct fake_qp *qp)
{
	free(qp->sq);
	free(qp->rq);
	free(qp->inline_room);
	free(qp->held);
	free(qp);
}

/* Exactly the requested values; real devices round up. */
static struct fake_qp *qp_new(const struct ibv_qp_cap *cap)
{
	struct fake_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	qp->sq = calloc(cap->max_send_wr + 1, sizeof(*qp->sq));
	qp->rq = calloc(cap->max_recv_wr + 1, sizeof(*qp->rq));
	qp->inline_room = calloc(cap->max_send_wr + 1, cap->max_inline_data + 1);
	qp->held = calloc(cap->max_recv_wr + 1, sizeof(*qp->held));
	if (qp->sq && qp->rq && qp->inline_room && qp->held)
		return qp;
	qp_free(qp);
	return NULL;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct fake_device *device = device_of(pd->context);
	struct fake_qp *qp = NULL;
	int ret;

	fake_lock();
	ret = qp_refusal(device, init);
	if (init->cap.max_inline_data > (uint32_t)device->max_inline)
		init->cap.max_inline_data = (uint32_t)device->max_inline;
	if (!ret) {
		qp = qp_new(&init->cap);
		ret = qp ? 0 : ENOMEM;
	}
	if (qp) {
		qp->device = device;
		qp->init = *init;
		qp->qp.context = pd->context;
		qp->qp.qp_context = init->qp_context;
		qp->qp.pd = pd;
		qp->qp.send_cq = init->send_cq;
		qp->qp.recv_cq = init->recv_cq;
		qp->qp.qp_type = init->qp_type;
		qp->qp.qp_num = qpn_take(device);
		qp->qp.state = qp->state = IBV_QPS_RESET;
		device->qp_count++;
		fake.counts.qps_made++;
		((struct fake_pd *)(void *)pd)->users++;
		((struct fake_cq *)(void *)init->send_cq)->users++;
		((struct fake_cq *)(void *)init->recv_cq)->users++;
		LIST_INSERT_HEAD(&fake.qps, qp, next);
		fake.counts.qps++;
	}
	fake_unlock();
	errno = ret;
	return qp ? &qp->qp : NULL;
}

static void qp_purge(struct fake_qp *qp)
{
	cq_purge(qp->qp.send_cq, qp);
	cq_purge(qp->qp.recv_cq, qp);
}

int ibv_destroy_qp(struct ibv_qp *ibv_qp)
{
	struct fake_qp *qp = qp_of(ibv_qp);
	int ret = call_begin("destroy_qp", ibv_qp->context->device);

	if (ret) {
		fake_unlock();
		return ret;
	}
	LIST_REMOVE(qp, next);
	qp_purge(qp);
	events_purge(ibv_qp->context, ibv_qp);
	while (qp->async_events)
		fake_wait_acks();
	qp->device->qp_count--;
	((struct fake_pd *)(void *)ibv_qp->pd)->users--;
	((struct fake_cq *)(void *)ibv_qp->send_cq)->users--;
	((struct fake_cq *)(void *)ibv_qp->recv_cq)->users--;
	fake.counts.qps--;
	fake_unlock();
	qp_free(qp);
	return 0;
}

/* The kernel's table for RC: required and optional attributes. */
static const struct transition {
	enum ibv_qp_state from, to;
	int needs, takes;
} transitions[] = {
	{ IBV_QPS_RESET, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_INIT, IBV_QPS_RTR,
	  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	  IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPS_RTR, IBV_QPS_RTS,
	  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		  IBV_QP_MAX_QP_RD_ATOMIC,
	  IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0,
	  IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER },
};

static bool transition_fits(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	const struct transition *t = transitions;

	mask &= ~IBV_QP_STATE;
	if (to == IBV_QPS_ERR || to == IBV_QPS_RESET)
		return !mask && (from != IBV_QPS_RESET || to == IBV_QPS_RESET);
	for (; t < transitions + sizeof(transitions) / sizeof(*transitions); t++)
		if (t->from == from && t->to == to)
			return (mask & t->needs) == t->needs && !(mask & ~(t->needs | t->takes));
	return false;
}

/* On Ethernet there is no path without GIDs. */
static bool path_fits(const struct fake_qp *qp, const struct ibv_ah_attr *path)
{
	const struct fake_port *port;

	if (path->port_num < 1 || path->port_num > qp->device->port_count ||
	    path->port_num != qp->attr.port_num)
		return false;
	port = &qp->device->ports[path->port_num - 1];
	if (path->is_global)
		return path->grh.sgid_index < GID_TABLE &&
		       gid_is_set(&port->gids[path->grh.sgid_index].gid) &&
		       gid_is_set(&path->grh.dgid) && path->grh.hop_limit;
	return port->layer == IBV_LINK_LAYER_INFINIBAND && path->dlid;
}

static bool values_fit(const struct fake_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const struct fake_device *device = qp->device;

	if ((mask & IBV_QP_PKEY_INDEX && attr->pkey_index) ||
	    (mask & IBV_QP_PORT && (attr->port_num < 1 || attr->port_num > device->port_count)) ||
	    (mask & IBV_QP_AV && !path_fits(qp, &attr->ah_attr)))
		return false;
	if (mask & IBV_QP_PATH_MTU &&
	    (attr->path_mtu < IBV_MTU_256 ||
	     (int)attr->path_mtu > device->ports[qp->attr.port_num - 1].mtu))
		return false;
	return !((mask & IBV_QP_MAX_QP_RD_ATOMIC && attr->max_rd_atomic > device->max_rd_atomic) ||
		 (mask & IBV_QP_MAX_DEST_RD_ATOMIC &&
		  attr->max_dest_rd_atomic > device->max_rd_atomic) ||
		 (mask & IBV_QP_MIN_RNR_TIMER && attr->min_rnr_timer > TIMEOUT_MAX) ||
		 (mask & IBV_QP_TIMEOUT && attr->timeout > TIMEOUT_MAX) ||
		 (mask & IBV_QP_RETRY_CNT && attr->retry_cnt > RETRIES_MAX) ||
		 (mask & IBV_QP_RNR_RETRY && attr->rnr_retry > RETRIES_MAX) ||
		 (mask & IBV_QP_DEST_QPN && attr->dest_qp_num > PSN_MASK));
}

#define TAKE(bit, field)                         \
	do {                                     \
		if (mask & (bit))                \
			to->field = from->field; \
	} while (0)

static void take(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
	TAKE(IBV_QP_PKEY_INDEX, pkey_index);
	TAKE(IBV_QP_PORT, port_num);
	TAKE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	TAKE(IBV_QP_AV, ah_attr);
	TAKE(IBV_QP_PATH_MTU, path_mtu);
	TAKE(IBV_QP_DEST_QPN, dest_qp_num);
	TAKE(IBV_QP_RQ_PSN, rq_psn);
	TAKE(IBV_QP_SQ_PSN, sq_psn);
	TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	TAKE(IBV_QP_TIMEOUT, timeout);
	TAKE(IBV_QP_RETRY_CNT, retry_cnt);
	TAKE(IBV_QP_RNR_RETRY, rnr_retry);
}

void qp_error(struct fake_qp *qp)
{
	if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_RESET)
		return;
	qp->state = IBV_QPS_ERR;
	qp->wait = WAIT_NOTHING;
	requester_flush(qp);
	responder_flush(qp);
}

/* Posted requests are dropped without a completion. */
static void reset(struct fake_qp *qp)
{
	qp_purge(qp);
	memset(&qp->attr, 0, sizeof(qp->attr));
	qp->sq_head = qp->sq_next = qp->sq_tail = qp->sq_slots = qp->unreported = 0;
	qp->rq_head = qp->rq_tail = qp->rq_slots = 0;
	qp->retries = qp->rnr_retries = 0;
	qp->received = 0;
	qp->held_head = qp->held_tail = 0;
	qp->muted = qp->heard = qp->deaf = false;
	qp->wait = WAIT_NOTHING;
	qp->attempt++;
}

static void enter(struct fake_qp *qp, enum ibv_qp_state to)
{
	enum ibv_qp_state from = qp->state;

	if (to == IBV_QPS_ERR) {
		qp_error(qp);
		return;
	}
	qp->state = to;
	if (to == IBV_QPS_RESET)
		reset(qp);
	if (to == IBV_QPS_RTR)
		qp->expected_psn = qp->attr.rq_psn & PSN_MASK;
	if (to == IBV_QPS_RTS && from == IBV_QPS_RTR)
		qp->psn = qp->attr.sq_psn & PSN_MASK;
}

int ibv_modify_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *qp = qp_of(ibv_qp);
	enum ibv_qp_state to;
	int ret = call_begin("modify_qp", ibv_qp->context->device);

	to = mask & IBV_QP_STATE ? attr->qp_state : qp->state;
	if (!ret && qp->device->dead && to != IBV_QPS_ERR && to != IBV_QPS_RESET)
		ret = EIO;
	if (!ret && ((mask & IBV_QP_CUR_STATE && attr->cur_qp_state != qp->state) ||
		     !transition_fits(qp->state, to, mask) || !values_fit(qp, attr, mask)))
		ret = EINVAL;
	if (!ret) {
		take(&qp->attr, attr, mask);
		enter(qp, to);
		if (mask & IBV_QP_STATE)
			ibv_qp->state = to;
	}
	fake_unlock();
	return ret;
}

int ibv_query_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	struct fake_qp *qp = qp_of(ibv_qp);
	int ret = call_begin("query_qp", ibv_qp->context->device);

	(void)mask;
	if (!ret) {
		*attr = qp->attr;
		attr->qp_state = attr->cur_qp_state = qp->state;
		attr->cap = qp->init.cap;
		attr->sq_psn = qp->psn;
		attr->rq_psn = qp->expected_psn;
		*init = qp->init;
	}
	fake_unlock();
	return ret;
}

int ibv_query_ece(struct ibv_qp *ibv_qp, struct ibv_ece *ece)
{
	struct fake_qp *qp = qp_of(ibv_qp);

	if (!qp->device->ece)
		return EOPNOTSUPP;
	fake_lock();
	*ece = qp->ece.vendor_id ? qp->ece : (struct ibv_ece){ .vendor_id = 0xfa4e, .options = 1 };
	fake_unlock();
	return 0;
}

int ibv_set_ece(struct ibv_qp *ibv_qp, struct ibv_ece *ece)
{
	struct fake_qp *qp = qp_of(ibv_qp);

	if (!qp->device->ece)
		return EOPNOTSUPP;
	if (ece->comp_mask)
		return EINVAL;
	fake_lock();
	qp->ece = *ece;
	fake_unlock();
	return 0;
}

/* The last 16 bits of a port's subnet prefix, from its first GID. */
static uint32_t subnet_of(const struct fake_port *port)
{
	const uint8_t *raw = port->gids[0].gid.raw;

	return (uint32_t)raw[6] << 8 | raw[7];
}

void qp_reply(struct reply *reply)
{
	struct fake_qp *qp;

	LIST_FOREACH(qp, &fake.qps, next)
	if (qp->qp.qp_num == reply->to_qpn && (uint32_t)(qp->device - fake.devices) == reply->to_device)
		break;
	if (!qp || qp->state != IBV_QPS_RTS)
		return;
	if (qp->device->ports[qp->attr.port_num - 1].state != IBV_PORT_ACTIVE)
		reply->outcome = OUT_LOST;
	requester_reply(qp, reply);
	requester_run(qp);
}

struct address qp_source(const struct fake_qp *qp)
{
	const struct fake_port *port = &qp->device->ports[qp->attr.port_num - 1];
	const struct ibv_ah_attr *path = &qp->attr.ah_attr;
	struct address address = { .lid = (uint32_t)port->lid,
				   .subnet = subnet_of(port),
				   .global = path->is_global };

	if (address.global) {
		address.gid = port->gids[path->grh.sgid_index].gid;
		address.gid_type = port->gids[path->grh.sgid_index].type;
	}
	return address;
}

struct address qp_destination(const struct fake_qp *qp)
{
	const struct ibv_ah_attr *path = &qp->attr.ah_attr;
	struct address address = qp_source(qp);

	address.lid = path->dlid;
	if (address.global)
		address.gid = path->grh.dgid;
	return address;
}

/*
 * Switches deliver a packet to the port of the subnet that has its DLID. A packet for another subnet has the LID of a
 * router, for which the subnet manager makes one for each other subnet, the FLID. It is part of the GIDs there: 10 bits
 * fixed, 22 of 0, 16 FLID, 16 subnet (NCCL src/transport/net_ib/connect.cc:92@v2.30.7). The router uses the GID.
 */
static bool dlid_leads_to(const struct fake_port *port, const struct address *address)
{
	const uint8_t *gid = address->gid.raw;

	if (address->subnet == subnet_of(port))
		return address->lid == (uint32_t)port->lid;
	return address->global && address->lid && address->lid == ((uint32_t)gid[4] << 8 | gid[5]);
}

bool port_has(const struct fake_port *port, const struct address *address)
{
	if (port->layer == IBV_LINK_LAYER_INFINIBAND && !dlid_leads_to(port, address))
		return false;
	for (int i = 0; address->global && i < GID_TABLE; i++)
		if (port->gids[i].type == address->gid_type &&
		    !memcmp(&port->gids[i].gid, &address->gid, sizeof(address->gid)))
			return true;
	return !address->global;
}

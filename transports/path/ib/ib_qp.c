/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: the way to RTS, posting and completions; see ib_qp.h. ib_connect.c creates them. */
#include "path/ib/ib_qp.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include <nccl_net/log.h>
#include <nccl_net/util.h>

#include "base/net.h"
#include "base/os.h"
#include "device/gid.h"
#include "device/ib_events.h"
#include "device/ib_nic.h"

#define RECV_WR      (1ull << 63) /* in wr_id: a receive; the low bits are its slot */
#define SIGNAL_EVERY 16           /* requests: at least one in so many is signalled */
#define POLL_BATCH   16
/* Max wait for the next flushed receive, in milliseconds; it mostly comes within microseconds */
#define FENCE_MS    30
#define FENCE_POLLS 256

void ib_qp_change(struct ib_qp *qp, enum ib_qp_state to)
{
	/* ib_qp_rejoin connects a second time. */
	assert(to == IB_QP_JOINED ? qp->state <= IB_QP_JOINED
				  : qp->state < to && (to == IB_QP_BROKEN || qp->state == IB_QP_JOINED));
	qp->state = to;
}

void ib_qp_given_up(const struct ib_qp *qp)
{
	if (qp->state == IB_QP_JOINED)
		ib_events_reread(qp->nic);
}

static void broke(struct ib_qp *qp, int err)
{
	if (qp->state == IB_QP_BROKEN)
		return;
	ib_qp_given_up(qp);
	ib_qp_change(qp, IB_QP_BROKEN);
	qp->fault.err = err;
}

/* --- from INIT to RTS --- */

static int to_rtr(struct ib_qp *qp, const struct ib_path *path)
{
	return verbs_to_rtr(qp->nic->verbs, qp->ibv, path,
			    path->pkey_index == anynet_net.cfg->ib_pkey ? 0 : IBV_QP_PKEY_INDEX);
}

/* The kernel then looks for the peer's Ethernet address, which takes a second if nobody answers. */
static int find_peer(struct ib_qp *qp, const struct ib_path *path)
{
	const union ibv_gid *peer = &path->ah.grh.dgid;
	int ret;

	if (ib_silent_pauses(qp->nic, peer))
		return -ETIMEDOUT;
	ret = to_rtr(qp, path);
	ib_silent_note(qp->nic, peer, ret == -ETIMEDOUT);
	return ret;
}

int ib_qp_to_rts(struct ib_qp *qp, struct ib_path *path)
{
	int ret;

	path->timeout = (uint8_t)anynet_net.cfg->ib_timeout;
	path->retries = (uint8_t)anynet_net.cfg->ib_retry_cnt;
	path->rnr_retries = IB_RNR_FOR_EVER;
	path->reads = 1;
	qp->limits.packet_bytes = 128u << path->mtu;
	ret = path->ah.is_global ? find_peer(qp, path) : to_rtr(qp, path);
	return ret ? ret : verbs_to_rts(qp->nic->verbs, qp->ibv, path);
}

/* --- posting --- */

static bool takes_slot(enum ibv_wr_opcode opcode)
{
	return opcode != IBV_WR_RDMA_WRITE && opcode != IBV_WR_RDMA_READ;
}

int ib_qp_post(struct ib_qp *qp, struct ibv_send_wr *first, struct ibv_send_wr *last, uint32_t wrs,
	       uint64_t frame)
{
	struct ibv_send_wr *bad;
	int ret;

	if (anynet_unlikely(qp->state == IB_QP_BROKEN))
		return qp->fault.err; /* the fence may have destroyed it */
	qp->credits.posted += qp->is_send && takes_slot(last->opcode);
	qp->sq.unsignalled += wrs;
	if (!(last->send_flags & IBV_SEND_SIGNALED) &&
	    (qp->sq.signal_all || qp->sq.unsignalled >= SIGNAL_EVERY))
		last->send_flags |= IBV_SEND_SIGNALED;
	qp->sq.posted += wrs;
	if (frame)
		qp->sq.frame = frame;
	if (last->send_flags & IBV_SEND_SIGNALED) {
		qp->sq.unsignalled = 0;
		qp->sq.signals[qp->sq.tail++ % IB_SQ_WRS] =
			(struct ib_signal){ qp->sq.frame, qp->sq.posted };
	}
	ret = ibv_post_send(qp->ibv, first, &bad);
	if (anynet_unlikely(ret)) {
		broke(qp, ret > 0 ? -ret : -EIO);
		return qp->fault.err;
	}
	return 0;
}

uint32_t ib_qp_copy_max(const struct ib_qp *qp)
{
	return qp->limits.inline_bytes ? qp->limits.inline_bytes : IB_COPY_BYTES;
}

void ib_qp_copy(struct ib_qp *qp, struct ibv_send_wr *wr, const void *data, uint32_t bytes)
{
	uint8_t *copy;

	*wr->sg_list = (struct ibv_sge){ .addr = (uintptr_t)data, .length = bytes };
	if (anynet_likely(qp->limits.inline_bytes)) {
		wr->send_flags |= IBV_SEND_INLINE;
		return;
	}
	/* This entry is free: at most IB_SQ_WRS requests are in flight. */
	copy = qp->memory.copies + (size_t)(qp->sq.posted % IB_SQ_WRS) * IB_COPY_BYTES;
	memcpy(copy, data, bytes);
	wr->sg_list->addr = (uintptr_t)copy;
	wr->sg_list->lkey = qp->memory.mr->lkey;
}

static int say(struct ib_qp *qp, enum ibv_wr_opcode opcode, const void *data, uint32_t bytes,
	       uint64_t addr, bool last)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = last ? IBV_SEND_SIGNALED : 0,
		.wr.rdma = { .remote_addr = addr, .rkey = qp->peer.rkey },
	};

	ib_qp_copy(qp, &wr, data, bytes);
	return ib_qp_post(qp, &wr, &wr, 1, 0);
}

int ib_qp_say(struct ib_qp *qp, const void *data, uint32_t bytes, bool last)
{
	return say(qp, IBV_WR_SEND, data, bytes, 0, last);
}

int ib_qp_write(struct ib_qp *qp, const void *data, uint32_t bytes, uint64_t addr)
{
	return say(qp, IBV_WR_RDMA_WRITE, data, bytes, addr, false);
}

static int post_slot(struct ib_qp *qp, uint16_t slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)(qp->memory.slots + (size_t)slot * qp->memory.slot_bytes),
		.length = qp->memory.slot_bytes,
		.lkey = qp->memory.mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = RECV_WR | slot, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;
	int ret = ibv_post_recv(qp->ibv, &wr, &bad);

	qp->rq.posted += !ret;
	return ret > 0 ? -ret : ret;
}

int ib_qp_post_slots(struct ib_qp *qp)
{
	int ret = 0;

	for (uint16_t i = 0; i < qp->memory.slot_count && !ret; i++)
		ret = post_slot(qp, i);
	return ret;
}

int ib_qp_consumed(struct ib_qp *qp)
{
	uint16_t slot = qp->rq.inbound[qp->rq.head++ % IB_INBOUND].slot;
	int ret;

	if (anynet_unlikely(qp->state == IB_QP_BROKEN))
		return 0;
	ret = post_slot(qp, slot);
	if (ret) {
		broke(qp, ret);
		return ret;
	}
	qp->credits.consumed++;
	return ib_qp_tell(qp);
}

int ib_qp_tell(struct ib_qp *qp)
{
	if (qp->is_send || qp->credits.consumed - qp->credits.told < qp->memory.slot_count / 2 ||
	    !ib_qp_has_room(qp, 1))
		return 0;
	return ib_qp_tell_again(qp);
}

int ib_qp_tell_again(struct ib_qp *qp)
{
	qp->credits.told = qp->credits.consumed;
	return ib_qp_write(qp, &qp->credits.consumed, sizeof(qp->credits.consumed),
			   qp->peer.addr + offsetof(struct anynet_wire_cts_ring, consumed));
}

/* --- completions --- */

static int status_errno(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
		return -ETIMEDOUT;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return -EBUSY;
	case IBV_WC_WR_FLUSH_ERR:
		return -ECONNABORTED;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
		return -EREMOTEIO;
	default:
		return -EIO;
	}
}

static void take_error(struct ib_qp *qp, const struct ibv_wc *wc)
{
	bool flushed = wc->status == IBV_WC_WR_FLUSH_ERR;
	char peer[INET6_ADDRSTRLEN];
	union ibv_gid gid;

	if (!flushed && qp->state != IB_QP_BROKEN) {
		qp->fault.status = wc->status;
		qp->fault.vendor = wc->vendor_err;
	}
	memcpy(gid.raw, qp->peer.gid, sizeof(gid.raw));
	/* Before IB_QP_UP the caller of the proof logs the failure, unless it repeats. */
	if (!flushed && qp->state == IB_QP_UP)
		anynet_info(
			"dev %s queue pair %u to %s: completion with status %u, vendor %u%s; it is "
			"replaced, or its data uses TCP",
			qp->nic->dev->name, qp->ibv->qp_num, gid_text(&gid, peer), wc->status,
			wc->vendor_err,
			wc->status == IBV_WC_RETRY_EXC_ERR
				? " (no answer: check the link and the peer)"
				: "");
	broke(qp, status_errno(wc->status));
}

static void take(struct ib_qp *qp, const struct ibv_wc *wc, uint64_t *arrived)
{
	qp->rq.posted -= (wc->wr_id & RECV_WR) != 0;
	if (anynet_unlikely(wc->status != IBV_WC_SUCCESS)) {
		take_error(qp, wc);
	} else if (wc->wr_id & RECV_WR) {
		qp->rq.inbound[qp->rq.tail++ % IB_INBOUND] = (struct ib_inbound){
			.slot = (uint16_t)wc->wr_id,
			.written = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM,
			.imm = wc->wc_flags & IBV_WC_WITH_IMM ? be32toh(wc->imm_data) : 0,
			.bytes = wc->byte_len,
		};
		/* At the receiving end, the first frame is the proof. */
		if (qp->state == IB_QP_JOINED && !qp->is_send)
			ib_qp_change(qp, IB_QP_UP);
	} else if (qp->sq.head != qp->sq.tail) {
		const struct ib_signal *signal = &qp->sq.signals[qp->sq.head++ % IB_SQ_WRS];

		qp->sq.done = signal->wrs;
		if (arrived && signal->frame)
			*arrived = signal->frame;
	}
}

int ib_qp_poll(struct ib_qp *qp, uint64_t *arrived)
{
	struct ibv_wc wcs[POLL_BATCH];
	int n;

	do {
		n = ibv_poll_cq(qp->cq, POLL_BATCH, wcs);
		for (int i = 0; i < n; i++)
			take(qp, &wcs[i], arrived);
	} while (n == POLL_BATCH && qp->rq.tail - qp->rq.head < IB_INBOUND / 2);
	if (anynet_unlikely(n < 0 ||
			    atomic_load_explicit(&qp->fault.failed, memory_order_relaxed) ||
			    atomic_load_explicit(&qp->nic->failed, memory_order_relaxed)))
		broke(qp, -EIO);
	return qp->fault.err;
}

/* Polls for flushed receives. They complete after all frames that have arrived. True: no receive is outstanding. */
static bool all_flushed(struct ib_qp *qp, uint64_t *arrived)
{
	struct ibv_wc wc;

	for (unsigned i = 0; qp->rq.posted && i < FENCE_POLLS; i++)
		if (ibv_poll_cq(qp->cq, 1, &wc) > 0)
			take(qp, &wc, arrived);
	return !qp->rq.posted;
}

void ib_qp_destroy_qp(struct ib_qp *qp)
{
	if (qp->ibv)
		qp->nic->verbs->destroy_qp(qp->ibv);
	qp->ibv = NULL;
}

void ib_qp_fence(struct ib_qp *qp, uint64_t *arrived)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	uint64_t until;
	uint32_t left;
	bool last;

	if (!qp->ibv)
		return;
	qp->nic->verbs->modify_qp(qp->ibv, &attr, IBV_QP_STATE);
	broke(qp, -ECONNABORTED);
	do { /* until none comes: the last may hold frames that the sender counts as arrived */
		left = qp->rq.posted;
		until = os_now_ms() + FENCE_MS;
		do
			last = os_now_ms() >= until; /* before the poll: this thread may have been off its processor */
		while (!all_flushed(qp, arrived) && qp->rq.posted == left && !last);
	} while (qp->rq.posted && qp->rq.posted != left);
	if (qp->rq.posted) /* it does not flush; only destroying it guarantees that nothing is written */
		ib_qp_destroy_qp(qp);
}

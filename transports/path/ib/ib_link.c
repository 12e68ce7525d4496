/* SPDX-License-Identifier: Apache-2.0 */
/* Links: posting and completions; see ib_link.h. Their making is in ib_connect.c. */
#include "path/ib/ib_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/log.h>
#include <nccl_net/util.h>

#include "base/os.h"
#include "base/pinned.h"
#include "path/ib/ib_cm.h"

#define RECV_WR      (1ull << 63) /* in wr_id: a receive, the rest is its slot */
#define SIGNAL_EVERY 16           /* of the requests that need no completion for themselves */
#define POLL_BATCH   16
#define FENCE_MS \
	30 /* for the next of the flushed receives, which mostly come within microseconds */
#define FENCE_POLLS 256

static void broke(struct ib_link *link, int err)
{
	if (link->state == IB_LINK_BROKEN)
		return;
	link->state = IB_LINK_BROKEN;
	link->err = err;
}

/* --- posting --- */

static bool takes_slot(enum ibv_wr_opcode opcode)
{
	return opcode != IBV_WR_RDMA_WRITE && opcode != IBV_WR_RDMA_READ;
}

int ib_link_post(struct ib_link *link, struct ibv_send_wr *first, struct ibv_send_wr *last,
		 uint32_t wrs, uint64_t frame)
{
	struct ibv_send_wr *bad;
	int ret;

	link->frames_posted += link->is_send && takes_slot(last->opcode);
	link->unsignalled += wrs;
	if (!(last->send_flags & IBV_SEND_SIGNALED) &&
	    (link->signal_all || link->unsignalled >= SIGNAL_EVERY))
		last->send_flags |= IBV_SEND_SIGNALED;
	link->wrs_posted += wrs;
	if (last->send_flags & IBV_SEND_SIGNALED) {
		link->unsignalled = 0;
		link->signals[link->signal_tail++ % IB_SQ_WRS] =
			(struct ib_signal){ frame, link->wrs_posted };
	}
	ret = ibv_post_send(link->qp, first, &bad);
	if (anynet_unlikely(ret)) {
		broke(link, ret > 0 ? -ret : -EIO);
		return link->err;
	}
	return 0;
}

uint32_t ib_link_copy_max(const struct ib_link *link)
{
	return link->inline_bytes ? link->inline_bytes : IB_COPY_BYTES;
}

void ib_link_copy(struct ib_link *link, struct ibv_send_wr *wr, const void *data, uint32_t bytes)
{
	uint8_t *copy;

	*wr->sg_list = (struct ibv_sge){ .addr = (uintptr_t)data, .length = bytes };
	if (anynet_likely(link->inline_bytes)) {
		wr->send_flags |= IBV_SEND_INLINE;
		return;
	}
	/* Nothing else uses it until this request is done: no more than IB_SQ_WRS are under way. */
	copy = link->copies + (size_t)(link->wrs_posted % IB_SQ_WRS) * IB_COPY_BYTES;
	memcpy(copy, data, bytes);
	wr->sg_list->addr = (uintptr_t)copy;
	wr->sg_list->lkey = link->mr->lkey;
}

static int say(struct ib_link *link, enum ibv_wr_opcode opcode, const void *data, uint32_t bytes,
	       uint64_t addr, bool last)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = last ? IBV_SEND_SIGNALED : 0,
		.wr.rdma = { .remote_addr = addr, .rkey = link->peer.rkey },
	};

	ib_link_copy(link, &wr, data, bytes);
	return ib_link_post(link, &wr, &wr, 1, 0);
}

int ib_link_say(struct ib_link *link, const void *data, uint32_t bytes, bool last)
{
	return say(link, IBV_WR_SEND, data, bytes, 0, last);
}

int ib_link_write(struct ib_link *link, const void *data, uint32_t bytes, uint64_t addr)
{
	return say(link, IBV_WR_RDMA_WRITE, data, bytes, addr, false);
}

static int post_slot(struct ib_link *link, uint16_t slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)(link->slots + (size_t)slot * link->slot_bytes),
		.length = link->slot_bytes,
		.lkey = link->mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = RECV_WR | slot, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;
	int ret = ibv_post_recv(link->qp, &wr, &bad);

	link->recvs += !ret;
	return ret > 0 ? -ret : ret;
}

int ib_link_post_slots(struct ib_link *link)
{
	int ret = 0;

	for (uint16_t i = 0; i < link->slot_count && !ret; i++)
		ret = post_slot(link, i);
	return ret;
}

int ib_link_consumed(struct ib_link *link)
{
	int ret = post_slot(link, link->arrivals[link->arrival_head++ % IB_ARRIVALS].slot);

	if (ret) {
		broke(link, ret);
		return ret;
	}
	link->consumed++;
	return ib_link_tell(link);
}

int ib_link_tell(struct ib_link *link)
{
	if (link->is_send || link->consumed - link->consumed_told < link->slot_count / 2 ||
	    !ib_link_has_room(link, 1))
		return 0;
	link->consumed_told = link->consumed;
	return ib_link_write(link, &link->consumed, sizeof(link->consumed),
			     link->peer.addr + offsetof(struct anynet_wire_cts_ring, consumed));
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

static void take_error(struct ib_link *link, const struct ibv_wc *wc)
{
	bool flushed = wc->status == IBV_WC_WR_FLUSH_ERR;

	if (!flushed && link->state != IB_LINK_BROKEN) {
		link->status = wc->status;
		link->vendor = wc->vendor_err;
	}
	/* Of a proof that fails the caller says it, who knows whether it is news. */
	if (!flushed && link->state == IB_LINK_UP)
		anynet_info("dev %s queue pair %u: completion with status %u, vendor %u",
			    link->nic->dev->name, link->qp->qp_num, wc->status, wc->vendor_err);
	broke(link, status_errno(wc->status));
}

static void take(struct ib_link *link, const struct ibv_wc *wc, uint64_t *arrived)
{
	link->recvs -= (wc->wr_id & RECV_WR) != 0;
	if (anynet_unlikely(wc->status != IBV_WC_SUCCESS)) {
		take_error(link, wc);
	} else if (wc->wr_id & RECV_WR) {
		link->arrivals[link->arrival_tail++ % IB_ARRIVALS] = (struct ib_arrival){
			.slot = (uint16_t)wc->wr_id,
			.written = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM,
			.imm = wc->wc_flags & IBV_WC_WITH_IMM ? be32toh(wc->imm_data) : 0,
			.bytes = wc->byte_len,
		};
		/* What comes proves that packets do. */
		if (link->state == IB_LINK_JOINED && !link->is_send)
			link->state = IB_LINK_UP;
	} else if (link->signal_head != link->signal_tail) {
		const struct ib_signal *signal = &link->signals[link->signal_head++ % IB_SQ_WRS];

		link->wrs_done = signal->wrs;
		if (arrived && signal->frame)
			*arrived = signal->frame;
	}
}

int ib_link_poll(struct ib_link *link, uint64_t *arrived)
{
	struct ibv_wc wcs[POLL_BATCH];
	int n;

	do {
		n = ibv_poll_cq(link->cq, POLL_BATCH, wcs);
		for (int i = 0; i < n; i++)
			take(link, &wcs[i], arrived);
	} while (n == POLL_BATCH && link->arrival_tail - link->arrival_head < IB_ARRIVALS / 2);
	if (anynet_unlikely(n < 0 || atomic_load_explicit(&link->failed, memory_order_relaxed) ||
			    atomic_load_explicit(&link->nic->failed, memory_order_relaxed)))
		broke(link, -EIO);
	return link->state == IB_LINK_BROKEN ? link->err : 0;
}

/* Receives that were posted come back, flushed, behind all that have arrived. */
static bool all_flushed(struct ib_link *link, uint64_t *arrived)
{
	struct ibv_wc wc;

	for (unsigned i = 0; link->recvs && i < FENCE_POLLS; i++)
		if (ibv_poll_cq(link->cq, 1, &wc) > 0)
			take(link, &wc, arrived);
	return !link->recvs;
}

void ib_link_destroy_qp(struct ib_link *link)
{
	if (link->qp)
		link->nic->verbs->destroy_qp(link->qp);
	link->qp = NULL;
}

void ib_link_fence(struct ib_link *link, uint64_t *arrived)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	uint64_t until;
	uint32_t left;

	if (!link->qp)
		return;
	link->nic->verbs->modify_qp(link->qp, &attr, IBV_QP_STATE);
	broke(link, -ECONNABORTED);
	do { /* as long as some come: what the sender knows to have arrived may be among the last */
		left = link->recvs;
		until = os_now_ms() + FENCE_MS;
		while (!all_flushed(link, arrived) && link->recvs == left && os_now_ms() < until)
			;
	} while (link->recvs && link->recvs != left);
	if (link->recvs) /* a queue pair that does not even flush: without it nothing can come */
		ib_link_destroy_qp(link);
}

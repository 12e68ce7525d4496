/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proof that a queue pair works. RTS at both ends is not enough: a switch may drop all full-size packets (on RoCE
 * the two ports alone decide the MTU), and a filter or an adapter may refuse WRITEs. So the connector writes a
 * full-size packet to the acceptor's slots, which nothing else uses yet, reads it back and compares. Then it sends a
 * PING. This first frame tells the acceptor that the queue pair is in use.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/libc_text.h"
#include "path/ib/ib_qp.h"

static uint8_t pattern_at(const struct ib_qp *qp, uint32_t i)
{
	return (uint8_t)((qp->psn + i * 2654435761u) >> 13);
}

static int post(struct ib_qp *qp, enum ibv_wr_opcode opcode)
{
	const struct anynet_wire_qp *peer = &qp->peer;
	struct ibv_sge sge = {
		.addr = (uintptr_t)qp->memory.proof,
		.length = qp->limits.packet_bytes,
		.lkey = qp->memory.mr->lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		/* The end of the slots: the PING arrives in one of the first. */
		.wr.rdma = { .remote_addr = peer->addr + (uint64_t)peer->slots * peer->slot_bytes -
					    qp->limits.packet_bytes,
			     .rkey = peer->rkey },
	};

	return ib_qp_post(qp, &wr, &wr, 1, 0);
}

int ib_qp_ping(struct ib_qp *qp)
{
	struct anynet_wire_frame frame = { .type = ANYNET_FRAME_PING };

	return ib_qp_say(qp, &frame, sizeof(frame), true);
}

int ib_qp_read(struct ib_qp *qp)
{
	return post(qp, IBV_WR_RDMA_READ);
}

int ib_qp_begin_proof(struct ib_qp *qp)
{
	for (uint32_t i = 0; i < qp->limits.packet_bytes; i++)
		qp->memory.proof[i] = pattern_at(qp, i);
	qp->proving = IB_PROOF_WRITE;
	return post(qp, IBV_WR_RDMA_WRITE);
}

static bool is_as_written(const struct ib_qp *qp)
{
	for (uint32_t i = 0; i < qp->limits.packet_bytes; i++)
		if (qp->memory.proof[i] != pattern_at(qp, i))
			return false;
	return true;
}

/* The current step is done: starts the next. 0 or -errno; -EBADMSG: the data read back differs. */
static int go_on(struct ib_qp *qp)
{
	switch (qp->proving) {
	case IB_PROOF_WRITE:
		memset(qp->memory.proof, 0, qp->limits.packet_bytes);
		qp->proving = IB_PROOF_READ;
		return ib_qp_read(qp);
	case IB_PROOF_READ:
		if (!is_as_written(qp))
			return -EBADMSG;
		qp->proving = IB_PROOF_SEND;
		return ib_qp_ping(qp);
	case IB_PROOF_SEND:
		ib_qp_change(qp, IB_QP_UP);
	}
	return 0;
}

static uint32_t step_bytes(const struct ib_qp *qp)
{
	return qp->proving == IB_PROOF_SEND ? (uint32_t)sizeof(struct anynet_wire_frame)
					    : qp->limits.packet_bytes;
}

static const char *step_text(const struct ib_qp *qp)
{
	return qp->proving == IB_PROOF_WRITE  ? "a WRITE"
	       : qp->proving == IB_PROOF_READ ? "a READ"
					      : "a SEND";
}

void ib_qp_unproven(const struct ib_qp *qp, int err, char *why, size_t why_bytes)
{
	char completion[64] = "";

	if (qp->fault.status)
		snprintf(completion, sizeof(completion), " (status %u, vendor %#x)",
			 qp->fault.status, qp->fault.vendor);
	if (err == -EBADMSG)
		snprintf(why, why_bytes, "a READ returns other data than was written");
	else if (err == -EAGAIN || err == -ETIMEDOUT)
		snprintf(why, why_bytes,
			 "packets of %u bytes do not get through: no answer to %s%s",
			 step_bytes(qp), step_text(qp), completion);
	else
		snprintf(why, why_bytes, "%s of %u bytes fails: %s%s", step_text(qp),
			 step_bytes(qp), error_text(-err), completion);
}

int ib_qp_prove(struct ib_qp *qp)
{
	int ret = ib_qp_poll(qp, NULL);

	while (!ret && qp->state == IB_QP_JOINED && qp->sq.done == qp->sq.posted) {
		ret = go_on(qp);
		if (!ret)
			ret = ib_qp_poll(qp, NULL);
	}
	return ret ? ret : qp->state == IB_QP_UP ? 0 : -EAGAIN;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A work request as the request that leaves the port. */
#include "fake.h"

static unsigned access_needed(const struct fake_wqe *wqe)
{
	return wqe->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE : 0;
}

int wqe_spans(const struct fake_qp *qp, const struct fake_wqe *wqe, struct span *spans)
{
	if (wqe->flags & IBV_SEND_INLINE) {
		spans[0] = (struct span){ .at = wqe->inlined, .bytes = (size_t)wqe->length };
		return 1;
	}
	if (!spans_resolve(wqe->sges, wqe->sge_count, qp->qp.pd, access_needed(wqe), spans))
		return -1;
	return wqe->sge_count;
}

enum ibv_wc_status wqe_local_status(const struct fake_qp *qp, const struct fake_wqe *wqe)
{
	struct span spans[SGE_MAX];

	if (wqe->status)
		return wqe->status;
	if (wqe->opcode == IBV_WR_RDMA_READ && !qp->attr.max_rd_atomic)
		return IBV_WC_LOC_QP_OP_ERR;
	return wqe_spans(qp, wqe, spans) < 0 ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS;
}

bool request_can_leave(const struct fake_qp *qp, const struct address *to)
{
	return qp->device->ports[qp->attr.port_num - 1].state == IBV_PORT_ACTIVE &&
	       !qp->device->dead && !vanishes(qp->device, qp->attr.port_num, to);
}

struct request request_of(const struct fake_qp *qp, const struct fake_wqe *wqe)
{
	return (struct request){
		.opcode = wqe->opcode,
		.from = qp_source(qp),
		.to = qp_destination(qp),
		.from_device = (uint32_t)(qp->device - fake.devices),
		.from_qpn = qp->qp.qp_num,
		.to_qpn = qp->attr.dest_qp_num,
		.psn = wqe->psn,
		.psn_count = wqe->psn_count,
		.mtu = (uint32_t)qp->attr.path_mtu,
		.imm = wqe->imm,
		.rkey = wqe->rkey,
		.attempt = qp->attempt,
		.remote_addr = wqe->remote_addr,
		.length = wqe->length,
		.solicited = (wqe->flags & IBV_SEND_SOLICITED) != 0,
		.cut = wqe->cut,
		.garbled = wqe->garbled,
		.mute = qp->muted || wqe->mute,
	};
}

void request_carry(const struct request *request, const struct span *payload, struct reply *reply)
{
	uint32_t slot = request->to_qpn >> SLOT_SHIFT;

	if (slot == fake.slot)
		responder_serve(request, payload, reply);
	else if (wire_send(slot, request, payload))
		reply->outcome = OUT_PENDING;
}

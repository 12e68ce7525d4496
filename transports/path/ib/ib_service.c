/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Service of a queue pair, negotiated by its ends: service level, traffic class, adaptive routing, and the vendor's
 * options (ECE, struct ibv_ece). The connector requests in the hello, the acceptor answers with what it uses, and the
 * connector adopts the answer.
 */
#include "base/net.h"
#include "path/ib/ib_qp.h"

#define SL_MAX 15

/* The default assumes that InfiniBand fabrics may route adaptively; few Ethernet fabrics do. */
static bool wants_adaptive(const struct ib_qp *qp)
{
	int wish = anynet_net.cfg->ib_adaptive;

	return wish == ANYNET_AUTO ? qp->port.attr.link_layer == IBV_LINK_LAYER_INFINIBAND : wish;
}

static bool has_ece(const struct ib_qp *qp)
{
	const struct verbs *verbs = qp->nic->verbs;

	return anynet_net.cfg->ib_ece && verbs->query_ece && verbs->set_ece;
}

static void read_ece(struct ib_qp *qp)
{
	struct ibv_ece ece = { .vendor_id = 0 };

	qp->service.has_ece = has_ece(qp) && !qp->nic->verbs->query_ece(qp->ibv, &ece);
	qp->service.ece_vendor = ece.vendor_id;
	qp->service.ece_options = ece.options;
	qp->service.ece_mask = ece.comp_mask;
}

void ib_service_wish(struct ib_qp *qp, int traffic_class)
{
	const struct anynet_config *cfg = anynet_net.cfg;
	int other = traffic_class >= 0 ? traffic_class : 0;

	qp->service = (struct anynet_wire_service){
		.sl = (uint8_t)(cfg->ib_sl >= 0 ? cfg->ib_sl : other & SL_MAX),
		.tc = (uint8_t)(cfg->ib_tc >= 0 ? cfg->ib_tc : other),
		.adaptive = wants_adaptive(qp),
	};
	read_ece(qp);
}

void ib_service_join(struct ib_qp *qp, const struct anynet_wire_service *peer)
{
	struct ibv_ece ece = {
		.vendor_id = peer->ece_vendor,
		.options = peer->ece_options,
		.comp_mask = peer->ece_mask,
	};

	/* ECE that the adapter refuses is left out: the queue pair then follows the standard. */
	qp->service = (struct anynet_wire_service){
		.sl = peer->sl & SL_MAX,
		.tc = peer->tc,
		.adaptive = peer->adaptive && (qp->is_send || wants_adaptive(qp)),
		.has_ece = peer->has_ece && has_ece(qp) && !qp->nic->verbs->set_ece(qp->ibv, &ece),
	};
	/* Adapters do not route a WRITE WITH IMM adaptively, so large messages do not use it. */
	qp->limits.whole_max = IB_IMM_SIZE_MAX;
	if (qp->service.adaptive && anynet_net.cfg->ib_ar_threshold < IB_IMM_SIZE_MAX)
		qp->limits.whole_max = (uint32_t)anynet_net.cfg->ib_ar_threshold;
}

void ib_service_answer(struct ib_qp *qp)
{
	if (qp->service.has_ece)
		read_ece(qp);
}

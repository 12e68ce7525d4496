/* SPDX-License-Identifier: Apache-2.0 */
/* What the ends of a queue pair agree on; see ib_service.h. */
#include "path/ib/ib_service.h"

#include "base/net.h"

#define SL_MAX 15

/* Where nothing is set InfiniBand fabrics route adaptively as they like; on Ethernet few do. */
static bool wants_adaptive(const struct ib_link *link)
{
	int wish = anynet_net.cfg->ib_adaptive;

	return wish == ANYNET_AUTO ? link->attr.link_layer == IBV_LINK_LAYER_INFINIBAND : wish;
}

static bool has_ece(const struct ib_link *link)
{
	const struct verbs *verbs = link->nic->verbs;

	return anynet_net.cfg->ib_ece && verbs->query_ece && verbs->set_ece;
}

static void read_ece(struct ib_link *link)
{
	struct ibv_ece ece = { .vendor_id = 0 };

	link->service.has_ece = has_ece(link) && !link->nic->verbs->query_ece(link->qp, &ece);
	link->service.ece_vendor = ece.vendor_id;
	link->service.ece_options = ece.options;
	link->service.ece_mask = ece.comp_mask;
}

void ib_service_wish(struct ib_link *link, int traffic_class)
{
	const struct anynet_config *cfg = anynet_net.cfg;
	int other = traffic_class >= 0 ? traffic_class : 0;

	link->service = (struct anynet_wire_service){
		.sl = (uint8_t)(cfg->ib_sl >= 0 ? cfg->ib_sl : other & SL_MAX),
		.tc = (uint8_t)(cfg->ib_tc >= 0 ? cfg->ib_tc : other),
		.adaptive = wants_adaptive(link),
	};
	read_ece(link);
}

void ib_service_join(struct ib_link *link, const struct anynet_wire_service *peer)
{
	struct ibv_ece ece = {
		.vendor_id = peer->ece_vendor,
		.options = peer->ece_options,
		.comp_mask = peer->ece_mask,
	};

	/* What an adapter refuses is left out: without it queue pairs are as the standard has them. */
	link->service = (struct anynet_wire_service){
		.sl = peer->sl & SL_MAX,
		.tc = peer->tc,
		.adaptive = peer->adaptive && (link->is_send || wants_adaptive(link)),
		.has_ece = peer->has_ece && has_ece(link) &&
			   !link->nic->verbs->set_ece(link->qp, &ece),
	};
	/* A WRITE WITH IMM is not routed adaptively. */
	link->whole_max = IB_IMM_SIZE_MAX;
	if (link->service.adaptive && anynet_net.cfg->ib_ar_threshold < IB_IMM_SIZE_MAX)
		link->whole_max = (uint32_t)anynet_net.cfg->ib_ar_threshold;
}

void ib_service_answer(struct ib_link *link)
{
	if (link->service.has_ece)
		read_ece(link);
}

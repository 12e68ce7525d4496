/* SPDX-License-Identifier: Apache-2.0 */
/* Making links: queue pairs from RESET to RTS, and what one end tells the other about itself. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/log.h>
#include <nccl_net/util.h>

#include "base/libc_text.h"
#include "base/net.h"
#include "base/os.h"
#include "base/pinned.h"
#include "device/ib_events.h"
#include "device/links.h"
#include "path/ib/ib_cm.h"
#include "path/ib/ib_service.h"

#define CQ_ENTRIES    (IB_SQ_WRS + IB_SLOTS)
#define PSN_MASK      0xffffff
#define HOP_LIMIT     255

/* anynet_wire_qp.link: what can be connected with what. */
enum {
	LINK_NONE,
	LINK_IB,
	LINK_ROCE_V1,
	LINK_ROCE_V2,
};

static uint8_t link_kind(const struct ib_link *link)
{
	if (link->attr.link_layer == IBV_LINK_LAYER_INFINIBAND)
		return LINK_IB;
	return link->gid.type == IBV_GID_TYPE_ROCE_V1 ? LINK_ROCE_V1 : LINK_ROCE_V2;
}

/* A sending end's CTS ring, the slots, and what only some need. */
static int make_memory(struct ib_link *link)
{
	size_t ring = link->is_send ? sizeof(struct anynet_wire_cts_ring) : 0,
	       slots = (size_t)link->slot_count * link->slot_bytes,
	       proof = link->is_send ? IB_PROOF_BYTES : 0,
	       copies = link->inline_bytes ? 0 : (size_t)IB_SQ_WRS * IB_COPY_BYTES;

	link->memory_bytes = pinned_round(ring + slots + proof + copies);
	link->memory = pinned_alloc(link->memory_bytes);
	if (!link->memory)
		return -ENOMEM;
	if (link->is_send)
		link->cts_ring = (struct anynet_wire_cts_ring *)(void *)link->memory;
	link->slots = link->memory + ring;
	link->proof = link->slots + slots;
	link->copies = link->proof + proof;
	errno = 0;
	/* The peer writes to the CTS ring, and proves itself on the slots. */
	link->mr = link->nic->verbs->reg_mr(link->nic->pd, link->memory, link->memory_bytes,
					    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
						    (link->is_send ? 0 : IBV_ACCESS_REMOTE_READ));
	return link->mr ? 0 : errno ? -errno : -EIO;
}

/* With as much inline data, and as many pieces for a request, as there are; some adapters give less than was asked for,
 * and say so. */
static int make_qp(struct ib_link *link)
{
	static const struct {
		uint32_t inline_bytes, sges;
	} wanted[] = {
		{ IB_INLINE_WANTED, 2 },
		{ IB_COPY_BYTES, 2 },
		{ IB_COPY_BYTES, 1 },
		{ 0, 2 },
		{ 0, 1 },
	};

	for (size_t i = link->nic->takes_inline ? 0 : 3; i < ARRAY_SIZE(wanted) && !link->qp; i++) {
		struct ibv_qp_init_attr attr = {
			.qp_context = &link->failed,
			.send_cq = link->cq,
			.recv_cq = link->cq,
			.qp_type = IBV_QPT_RC,
			.cap = {
				.max_send_wr = IB_SQ_WRS,
				.max_recv_wr = link->slot_count,
				.max_send_sge = wanted[i].sges,
				.max_recv_sge = 1,
				.max_inline_data = wanted[i].inline_bytes,
			},
		};

		errno = 0;
		link->qp = link->nic->verbs->create_qp(link->nic->pd, &attr);
		link->inline_bytes =
			(uint32_t)anynet_min(attr.cap.max_inline_data, wanted[i].inline_bytes);
		link->sges = (uint32_t)anynet_min(wanted[i].sges, attr.cap.max_send_sge);
	}
	if (link->inline_bytes < IB_COPY_BYTES)
		link->inline_bytes = 0;
	return link->qp ? 0 : errno ? -errno : -EIO;
}

static int to_init(struct ib_link *link)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = (uint16_t)anynet_net.cfg->ib_pkey,
		.port_num = link->nic->port,
		.qp_access_flags =
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};

	return -link->nic->verbs->modify_qp(link->qp, &attr,
					    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						    IBV_QP_ACCESS_FLAGS);
}

/* InfiniBand: where packets for the peer go within our subnet. To another one (its number is in the last 16 bits of
 * the prefix) that is a router, whose LID for that subnet the subnet manager puts into the GIDs there, if it
 * knows routers (NCCL src/transport/net_ib/connect.cc:92, :422@v2.30.7). */
static uint16_t dlid_of(const struct ib_link *link)
{
	uint16_t flid;
	union ibv_gid gid;

	memcpy(gid.raw, link->peer.gid, sizeof(gid.raw));
	flid = gid_flid(&gid);
	return flid && memcmp(&gid.raw[6], &link->gid.raw.raw[6], 2) ? flid : link->peer.lid;
}

/* As the ends have told each other in hello and WELCOME. */
static struct ib_path path_by_hello(const struct ib_link *link)
{
	const struct anynet_wire_qp *peer = &link->peer;
	struct ib_path path = {
		.mtu = (enum ibv_mtu)anynet_min(peer->mtu, link->attr.active_mtu),
		.qpn = peer->qpn,
		.send_psn = link->psn,
		.recv_psn = peer->psn & PSN_MASK,
		.pkey_index = (uint16_t)anynet_net.cfg->ib_pkey,
		.ah = {
			.sl = link->service.sl,
			.port_num = link->nic->port,
		},
	};

	if (peer->link == LINK_IB)
		path.ah.dlid = dlid_of(link);
	if (peer->link != LINK_IB || link->attr.flags & IBV_QPF_GRH_REQUIRED ||
	    memcmp(peer->gid, link->gid.raw.raw, 8)) {
		path.ah.is_global = 1;
		memcpy(path.ah.grh.dgid.raw, peer->gid, sizeof(peer->gid));
		path.ah.grh.sgid_index = (uint8_t)link->gid.index;
		path.ah.grh.hop_limit = HOP_LIMIT;
		path.ah.grh.traffic_class = link->service.tc;
	}
	return path;
}

static int make(struct ib_link *link)
{
	int ret;

	errno = 0;
	link->cq =
		link->nic->verbs->create_cq(link->nic->context, CQ_ENTRIES, &link->failed, NULL, 0);
	if (!link->cq)
		return errno ? -errno : -EIO;
	ret = make_qp(link);
	if (!ret)
		ret = make_memory(link);
	if (!ret)
		ret = to_init(link);
	return ret ? ret : ib_link_post_slots(link);
}

static int choose_gid(struct ib_link *link, const struct anynet_wire_qp *peer, char *why,
		      size_t why_bytes)
{
	struct gid theirs = { .type = IBV_GID_TYPE_IB };
	int match;

	if (peer && peer->link == LINK_ROCE_V1)
		theirs.type = IBV_GID_TYPE_ROCE_V1;
	else if (peer && peer->link == LINK_ROCE_V2)
		theirs.type = IBV_GID_TYPE_ROCE_V2;
	if (peer)
		memcpy(theirs.raw.raw, peer->gid, sizeof(peer->gid));
	link->attr = ib_nic_attr(link->nic);
	link->losses = link_losses(link->nic->dev);
	return ib_nic_choose_gid(link->nic, peer ? &theirs : NULL, peer ? 1 : 0, &link->gid, &match,
				 why, why_bytes);
}

/* An end through this device, towards the peer's where that is known. */
static struct ib_link *create(const struct anynet_device *dev, bool is_send,
			      const struct anynet_wire_qp *peer, char *why, size_t why_bytes)
{
	struct ib_nic *nic = ib_events_open(dev, why, why_bytes);
	struct ib_link *link;
	int ret;

	if (!nic)
		return NULL;
	link = calloc(1, sizeof(*link));
	if (!link) {
		snprintf(why, why_bytes, "out of memory");
		return NULL;
	}
	link->nic = nic;
	link->is_send = is_send;
	link->slot_count = is_send ? IB_CONTROL_SLOTS : IB_SLOTS;
	link->slot_bytes = is_send ? IB_CONTROL_BYTES : IB_SLOT_BYTES;
	if (choose_gid(link, peer, why, why_bytes)) {
		ib_link_free(link);
		return NULL;
	}
	ret = os_random(&link->psn, sizeof(link->psn));
	link->psn &= PSN_MASK;
	if (!ret)
		ret = make(link);
	if (ret) {
		snprintf(why, why_bytes, "dev %s: cannot create a queue pair: %s%s", dev->name,
			 error_text(-ret), ret == -ENOMEM ? " (RLIMIT_MEMLOCK too small?)" : "");
		ib_link_free(link);
		return NULL;
	}
	return link;
}

bool ib_link_is_with(const struct ib_link *link, const struct anynet_wire_qp *peer)
{
	return link->peer.qpn == peer->qpn && link->peer.psn == peer->psn &&
	       !memcmp(link->peer.gid, peer->gid, sizeof(peer->gid));
}

void ib_link_describe(const struct ib_link *link, struct anynet_wire_hello *hello)
{
	hello->service = link->service;
	hello->qp = (struct anynet_wire_qp){
		.link = link_kind(link),
		.mtu = (uint8_t)link->attr.active_mtu,
		.lid = link->attr.lid,
		.qpn = link->qp->qp_num,
		.psn = link->psn,
		.rkey = link->mr->rkey,
		.addr = (uintptr_t)(link->is_send ? (void *)link->cts_ring : link->slots),
		.slots = link->slot_count,
		.slot_bytes = link->slot_bytes,
	};
	memcpy(hello->qp.gid, link->gid.raw.raw, sizeof(hello->qp.gid));
}

struct ib_link *ib_link_offer(const struct anynet_device *dev, int traffic_class,
			      struct anynet_wire_hello *hello, char *why, size_t why_bytes)
{
	struct ib_link *link = create(dev, true, NULL, why, why_bytes);
	char no_cm[IB_CM_WHY_BYTES];

	if (!link)
		return NULL;
	ib_service_wish(link, traffic_class);
	ib_link_describe(link, hello);
	link->wants_cm = ib_cm_is_wanted(no_cm, sizeof(no_cm)) && hello->cm.wanted;
	if (*no_cm)
		snprintf(hello->reason, sizeof(hello->reason), "%s: %s", anynet_net.host, no_cm);
	hello->cm.wanted = link->wants_cm;
	return link;
}

/* Can the two ends go together? If so the peer is known from here on. */
static int meet(struct ib_link *link, const struct anynet_wire_hello *peer, bool by_cm)
{
	const struct anynet_wire_qp *qp = &peer->qp;
	struct anynet_wire_service service = peer->service;

	if (qp->link != link_kind(link))
		return -EPROTONOSUPPORT;
	if (qp->mtu < IBV_MTU_256 || qp->mtu > IBV_MTU_4096 || qp->slots < IB_CONTROL_SLOTS ||
	    qp->slots > 4096 || qp->slot_bytes < (link->is_send ? IB_SLOT_BYTES : IB_CONTROL_BYTES))
		return -EPROTO;
	link->peer = *qp;
	service.has_ece &= !by_cm; /* the acceptor's answer comes too early for it */
	ib_service_join(link, &service);
	return 0;
}

static int connect_by_hello(struct ib_link *link)
{
	struct ib_path path = path_by_hello(link);
	int ret = ib_link_to_rts(link, &path);

	if (!ret)
		link->state = IB_LINK_JOINED;
	return ret;
}

int ib_link_join(struct ib_link *link, const struct anynet_wire_hello *welcome)
{
	bool by_cm = link->wants_cm && welcome->cm.addr.family;
	int ret = meet(link, welcome, by_cm);

	if (ret)
		return ret;
	if (by_cm) {
		ret = ib_cm_connect(link, &welcome->cm);
		return ret ? ret : -EINPROGRESS;
	}
	return connect_by_hello(link);
}

/* How far the manager has come with the queue pair at either end is not known: begin at the beginning. */
int ib_link_rejoin(struct ib_link *link)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	int ret;

	ib_cm_quit(link);
	ret = -link->nic->verbs->modify_qp(link->qp, &attr, IBV_QP_STATE);
	link->recvs = 0;
	if (!ret)
		ret = to_init(link);
	if (!ret)
		ret = ib_link_post_slots(link);
	return ret ? ret : connect_by_hello(link);
}

int ib_link_joined(struct ib_link *link, char *why, size_t why_bytes)
{
	int ret = ib_cm_step(link, why, why_bytes);

	if (!ret)
		link->state = IB_LINK_JOINED;
	return ret;
}

bool ib_link_is_possible(const struct anynet_device *dev)
{
	char why[160];
	struct ib_nic *nic = ib_events_open(dev, why, sizeof(why));

	return nic && !link_port_is_down(dev);
}

/* False: `why` tells both ends, unless neither has an IB device. */
static bool may_accept(const struct anynet_device *dev, const struct anynet_wire_hello *hello,
		       char *why, size_t why_bytes)
{
	bool ours = dev && dev->link == ANYNET_LINK_IB,
	     theirs = hello->transports & 1u << ANYNET_LINK_IB;

	if (ours != theirs)
		snprintf(why, why_bytes, "%s uses no verbs device",
			 ours ? hello->host : anynet_net.host);
	else if (ours && anynet_net.cfg->checksum)
		snprintf(why, why_bytes, "ANYNET_CHECKSUM is set on %s", anynet_net.host);
	else if (ours && !hello->qp.link)
		snprintf(why, why_bytes, "%s", *hello->reason ? hello->reason : "the peer offers none");
	return ours && theirs && hello->qp.link && !*why;
}

/* Why the RDMA connection manager is not used, if one end would have liked to: `own` tells about ours. */
static void say_no_cm(const struct anynet_wire_hello *hello, const char *own, char *why,
		      size_t why_bytes)
{
	if (*own)
		snprintf(why, why_bytes, "%s: %s", anynet_net.host, own);
	else if (*hello->reason)
		snprintf(why, why_bytes, "%s", hello->reason);
	else if (anynet_net.cfg->ib_cm != (bool)hello->cm.wanted)
		snprintf(why, why_bytes, "ANYNET_IB_CM is not set on %s",
			 hello->cm.wanted ? anynet_net.host : hello->host);
}

/* By the connection manager if both ends want that and this one can. */
static int accept_offer(struct ib_link *link, const struct anynet_wire_hello *hello,
			struct anynet_wire_hello *answer)
{
	char why[IB_CM_WHY_BYTES];
	bool by_cm = ib_cm_is_wanted(why, sizeof(why)) && hello->cm.wanted;
	int ret = meet(link, hello, by_cm);

	if (ret)
		return ret;
	if (by_cm && !ib_cm_listen(link, &answer->cm, why, sizeof(why))) {
		link->state = IB_LINK_JOINED;
		return 0;
	}
	say_no_cm(hello, why, answer->reason, sizeof(answer->reason));
	return connect_by_hello(link);
}

struct ib_link *ib_link_accept(const struct anynet_device *dev,
			       const struct anynet_wire_hello *hello,
			       struct anynet_wire_hello *answer)
{
	struct ib_link *link;
	int ret;

	if (!may_accept(dev, hello, answer->reason, sizeof(answer->reason)))
		return NULL;
	link = create(dev, false, &hello->qp, answer->reason, sizeof(answer->reason));
	if (!link)
		return NULL;
	answer->reason[0] = '\0';
	ret = accept_offer(link, hello, answer);
	if (ret) {
		snprintf(answer->reason, sizeof(answer->reason), "%s dev %.63s: %s",
			 anynet_net.host, dev->name,
			 ret == -EPROTONOSUPPORT ? "another link type" : error_text(-ret));
		ib_link_free(link);
		return NULL;
	}
	ib_service_answer(link);
	ib_link_describe(link, answer);
	return link;
}

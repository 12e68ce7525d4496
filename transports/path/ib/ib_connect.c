/* SPDX-License-Identifier: Apache-2.0 */
/* Creating and connecting queue pairs, from RESET to RTS, and their description in hello and WELCOME. */
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
#include "device/carrier.h"
#include "device/ib_events.h"
#include "path/ib/ib_cm.h"

#define CQ_ENTRIES    (IB_SQ_WRS + IB_SLOTS)

/* Values of anynet_wire_qp.kind. Only ends of the same kind connect. */
enum {
	KIND_IB = 1,
	KIND_ROCE_V1,
	KIND_ROCE_V2,
};

static uint8_t kind_of(const struct ib_qp *qp)
{
	if (qp->port.attr.link_layer == IBV_LINK_LAYER_INFINIBAND)
		return KIND_IB;
	return qp->port.gid.type == IBV_GID_TYPE_ROCE_V1 ? KIND_ROCE_V1 : KIND_ROCE_V2;
}

/* What the peer may do, by this queue pair and in its memory. The acceptor writes to the CTS ring; the connector's proof
 * writes to and reads from the acceptor's slots. */
static unsigned peer_access(const struct ib_qp *qp)
{
	return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
	       (qp->is_send ? 0 : IBV_ACCESS_REMOTE_READ);
}

/* Allocates and registers qp->memory. 0 or -errno. */
static int make_memory(struct ib_qp *qp)
{
	size_t ring = qp->is_send ? sizeof(struct anynet_wire_cts_ring) : 0,
	       slots = (size_t)qp->memory.slot_count * qp->memory.slot_bytes,
	       proof = qp->is_send ? IB_PROOF_BYTES : 0,
	       copies = qp->limits.inline_bytes ? 0 : (size_t)IB_SQ_WRS * IB_COPY_BYTES;

	qp->memory.bytes = pinned_round(ring + slots + proof + copies);
	qp->memory.start = pinned_alloc(qp->memory.bytes);
	if (!qp->memory.start)
		return -ENOMEM;
	if (qp->is_send)
		qp->memory.cts_ring = (struct anynet_wire_cts_ring *)(void *)qp->memory.start;
	qp->memory.slots = qp->memory.start + ring;
	qp->memory.proof = qp->memory.slots + slots;
	qp->memory.copies = qp->memory.proof + proof;
	errno = 0;
	qp->memory.mr = qp->nic->verbs->reg_mr(qp->nic->pd, qp->memory.start, qp->memory.bytes,
					       (int)peer_access(qp));
	return qp->memory.mr ? 0 : errno ? -errno : -EIO;
}

/* Tries capabilities from the best to the least: some adapters refuse inline data or a second SGE, others give less
 * than was requested. */
static int make_qp(struct ib_qp *qp)
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

	for (size_t i = qp->nic->takes_inline ? 0 : 3; i < ARRAY_SIZE(wanted) && !qp->ibv; i++) {
		struct ibv_qp_init_attr attr = {
			.qp_context = &qp->fault.failed,
			.send_cq = qp->cq,
			.recv_cq = qp->cq,
			.qp_type = IBV_QPT_RC,
			.cap = {
				.max_send_wr = IB_SQ_WRS,
				.max_recv_wr = qp->memory.slot_count,
				.max_send_sge = wanted[i].sges,
				.max_recv_sge = 1,
				.max_inline_data = wanted[i].inline_bytes,
			},
		};

		errno = 0;
		qp->ibv = qp->nic->verbs->create_qp(qp->nic->pd, &attr);
		qp->limits.inline_bytes =
			(uint32_t)anynet_min(attr.cap.max_inline_data, wanted[i].inline_bytes);
		qp->limits.sges = (uint32_t)anynet_min(wanted[i].sges, attr.cap.max_send_sge);
	}
	if (qp->limits.inline_bytes < IB_COPY_BYTES)
		qp->limits.inline_bytes = 0;
	return qp->ibv ? 0 : errno ? -errno : -EIO;
}

static int to_init(struct ib_qp *qp)
{
	return verbs_to_init(qp->nic->verbs, qp->ibv, qp->nic->port, anynet_net.cfg->ib_pkey,
			     peer_access(qp));
}

/* InfiniBand: destination LID. For another subnet (its number is in the last 16 bits of the GID prefix) it is that of a
 * router. A subnet manager that supports routers encodes this LID, the FLID, in the GIDs of that subnet (NCCL
 * src/transport/net_ib/connect.cc:92, :422@v2.30.7). */
static uint16_t dlid_of(const struct ib_qp *qp)
{
	uint16_t flid;
	union ibv_gid gid;

	memcpy(gid.raw, qp->peer.gid, sizeof(gid.raw));
	flid = gid_flid(&gid);
	return flid && memcmp(&gid.raw[6], &qp->port.gid.raw.raw[6], 2) ? flid : qp->peer.lid;
}

/* The path that hello and WELCOME describe. */
static struct ib_path path_by_hello(const struct ib_qp *qp)
{
	const struct anynet_wire_qp *peer = &qp->peer;
	struct ib_path path = {
		.mtu = (enum ibv_mtu)anynet_min(peer->mtu, qp->port.attr.active_mtu),
		.qpn = peer->qpn,
		.send_psn = qp->psn,
		.recv_psn = peer->psn & IB_PSN_MASK,
		.pkey_index = (uint16_t)anynet_net.cfg->ib_pkey,
		.ah = {
			.sl = qp->service.sl,
			.port_num = qp->nic->port,
		},
	};

	if (peer->kind == KIND_IB)
		path.ah.dlid = dlid_of(qp);
	if (peer->kind != KIND_IB || qp->port.attr.flags & IBV_QPF_GRH_REQUIRED ||
	    memcmp(peer->gid, qp->port.gid.raw.raw, 8)) {
		path.ah.is_global = 1;
		memcpy(path.ah.grh.dgid.raw, peer->gid, sizeof(peer->gid));
		path.ah.grh.sgid_index = (uint8_t)qp->port.gid.index;
		path.ah.grh.hop_limit = IB_HOP_LIMIT;
		path.ah.grh.traffic_class = qp->service.tc;
	}
	return path;
}

static int make(struct ib_qp *qp)
{
	int ret = os_random(&qp->psn, sizeof(qp->psn));

	if (ret)
		return ret;
	qp->psn &= IB_PSN_MASK;
	errno = 0;
	qp->cq =
		qp->nic->verbs->create_cq(qp->nic->context, CQ_ENTRIES, &qp->fault.failed, NULL, 0);
	if (!qp->cq)
		return errno ? -errno : -EIO;
	ret = make_qp(qp);
	if (!ret)
		ret = make_memory(qp);
	if (!ret)
		ret = to_init(qp);
	return ret ? ret : ib_qp_post_slots(qp);
}

/* Reads the port, and chooses its GID. 0, or -errno and `why`. */
static int read_port(struct ib_qp *qp, const struct anynet_wire_qp *peer,
		     const struct sockaddr_storage *to, char *why, size_t why_bytes)
{
	struct gid theirs = { .type = IBV_GID_TYPE_IB };

	if (peer && peer->kind == KIND_ROCE_V1)
		theirs.type = IBV_GID_TYPE_ROCE_V1;
	else if (peer && peer->kind == KIND_ROCE_V2)
		theirs.type = IBV_GID_TYPE_ROCE_V2;
	if (peer)
		memcpy(theirs.raw.raw, peer->gid, sizeof(peer->gid));
	qp->port.attr = ib_nic_attr(qp->nic);
	qp->port.losses = carrier_losses(qp->nic->dev);
	return ib_nic_choose_gid(qp->nic, peer ? &theirs : NULL, to, &qp->port.gid, why, why_bytes);
}

/* Creates an end on this device, in INIT with all receives posted. Acceptor: `peer` is the other
 * end. Connector: `peer` is NULL, and `to` is the address that it dials. */
static struct ib_qp *create(const struct anynet_device *dev, const struct anynet_wire_qp *peer,
			    const struct sockaddr_storage *to, char *why, size_t why_bytes)
{
	struct ib_nic *nic = ib_events_open(dev, why, why_bytes);
	struct ib_qp *qp;
	int ret;

	if (!nic)
		return NULL;
	qp = calloc(1, sizeof(*qp));
	if (!qp) {
		snprintf(why, why_bytes, "out of memory");
		return NULL;
	}
	qp->nic = nic;
	qp->is_send = !peer;
	qp->memory.slot_count = qp->is_send ? IB_CONTROL_SLOTS : IB_SLOTS;
	qp->memory.slot_bytes = qp->is_send ? IB_CONTROL_BYTES : IB_SLOT_BYTES;
	ret = read_port(qp, peer, to, why, why_bytes);
	if (!ret) {
		ret = make(qp);
		if (ret)
			snprintf(why, why_bytes, "dev %s: cannot create a queue pair: %s%s",
				 dev->name, error_text(-ret),
				 ret == -ENOMEM ? " (RLIMIT_MEMLOCK too small?)" : "");
	}
	if (!ret)
		return qp;
	ib_qp_free(qp);
	return NULL;
}

bool ib_qp_is_with(const struct ib_qp *qp, const struct anynet_wire_qp *peer)
{
	return qp->peer.qpn == peer->qpn && qp->peer.psn == peer->psn &&
	       !memcmp(qp->peer.gid, peer->gid, sizeof(peer->gid));
}

void ib_qp_describe(const struct ib_qp *qp, struct anynet_wire_hello *hello)
{
	hello->service = qp->service;
	hello->qp = (struct anynet_wire_qp){
		.kind = kind_of(qp),
		.mtu = (uint8_t)qp->port.attr.active_mtu,
		.lid = qp->port.attr.lid,
		.qpn = qp->ibv->qp_num,
		.psn = qp->psn,
		.rkey = qp->memory.mr->rkey,
		.addr = (uintptr_t)(qp->is_send ? (void *)qp->memory.cts_ring : qp->memory.slots),
		.slots = qp->memory.slot_count,
		.slot_bytes = qp->memory.slot_bytes,
	};
	memcpy(hello->qp.gid, qp->port.gid.raw.raw, sizeof(hello->qp.gid));
}

struct ib_qp *ib_qp_offer(const struct anynet_device *dev, const struct sockaddr_storage *to,
			  int traffic_class, struct anynet_wire_hello *hello, char *why,
			  size_t why_bytes)
{
	struct ib_qp *qp = create(dev, NULL, to, why, why_bytes);
	char no_cm[IB_CM_WHY_BYTES];

	if (!qp)
		return NULL;
	ib_service_wish(qp, traffic_class);
	ib_qp_describe(qp, hello);
	qp->wants_cm = ib_cm_is_wanted(no_cm, sizeof(no_cm)) && hello->cm.wanted;
	if (*no_cm)
		snprintf(hello->reason, sizeof(hello->reason), "%s: %s", anynet_net.host, no_cm);
	hello->cm.wanted = qp->wants_cm;
	return qp;
}

/* Checks that the two ends fit together, and sets qp->peer and qp->service. 0 or -errno. */
static int meet(struct ib_qp *qp, const struct anynet_wire_hello *peer, bool by_cm)
{
	const struct anynet_wire_qp *end = &peer->qp;
	struct anynet_wire_service service = peer->service;

	if (end->kind != kind_of(qp))
		return -EPROTONOSUPPORT;
	if (end->mtu < IBV_MTU_256 || end->mtu > IBV_MTU_4096 || end->slots < IB_CONTROL_SLOTS ||
	    end->slots > 4096 || end->slot_bytes < (qp->is_send ? IB_SLOT_BYTES : IB_CONTROL_BYTES))
		return -EPROTO;
	qp->peer = *end;
	service.has_ece &= !by_cm; /* with the CM, the acceptor answers before its queue pair is in RTR */
	ib_service_join(qp, &service);
	return 0;
}

static int connect_by_hello(struct ib_qp *qp)
{
	struct ib_path path = path_by_hello(qp);
	int ret = ib_qp_to_rts(qp, &path);

	if (!ret)
		ib_qp_change(qp, IB_QP_JOINED);
	else
		ib_events_reread(qp->nic); /* its MTU may be too large for the port by now */
	return ret;
}

int ib_qp_join(struct ib_qp *qp, const struct anynet_wire_hello *welcome)
{
	bool by_cm = qp->wants_cm && welcome->cm.addr.family;
	int ret = meet(qp, welcome, by_cm);

	if (ret)
		return ret;
	if (by_cm) {
		ret = ib_cm_connect(qp, &welcome->cm);
		return ret ? ret : -EINPROGRESS;
	}
	return connect_by_hello(qp);
}

/* The RDMA CM may have left the queue pair in any state, so this restarts from RESET. */
int ib_qp_rejoin(struct ib_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	int ret;

	ib_cm_quit(qp);
	ret = verbs_modify_qp(qp->nic->verbs, qp->ibv, &attr, IBV_QP_STATE);
	if (!ret) {
		qp->rq.posted = 0; /* RESET drops them */
		ret = to_init(qp);
	}
	if (!ret)
		ret = ib_qp_post_slots(qp);
	return ret ? ret : connect_by_hello(qp);
}

int ib_qp_joined(struct ib_qp *qp, char *why, size_t why_bytes)
{
	int ret = ib_cm_step(qp, why, why_bytes);

	if (!ret)
		ib_qp_change(qp, IB_QP_JOINED);
	return ret;
}

bool ib_qp_is_possible(const struct anynet_device *dev)
{
	char why[160];
	struct ib_nic *nic = ib_events_open(dev, why, sizeof(why));

	return nic && !carrier_port_is_down(dev);
}

/* False: `why` has the reason for both ends; it is empty if neither has an IB device. */
static bool may_accept(const struct anynet_device *dev, const struct anynet_wire_hello *hello,
		       char *why, size_t why_bytes)
{
	bool ours = dev && dev->transport == ANYNET_TRANSPORT_IB,
	     theirs = hello->transports & 1u << ANYNET_TRANSPORT_IB;

	if (ours != theirs)
		snprintf(why, why_bytes, "%s uses no verbs device",
			 ours ? hello->host : anynet_net.host);
	else if (ours && anynet_net.cfg->checksum)
		snprintf(why, why_bytes, "ANYNET_CHECKSUM is set on %s", anynet_net.host);
	else if (ours && !hello->qp.kind)
		snprintf(why, why_bytes, "%s", *hello->reason ? hello->reason : "the peer offers none");
	return ours && !*why;
}

/* Writes to `why` why the RDMA CM is not used, if either end wants it. `own`: the reason at this end, may be empty. */
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

/* Connects to the offer: by the RDMA CM if both ends want it and it is available here. 0 or -errno. */
static int accept_offer(struct ib_qp *qp, const struct anynet_wire_hello *hello,
			struct anynet_wire_hello *answer)
{
	char why[IB_CM_WHY_BYTES];
	bool by_cm = ib_cm_is_wanted(why, sizeof(why)) && hello->cm.wanted;
	int ret = meet(qp, hello, by_cm);

	if (ret)
		return ret;
	if (by_cm && !ib_cm_listen(qp, &answer->cm, why, sizeof(why))) {
		ib_qp_change(qp, IB_QP_JOINED);
		return 0;
	}
	say_no_cm(hello, why, answer->reason, sizeof(answer->reason));
	return connect_by_hello(qp);
}

struct ib_qp *ib_qp_accept(const struct anynet_device *dev, const struct anynet_wire_hello *hello,
			   struct anynet_wire_hello *answer)
{
	struct ib_qp *qp;
	int ret;

	if (!may_accept(dev, hello, answer->reason, sizeof(answer->reason)))
		return NULL;
	qp = create(dev, &hello->qp, NULL, answer->reason, sizeof(answer->reason));
	if (!qp)
		return NULL;
	answer->reason[0] = '\0';
	ret = accept_offer(qp, hello, answer);
	if (ret) {
		snprintf(answer->reason, sizeof(answer->reason), "%s dev %.63s: %s",
			 anynet_net.host, dev->name,
			 ret == -EPROTONOSUPPORT ? "another link type" : error_text(-ret));
		ib_qp_free(qp);
		return NULL;
	}
	ib_service_answer(qp);
	ib_qp_describe(qp, answer);
	return qp;
}

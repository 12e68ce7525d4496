/* SPDX-License-Identifier: Apache-2.0 */
/* Moving a queue pair from INIT to RTS. */
#include <errno.h>

#include "base/net.h"
#include "device/ib_silent.h"
#include "path/ib/ib_qp.h"

#define MIN_RNR_TIMER 12 /* 0.64 ms; only control frames lack flow control */
#define RNR_FOR_EVER  7

static int to_rtr(struct ib_qp *qp, const struct ib_path *path)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = path->mtu,
		.dest_qp_num = path->qpn,
		.rq_psn = path->recv_psn,
		.pkey_index = path->pkey_index,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = MIN_RNR_TIMER,
		.ah_attr = path->ah,
	};
	int other_pkey = path->pkey_index == anynet_net.cfg->ib_pkey ? 0 : IBV_QP_PKEY_INDEX;

	return verbs_modify_qp(qp->nic->verbs, qp->ibv, &attr,
			       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER | other_pkey);
}

static int to_rts(struct ib_qp *qp, const struct ib_path *path)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = (uint8_t)anynet_net.cfg->ib_timeout,
		.retry_cnt = (uint8_t)anynet_net.cfg->ib_retry_cnt,
		.rnr_retry = RNR_FOR_EVER,
		.sq_psn = path->send_psn,
		.max_rd_atomic = 1,
	};

	return verbs_modify_qp(qp->nic->verbs, qp->ibv, &attr,
			       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
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

int ib_qp_to_rts(struct ib_qp *qp, const struct ib_path *path)
{
	int ret = path->ah.is_global ? find_peer(qp, path) : to_rtr(qp, path);

	qp->limits.packet_bytes = 128u << path->mtu;
	return ret ? ret : to_rts(qp, path);
}

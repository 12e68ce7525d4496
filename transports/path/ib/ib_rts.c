/* SPDX-License-Identifier: Apache-2.0 */
/* Moving a queue pair from INIT to RTS. */
#include <errno.h>

#include "base/net.h"
#include "device/ib_silent.h"
#include "path/ib/ib_qp.h"

#define RNR_FOR_EVER 7 /* only control frames lack flow control */

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
	path->rnr_retries = RNR_FOR_EVER;
	path->reads = 1;
	qp->limits.packet_bytes = 128u << path->mtu;
	ret = path->ah.is_global ? find_peer(qp, path) : to_rtr(qp, path);
	return ret ? ret : verbs_to_rts(qp->nic->verbs, qp->ibv, path);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs that are connected to themselves: the proof that a verbs port carries data. */
#ifndef ANYNET_IB_LOOPBACK_H
#define ANYNET_IB_LOOPBACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nccl_net/config.h>

#include "device/gid.h"
#include "device/ib_port.h"
#include "device/verbs.h"

/*
 * Do by the GID of a port in this state all that a connection needs: memory, as much as one of NCCL's buffers, queues, a
 * connected RC queue pair, an RDMA WRITE WITH IMM of a full packet, a SEND, and their completions. What it
 * makes is gone afterwards. Blocks for a few milliseconds on an adapter, a second on soft-RoCE, three at most
 * beside what the driver takes. Any thread. state->takes_inline: small requests may be inline; if not, the SEND has
 * worked from registered memory.
 *
 * 0; -ENOMEM: no memory can be registered or queues made; -EIO: another step failed; -ETIMEDOUT: no
 * completion came; -EBADMSG: wrong bytes arrived. `why` names the step, in `why_bytes`.
 */
int ib_loopback(const struct anynet_config *cfg, const struct verbs_port *port,
		struct ib_port *state, char *why, size_t why_bytes);

/* What a queue pair has to know of its port. */
struct ib_loop_port {
	const struct anynet_config *cfg;
	const struct verbs *verbs;
	uint8_t number;
	const struct ibv_port_attr *attr;
	const struct gid *gid;
	uint8_t timeout, retries; /* as in struct ibv_qp_attr */
	uint8_t reads;            /* in flight at once */
};

/* Connect a new RC queue pair to itself, for WRITE and READ. 0, or -EIO and `why` names the step. */
int ib_loop_connect(const struct ib_loop_port *port, struct ibv_qp *qp, char *why,
		    size_t why_bytes);

#endif

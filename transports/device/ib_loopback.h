/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs that are connected to themselves: the test that a verbs port carries data. */
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
 * Performs all steps of a connection on a port, with state->gid: registers as much memory as one of NCCL's buffers,
 * creates queues, connects an RC queue pair to itself, and awaits the completions of an RDMA WRITE WITH IMM of a full
 * packet and of a SEND. Frees everything afterwards. Takes a few milliseconds on an adapter, a second on soft-RoCE, and
 * at most 3 s plus the time of the driver's calls. Any thread. Sets state->takes_inline: small requests may be inline.
 * False = the SEND was tried from registered memory.
 *
 * 0; -ENOMEM: no memory could be registered or no queue created; -EIO: another step failed; -ETIMEDOUT: a completion is
 * missing; -EBADMSG: wrong bytes arrived. On an error `why`, of `why_bytes`, names the step.
 */
int ib_loopback(const struct anynet_config *cfg, const struct verbs_port *port,
		struct ib_port *state, char *why, size_t why_bytes);

/* The port, and the attributes of a queue pair on it. */
struct ib_loop_port {
	const struct anynet_config *cfg;
	const struct verbs *verbs;
	uint8_t number;
	const struct ibv_port_attr *attr;
	const struct gid *gid;
	uint8_t timeout, retries; /* as in struct ibv_qp_attr */
	uint8_t reads;            /* max RDMA READs in flight */
};

/* Connects a new RC queue pair to itself, for WRITE and READ. 0, or -errno: `why` names the step that failed. */
int ib_loop_connect(const struct ib_loop_port *port, struct ibv_qp *qp, char *why,
		    size_t why_bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Service of a queue pair, negotiated by its ends: service level, traffic class, adaptive routing, and the vendor's
 * options (ECE, struct ibv_ece). The connector requests in the hello, the acceptor answers with what it uses, and the
 * connector adopts the answer. Called by the queue pair's owner.
 */
#ifndef ANYNET_IB_SERVICE_H
#define ANYNET_IB_SERVICE_H

#include "path/ib/ib_qp.h"

/* Connector, in INIT: fills qp->service with its request. `traffic_class`: that of NCCL's communicator, -1 = none. It
 * is used for SL and TC if the settings leave them open, as in NCCL (net_ib@2.28). */
void ib_service_wish(struct ib_qp *qp, int traffic_class);

/* Both ends: adopts the peer's request or answer as far as possible, before the queue pair goes to RTR. */
void ib_service_join(struct ib_qp *qp, const struct anynet_wire_service *peer);
/* Acceptor, after RTR: completes qp->service, which is then its answer. */
void ib_service_answer(struct ib_qp *qp);

#endif

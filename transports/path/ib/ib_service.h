/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two ends of a queue pair agree on besides their addresses: service level, traffic class,
 * adaptive routing, and what adapters of one kind can do together (ECE: struct ibv_ece). The connector
 * wishes, the acceptor answers with what it is, and the connector takes that over. By who makes the queue pair.
 */
#ifndef ANYNET_IB_SERVICE_H
#define ANYNET_IB_SERVICE_H

#include "path/ib/ib_qp.h"

/* The connector's wish, when its queue pair is made. `traffic_class`: NCCL's of this communicator, -1 = it
 * has none; for SL and TC where the settings leave them open (NCCL net_ib@2.28). */
void ib_service_wish(struct ib_qp *qp, int traffic_class);

/* Take over what the other end says, before the queue pair goes to RTR. The acceptor's qp->service is its
 * answer once ib_service_answer was called, behind RTR. */
void ib_service_join(struct ib_qp *qp, const struct anynet_wire_service *peer);
void ib_service_answer(struct ib_qp *qp);

#endif

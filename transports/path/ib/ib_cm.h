/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs connected by the RDMA connection manager, RDMA CM (docs/ib.md). It finds the path, chooses the PSNs and
 * tells each end the other's QP number. The plugin creates the queue pairs itself; the verbs contexts of the CM's ids
 * are not used. One event channel serves all queue pairs of the process. The background thread reads it together with
 * the ports' events, so that an acceptor answers even if NCCL does not call. Connectors read it in ib_cm_step, too.
 */
#ifndef ANYNET_IB_CM_H
#define ANYNET_IB_CM_H

#include "path/ib/ib_qp.h"

#define IB_CM_WHY_BYTES 112 /* text of a reason; in a hello the host name precedes it */

/* Is the RDMA CM enabled and available? If it is enabled but not available, `why` has the reason; else it is empty.
 * Any thread. */
bool ib_cm_is_wanted(char *why, size_t why_bytes);

/* Acceptor: listens for the peer, and fills *wire with address and nonce. A request with that nonce connects qp->ibv,
 * which is in INIT. 0, or -errno and `why`. */
int ib_cm_listen(struct ib_qp *qp, struct anynet_wire_cm *wire, char *why, size_t why_bytes);

/* Connector: starts to connect qp->ibv, which is in INIT, to the acceptor that *wire describes. -ENOMEM, or 0: then
 * call ib_cm_step, which reports all other errors. */
int ib_cm_connect(struct ib_qp *qp, const struct anynet_wire_cm *wire);
/* Connector: 0: qp->ibv is in RTS; -EAGAIN: not yet; or -errno and `why`. */
int ib_cm_step(struct ib_qp *qp, char *why, size_t why_bytes);

/* Both ends, by the queue pair's owner; no effect if qp->cm is NULL. After ib_cm_quit the CM does not touch the queue
 * pair. ib_cm_free frees the CM's state; it may take as long as destroying a queue pair. */
void ib_cm_quit(struct ib_qp *qp);
void ib_cm_free(struct ib_qp *qp);

/* Reads pending events. If another thread is reading: waits for it with `wait`, else returns false. True: a queue pair
 * has failed, comms should look at theirs. */
bool ib_cm_read(bool wait);

#endif

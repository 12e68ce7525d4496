/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs that the RDMA connection manager connects (docs/ib.md): it finds the path,
 * numbers the packets and tells each end what the other is. The queue pairs are ours all the same; its
 * ids have verbs contexts of their own, of which nothing is made. One event channel serves all queue pairs of
 * the process. It is read by the background thread with the ports' events, so that an acceptor answers whatever
 * its comm's owner does, and by connectors themselves in their steps.
 */
#ifndef ANYNET_IB_CM_H
#define ANYNET_IB_CM_H

#include "path/ib/ib_qp.h"

#define IB_CM_WHY_BYTES 112 /* of a reason; in a hello there is a host's name before it */

/* Is it asked for, and to be had? If asked for in vain, `why` tells, in `why_bytes`, else it is empty.
 * Any thread. */
bool ib_cm_is_wanted(char *why, size_t why_bytes);

/* The acceptor's end: from now on the peer that knows the nonce in *wire may connect to qp->qp, which
 * is in INIT. 0, or -errno and `why`. */
int ib_cm_listen(struct ib_qp *qp, struct anynet_wire_cm *wire, char *why, size_t why_bytes);

/* The connector's end: connect qp->qp, in INIT, to the acceptor's described in *wire. 0 or -errno; then
 * ask ib_cm_step, by the owner of `qp`, until it says 0: qp->qp is in RTS, or -errno and `why`; -EAGAIN:
 * not yet. */
int ib_cm_connect(struct ib_qp *qp, const struct anynet_wire_cm *wire);
int ib_cm_step(struct ib_qp *qp, char *why, size_t why_bytes);

/* By the owner of `qp`. ib_cm_quit: qp->qp is not touched any more. ib_cm_free: all of it is gone, which may take as
 * long as to destroy a queue pair. Without a connection manager (qp->cm is NULL) both do nothing. */
void ib_cm_quit(struct ib_qp *qp);
void ib_cm_free(struct ib_qp *qp);

/* Read what events there are. `wait`: even if another thread is doing it. True: comms should look at
 * their queue pairs. */
bool ib_cm_read(bool wait);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Links as those who set up connections see them: made at either end, described in the hello and its
 * answer, joined, proven, and given to a stream. What they are is in ib_qp.h. */
#ifndef ANYNET_IB_SETUP_H
#define ANYNET_IB_SETUP_H

#include <nccl_net/device.h>
#include <nccl_net/wire.h>

struct ib_qp;

/* The connector's end through this IB device, and its description in the hello. `traffic_class`: NCCL's
 * for this comm, -1 = none. With hello->cm.wanted the RDMA connection manager may be asked for. NULL: it
 * cannot be had, `why` tells. */
struct ib_qp *ib_qp_offer(const struct anynet_device *dev, int traffic_class,
			  struct anynet_wire_hello *hello, char *why, size_t why_bytes);

/* Either end's description, in hello or answer; and is it the end that this one has been joined with? */
void ib_qp_describe(const struct ib_qp *qp, struct anynet_wire_hello *hello);
bool ib_qp_is_with(const struct ib_qp *qp, const struct anynet_wire_qp *peer);

/* Connect to the end that the WELCOME describes: it can be posted to then. 0, -EINPROGRESS: by the RDMA
 * connection manager, ask ib_qp_joined, or -errno. */
int ib_qp_join(struct ib_qp *qp, const struct anynet_wire_hello *welcome);
/* 0, -EAGAIN: not yet, or -errno and `why`: then without the manager, if the peer is told as well (PING with
 * ANYNET_PING_JOIN). 0 or -errno. */
int ib_qp_joined(struct ib_qp *qp, char *why, size_t why_bytes);
int ib_qp_rejoin(struct ib_qp *qp);

/* The connector's end finds out whether the queue pair carries what it is for (ib_prove.c): begin, 0 or -errno; then ask: 0,
 * -EAGAIN: not known yet, or -errno. Why it has not proven itself, in words, after such an answer. */
int ib_qp_begin_proof(struct ib_qp *qp);
int ib_qp_prove(struct ib_qp *qp);
void ib_qp_unproven(const struct ib_qp *qp, int err, char *why, size_t why_bytes);

/* NULL is fine. `retire`: soon (ib_chores.c), as the kernel may take seconds to destroy a queue pair, until its last
 * packets are off the wire; any thread. */
void ib_qp_free(struct ib_qp *qp);
void ib_qp_retire(struct ib_qp *qp);

/* The acceptor's end for an offer in a hello, joined, or waiting for the RDMA connection manager to do it;
 * described in `answer`. Where the manager is not used, though one end would have liked that,
 * answer->reason tells why. NULL: none was offered, or answer->reason tells why there is none. */
struct ib_qp *ib_qp_accept(const struct anynet_device *dev, const struct anynet_wire_hello *hello,
			   struct anynet_wire_hello *answer);

/* Is the device's port in a state in which a queue pair is worth a try, as far as known? */
bool ib_qp_is_possible(const struct anynet_device *dev);

/* What takes long (ib_chores.c): see to it that it is done, by a thread of its own. True: as above. Is there
 * anything to be done? When nobody is there to call this: do all of it. At exit: wait for that thread, but no
 * longer than this. With no lock. */
bool ib_chores(void);
bool ib_chores_pending(void);
void ib_chores_finish(void);
void ib_chores_leave(uint64_t ms);

#endif

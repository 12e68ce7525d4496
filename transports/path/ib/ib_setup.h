/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs as connection set-up sees them: created at both ends, described in hello and WELCOME, connected, proven,
 * and given to a stream. struct ib_qp is in ib_qp.h. */
#ifndef ANYNET_IB_SETUP_H
#define ANYNET_IB_SETUP_H

#include <sys/socket.h>

#include <nccl_net/device.h>
#include <nccl_net/wire.h>

struct ib_qp;

/* Connector: creates its end on this IB device and describes it in the hello, which goes to address `to`. `traffic_class`:
 * NCCL's for this comm, -1 = none. hello->cm.wanted, in: the RDMA CM may be used; out: it is asked for. NULL: `why` has
 * the reason. */
struct ib_qp *ib_qp_offer(const struct anynet_device *dev, const struct sockaddr_storage *to,
			  int traffic_class, struct anynet_wire_hello *hello, char *why,
			  size_t why_bytes);

/* Describes this end in a hello or WELCOME. */
void ib_qp_describe(const struct ib_qp *qp, struct anynet_wire_hello *hello);
/* Is `peer` the end that this one is connected to? */
bool ib_qp_is_with(const struct ib_qp *qp, const struct anynet_wire_qp *peer);

/* Connector: connects to the end that the WELCOME describes. 0: connected; -EINPROGRESS: the RDMA CM connects it, call
 * ib_qp_joined; or -errno. */
int ib_qp_join(struct ib_qp *qp, const struct anynet_wire_hello *welcome);
/* Connector, RDMA CM: 0: connected; -EAGAIN: not yet; or -errno and `why`: the CM has failed. */
int ib_qp_joined(struct ib_qp *qp, char *why, size_t why_bytes);
/* After the CM has failed: connects without it, as hello and WELCOME describe. Both ends must do so; they agree by
 * PINGs with ANYNET_PING_JOIN over TCP. 0 or -errno. */
int ib_qp_rejoin(struct ib_qp *qp);

/* Connector, ib_prove.c: tests the connected queue pair. Begin: 0 or -errno. Then call ib_qp_prove: 0: proven; -EAGAIN:
 * not yet; or -errno. ib_qp_unproven describes such an error, or -EAGAIN after a timeout. */
int ib_qp_begin_proof(struct ib_qp *qp);
int ib_qp_prove(struct ib_qp *qp);
void ib_qp_unproven(const struct ib_qp *qp, int err, char *why, size_t why_bytes);

/* Both accept NULL. ib_qp_free destroys at once; the kernel may take seconds, until the last packets have left.
 * ib_qp_retire leaves that to the thread of ib_chores.c; any thread. */
void ib_qp_free(struct ib_qp *qp);
void ib_qp_retire(struct ib_qp *qp);

/* Acceptor: creates its end for the offer in a hello and describes it in `answer`. It is connected, or the RDMA CM is
 * going to connect it. If the CM is not used but either end wants it, answer->reason says why. NULL: no queue pair was
 * offered, or answer->reason says why there is none. */
struct ib_qp *ib_qp_accept(const struct anynet_device *dev, const struct anynet_wire_hello *hello,
			   struct anynet_wire_hello *answer);

/* Can the device be opened, and is its port not known to be down? */
bool ib_qp_is_possible(const struct anynet_device *dev);

/*
 * ib_chores.c: slow verbs calls, made by a thread that exists only while there is work. The caller holds no lock.
 */

/* Starts the thread if there is work. True: the state of a port has been read again, comms should look at theirs. */
bool ib_chores(void);
/* Is there work, or a thread? */
bool ib_chores_pending(void);
/* Without a background thread: waits for the thread and frees all retired queue pairs. */
void ib_chores_finish(void);
/* At exit: waits for the thread, at most `ms` milliseconds. */
void ib_chores_leave(uint64_t ms);

#endif

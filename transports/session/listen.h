/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The accept engine: one listening socket for each NIC of the process, and handshakes in parallel, each with its own
 * buffer and deadline. Its turns run, under one lock, in the background thread, in anynet_accept, and in anynet_test of
 * a receive comm with a broken stream; each turn serves all listeners. An unauthenticated connection costs one slot
 * until its deadline, and nothing else.
 *
 * A handle names an endpoint. It belongs to a listener until a comm is accepted, then to that receive comm, whose
 * streams are resumed by the same token.
 */
#ifndef ANYNET_LISTEN_H
#define ANYNET_LISTEN_H

#include "session/comm.h"

/* Implement anynet_listen and anynet_accept. An accepted comm is in the registry. */
int listen_start(const struct anynet_device *dev, const void *owner, void *handle,
		 struct anynet_listener **listener);
int listen_accept(struct anynet_listener *listener, struct anynet_comm **comm);

/* Destroy a comm that was connected or accepted, and release its endpoint or its hold on the listening sockets: the
 * peer cannot resume it any more. Not while it is in the registry. */
void listen_destroy_comm(struct anynet_comm *comm);

/* Keep listening sockets open for a send comm, whose peer may send a PROBE, until listen_drop. Fills one address for
 * each device of `set`; port 0: no socket could be opened there. */
void listen_hold(const struct anynet_device *const *set, int count, struct anynet_wire_addr *addrs);
void listen_drop(void);

/* Are listening sockets open? Then connections may arrive at any time. */
bool listen_in_use(void);

/* Run one turn of the accept engine, unless another thread holds its lock. */
void listen_turn(void);

/* Drop half-built comms whose connector has gone, so that their listeners can take the next one. The background thread
 * calls this ten times a second. */
void listen_look(void);

/* Arm `epfd` to report once, with `data`, that a turn is due. */
void listen_watch(int epfd, uint32_t data);

/* NCCL has destroyed the communicator `owner`: drop the half-built comms of its listeners. */
void listen_drop_half_built(const void *owner);

/* Close the listening sockets if no endpoint, no listener and no listen_hold is left. */
void listen_trim(void);

#endif

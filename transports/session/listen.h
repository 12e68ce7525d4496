/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The accept engine: one listening socket per NIC and process, and any number of handshakes side by
 * side, each with its own buffer and deadline. It runs in the background thread and
 * inside anynet_accept (any caller's turn serves all), under one lock; an unauthenticated
 * connection costs a slot until its deadline and nothing else.
 *
 * An endpoint is what a handle points to: first a listener that waits for its comm, then that receive
 * comm, which may get further streams by the same token.
 */
#ifndef ANYNET_LISTEN_H
#define ANYNET_LISTEN_H

#include "session/comm.h"

/* What anynet_listen, anynet_accept and anynet_close_listener do. A comm that is accepted is the caller's alone. */
int listen_start(const struct anynet_device *dev, const void *owner, void *handle,
		 struct anynet_listener **listener);
int listen_accept(struct anynet_listener *listener, struct anynet_comm **comm);
void listen_stop(struct anynet_listener *listener);

/* Destroy a comm that was connected or accepted: its peer finds it no more. Not if it is in the registry. */
void listen_destroy_comm(struct anynet_comm *comm);

/* A send comm listens, too: its peer may ask whether it still lives. Fills one address for each device
 * of the stripe, port 0 where no socket can be opened. The sockets stay open until listen_drop. */
void listen_hold(const struct anynet_device *const *set, int count, struct anynet_wire_addr *addrs);
void listen_drop(void);

/* Are sockets open, which somebody may connect to at any time? */
bool listen_in_use(void);

/* One turn of the accept engine, if nobody else is at it. */
void listen_turn(void);

/* Ten times a second: comms that wait for accept, and whose connector has gone, make room. */
void listen_look(void);

/* Let `epfd` tell, with `data`, when the next turn is due, once; *generation (0 at first) is what was added last. */
void listen_watch(int epfd, uint32_t data, unsigned *generation);

/* NCCL has ended the communicator of this context: drop what its listeners have half accepted. */
void listen_drop_half_built(const void *owner);

/* Close the listening sockets if no endpoint is left. */
void listen_trim(void);

#endif

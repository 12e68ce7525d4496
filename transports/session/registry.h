/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The open comms of this process, for the threads that serve them without NCCL (background.c, io_threads.c). Between
 * registry_hold and registry_release no comm is destroyed: registry_remove waits. Hold it only for as long as a comm's
 * lock may be held (session/comm.h, comm_enter).
 */
#ifndef ANYNET_REGISTRY_H
#define ANYNET_REGISTRY_H

#include "session/comm.h"

/* Add a comm and set its slot and token, which stays unique after it is removed. 0 or -ENOMEM. From then on other
 * threads use the comm, too: take its lock. */
int registry_add(struct anynet_comm *comm);

/* Remove a comm; does nothing if it is not registered. When this returns, none of the plugin's threads uses the comm.
 * Not while holding the registry. */
void registry_remove(struct anynet_comm *comm);

/* Hold the registry and return the comm of this token; NULL = it is gone. Call registry_release in either case. */
struct anynet_comm *registry_hold(uint64_t token);
void registry_release(void);

bool registry_is_empty(void);

/* Call `visit` for the comm in this slot, if there is one, while holding the registry. False: there are no more
 * slots. */
bool registry_at(uint32_t slot, void (*visit)(struct anynet_comm *comm, void *arg), void *arg);

/* Call `visit` for each comm that stays registered throughout the call, while holding the registry. It is released
 * between two visits: one may take long, and connect, accept and close wait for it. */
void registry_each(void (*visit)(struct anynet_comm *comm, void *arg), void *arg);

/* Call `visit`, with the comm's lock, for each comm that stays registered throughout the call. Waits for the locks. */
void registry_each_entered(void (*visit)(struct anynet_comm *comm, void *arg), void *arg);

#endif

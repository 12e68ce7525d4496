/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The open comms of this process, for the threads that look after them without NCCL (background.c,
 * io_threads.c). Between registry_hold and registry_release no comm can be destroyed; registry_remove
 * waits for that, so what is held must be held for a short time (session/comm.h, comm_enter).
 */
#ifndef ANYNET_REGISTRY_H
#define ANYNET_REGISTRY_H

#include "session/comm.h"

/* Sets comm->session->slot; 0 or -ENOMEM. From now on others work on it as well: only with its lock. */
int registry_add(struct anynet_comm *comm);

/* Afterwards none of our threads has it. Nothing, if it is not there. Not while holding. */
void registry_remove(struct anynet_comm *comm);

/* Names a comm for as long as it is there, and nothing afterwards. */
uint64_t registry_token(const struct anynet_comm *comm);

/* The comm of a token, NULL = it is gone. Call registry_release afterwards in any case. */
struct anynet_comm *registry_hold(uint64_t token);
void registry_release(void);

bool registry_is_empty(void);

/* The comm at this place, if there is one, held during the call. False: there are no more places. */
bool registry_at(uint32_t slot, void (*visit)(struct anynet_comm *comm, void *arg), void *arg);

/* All of them, held during the call. */
void registry_each(void (*visit)(struct anynet_comm *comm, void *arg), void *arg);

/* All that are there for the whole of the call, each with its lock, which is waited for. */
void registry_each_entered(void (*visit)(struct anynet_comm *comm, void *arg), void *arg);

#endif

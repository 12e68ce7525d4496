/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guardian: one thread of the process that sleeps nearly always and does what must not depend on
 * NCCL calling us: answer peers that resume a rail or ask whether we live, dial for comms whose
 * caller is away, notice lost links, send heartbeats, see closed comms to their end. Where NCCL's
 * thread is polling a comm anyway the guardian only leaves word (comm->attention) and keeps off.
 */
#ifndef ANYNET_GUARD_H
#define ANYNET_GUARD_H

#include "comm_internal.h"

/* A comm is open, from now on it is looked after; no more. guard_remove is also the end of any other
 * thread's work on it. The thread lives as long as there are comms. */
int guard_add(struct anynet_comm *comm);
void guard_remove(struct anynet_comm *comm);

/* A comm has been closed that is not over: let the guardian look at it soon, or look at all such comms
 * at once. Not with a comm's or the engine's lock. */
void guard_wake(void);
void guard_look(void);

/* What the guardian sees to from time to time, if there is none. With no lock. */
void guard_reap(void);

#endif

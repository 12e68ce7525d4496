/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The background thread: one thread of the process that sleeps nearly always and does what must not depend on
 * NCCL calling us: answer peers that resume a stream or ask whether we live, dial for comms whose
 * caller is away, notice lost links, send heartbeats, see closed comms to their end. Where NCCL's
 * thread is polling a comm anyway it only leaves word (comm->attention) and keeps off.
 *
 * It starts with the first listener or comm, sleeps while there is none, and ends when the process exits, for good: no thread of
 * the program that goes on meanwhile starts it again. At exit it first drains closed comms, for EXIT_DRAIN_MS at most.
 */
#ifndef ANYNET_BACKGROUND_H
#define ANYNET_BACKGROUND_H

#include "session/comm.h"

/* A comm is open, from now on it is looked after; no more. background_remove is also the end of any other
 * thread's work on it. 0 or -errno: nobody but its caller looks after it. */
int background_add(struct anynet_comm *comm);
void background_remove(struct anynet_comm *comm);

/* There is something to do: it starts, or wakes up. */
void background_rouse(void);

/* Is the thread there? Then it destroys a comm whose `closing` is set, once that has been drained; wake it for that. */
bool background_runs(void);
void background_wake(void);

/* Look at all closed comms now. */
void background_look(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The background thread. It does what must not depend on NCCL's calls: answer peers that resume a stream or send a
 * PROBE, reconnect for comms that nobody polls, handle carrier changes, send heartbeats, and drain closed comms. For a
 * comm that NCCL's thread polls it only sets comm->attention.
 *
 * It starts with the first listener or comm, sleeps while there is none, and ends when the process exits. Other threads
 * that still run then cannot restart it. At exit it first sees that what was reported done arrives, for up to EXIT_DRAIN_MS.
 */
#ifndef ANYNET_BACKGROUND_H
#define ANYNET_BACKGROUND_H

#include "session/comm.h"

/* Start the thread or wake it up: there is a listener, a connect or a comm. If it cannot be started, a WARN says so once,
 * and later calls try again. */
void background_rouse(void);

/* Does the thread run? Then it drains and destroys comms with `closing` set; call background_wake after setting it. */
bool background_runs(void);
void background_wake(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* How a comm is doing: paths that give no sign, links that are lost, requests that wait for long. */
#ifndef ANYNET_WATCH_H
#define ANYNET_WATCH_H

#include "session/comm.h"

#define WATCH_MS 100 /* between two looks */

/* With the comm's lock. May sever streams or fail the comm. */
void watch_comm(struct anynet_comm *comm, uint64_t now_ms);

/* The same for its paths only, where there are several: now and then during turns, by whoever waits. */
void watch_glance(struct anynet_comm *comm, uint64_t now_ms);

#endif

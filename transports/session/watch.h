/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a comm's health: paths that give no sign of life, lost links, requests that stall. */
#ifndef ANYNET_WATCH_H
#define ANYNET_WATCH_H

#include "session/comm.h"

#define WATCH_MS 100 /* between two checks by watch_comm */

/* Check the comm. With its lock. May sever or end streams, fail the comm, and log a stall. */
void watch_comm(struct anynet_comm *comm, uint64_t now_ms);

/* Check only the streams over TCP, if the comm has more than one pair of addresses and requests do not progress. Called
 * during turns; does nothing until the next check is due. As watch_comm otherwise. `asked`: comm->attention asks for it,
 * also before the next check is due, and while requests progress. A program that sends now and then may not call again
 * before something in flight is late. */
void watch_glance(struct anynet_comm *comm, bool asked, uint64_t now_ms);

#endif

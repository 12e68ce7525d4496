/* SPDX-License-Identifier: Apache-2.0 */
/*
 * anynet perf: where all ranks wait for each other. On one host that is a barrier. With several hosts the first rank
 * of each sends a message to the coordinator (perf_coordinator.c), by way of its worker (perf_worker.c), and waits until
 * all have done so:
 *
 *   ready  "net", "abi", "path", "places" (of its host's ranks): they listen -> all may connect. Before it, each way:
 *   slots  "to" (a rank), "slots": list of [sender, index, handle], where that rank listens
 *   go     nothing
 *   row    "time_us", "wrong": lists, of its host's ranks
 *
 * The answer is the message's name alone. What the other end sends is not trusted.
 */
#ifndef PERF_MEET_H
#define PERF_MEET_H

#include <jansson.h>

#include "perf.h"

enum perf_step {
	PERF_READY,
	PERF_GO,
	PERF_ROW
};
extern const char *const perf_steps[];

#define MEET_SEND_MS  10000
#define MEET_FRAME_MS 10000 /* for the rest of a message that has begun to arrive */

/* Returns 0 or -GROUP_ERROR, after a message. */
int perf_meet(struct perf_rank *r, enum perf_step step);

#endif

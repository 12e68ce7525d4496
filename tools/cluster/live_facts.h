/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker reports about the running jobs on its host, from their statistics files (include/nccl_net/stats.h):
 *
 *   "processes"  list of "host", "pid", "rank", "job", "silent_ms" (time without an update of its file; 0 = it is
 *                current), "ran_ms", "waited_ms" (processor time, and time runnable without a processor, of all
 *                threads since the last call; -1 = not known, see live_cpu.h)
 *   "waits"      list of "host", "pid", "for_host", "for_pid", "ms"
 *   "paths"      list of "for_host", "for_pid", "device", "address" (of the remote end), "up", "down", "broke" (numbers
 *                of connections); of senders also the sums over all connections since the last call: "packets",
 *                "resent", "acked" (bytes acknowledged by the peer's kernel), "busy_us" (time with data in flight);
 *                and "rtt_us" (the longest round trip)
 *   "left_out"   number of connections that are beyond a limit and on no path
 */
#ifndef CLUSTER_LIVE_FACTS_H
#define CLUSTER_LIVE_FACTS_H

#include <jansson.h>

/*
 * Returns what has happened since the last call; the caller releases it. NULL if the directory cannot be read.
 * Keeps static state: call it from one thread.
 */
json_t *live_facts(const char *dir);

#endif

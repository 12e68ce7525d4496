/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker tells of the running jobs on its host, from their statistics files (include/nccl_net/stats.h):
 *
 *   "processes"  list of "host", "pid", "rank", "job", "silent_ms" (0: it writes its file), "ran_ms", "waited_ms"
 *                (all threads, since the last time: on a processor, and for one; -1 = not known)
 *   "waits"      list of "host", "pid", "for_host", "for_pid", "ms"
 *   "paths"      list of "host", "pid", "for_host", "for_pid", "device", "address" (the other end's), "up", "down"
 *                (connections), "broke"; of senders "packets", "resent", "acked" (bytes that the peer's kernel
 *                acknowledged), "busy_us" (with data in flight), all since the last time and of all connections together;
 *                "rtt_us" (the longest of those)
 */
#ifndef CLUSTER_LIVE_FACTS_H
#define CLUSTER_LIVE_FACTS_H

#include <jansson.h>

/* Since the last call. One thread. NULL: the directory cannot be read. The caller releases it. */
json_t *live_facts(const char *dir);

#endif

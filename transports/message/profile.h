/* SPDX-License-Identifier: Apache-2.0 */
/* Network events for NCCL's profiler (net-api.md §4.3): one for each buffer, from isend or irecv to `test`. */
#ifndef ANYNET_PROFILE_H
#define ANYNET_PROFILE_H

#include "message/comm.h"

/* NCCL's socket descriptor, version 1. */
struct profile_socket_event {
	uint8_t type; /* 1 */
	struct {
		int fd;
		int op; /* 0 send, 1 receive */
		size_t length;
	} socket;
};
static_assert(sizeof(struct profile_socket_event) == 24 &&
		      offsetof(struct profile_socket_event, socket) == 8,
	      "net-api.md §4.3");

#define PROFILE_SOCKET_ID ((int64_t)2 << 16 | 1)

ANYNET_COLD void *profile_start_event(struct anynet_comm *comm, void *phandle, size_t bytes);
ANYNET_COLD void profile_stop_event(void *event);

/* Starts an event; the caller stops it. NULL = no profiler, or it does not want network events. */
static inline void *profile_start(struct anynet_comm *comm, void *phandle, size_t bytes)
{
	if (anynet_likely(!phandle ||
			  !atomic_load_explicit(&anynet_net.profiler, memory_order_relaxed)))
		return NULL;
	return profile_start_event(comm, phandle, bytes);
}

static inline void profile_stop(void *event)
{
	if (anynet_unlikely(event))
		profile_stop_event(event);
}

#endif

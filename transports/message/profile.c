/* SPDX-License-Identifier: Apache-2.0 */
/* Network events for NCCL's profiler; see profile.h. */
#include "message/profile.h"

enum {
	PROFILE_START = 0,
	PROFILE_STOP = 1
};

void *profile_start_event(struct anynet_comm *comm, void *phandle, size_t bytes)
{
	struct profile_socket_event desc = {
		.type = 1,
		.socket = { .fd = comm->streams[0] ? comm->streams[0]->path.fd : -1,
			    .op = !comm->is_send,
			    .length = bytes },
	};
	anynet_profiler profiler = anynet_net.profiler;
	void *event = NULL;

	if (profiler)
		profiler(&event, PROFILE_START, phandle, PROFILE_SOCKET_ID, &desc);
	return event;
}

void profile_stop_event(void *event)
{
	anynet_profiler profiler = anynet_net.profiler;

	if (profiler)
		profiler(&event, PROFILE_STOP, NULL, 0, NULL);
}

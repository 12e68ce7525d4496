/* SPDX-License-Identifier: Apache-2.0 */
/* Opens librdmacm and its event channel; see ib_cm_open.h. */
#include "path/ib/ib_cm_open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include <nccl_net/util.h>

#include "base/libc_text.h"
#include "base/net.h"
#include "device/ib_events.h"

static int open_library(struct rdmacm *lib, char *why, size_t why_bytes)
{
	const char *files[] = { anynet_net.cfg->rdmacm_lib, "librdmacm.so.1" };
	int ret = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(files) && ret; i++)
		if (*files[i])
			ret = rdmacm_open(files[i], lib, why, why_bytes);
	return ret;
}

static struct rdma_event_channel *open_channel(const struct rdmacm *lib, bool (*read)(bool wait),
					       char *why, size_t why_bytes)
{
	struct rdma_event_channel *channel;
	int flags;

	errno = 0;
	channel = lib->create_event_channel();
	if (!channel) {
		snprintf(why, why_bytes,
			 "no event channel (is the kernel's module rdma_ucm loaded?): %s",
			 error_text(errno));
		return NULL;
	}
	flags = fcntl(channel->fd, F_GETFL);
	if (flags >= 0 && !fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) &&
	    !ib_events_watch_cm(channel->fd, read))
		return channel;
	snprintf(why, why_bytes, "cannot poll its events: %s", error_text(errno));
	lib->destroy_event_channel(channel);
	return NULL;
}

struct rdma_event_channel *ib_cm_open(struct rdmacm *lib, bool (*read)(bool wait), char *why,
				      size_t why_bytes)
{
	struct rdma_event_channel *channel;

	if (open_library(lib, why, why_bytes))
		return NULL;
	channel = open_channel(lib, read, why, why_bytes);
	if (!channel)
		rdmacm_close(lib);
	return channel;
}

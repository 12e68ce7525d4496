/* SPDX-License-Identifier: Apache-2.0 */
/* Process-wide state; see net.h. */
#include "base/net.h"

#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"

struct anynet_net anynet_net;

void net_identify(void)
{
	struct utsname names;

	anynet_net.pid = (uint32_t)getpid();
	anynet_net.forks = fd_forks();
	/* Linux allows names of 64 characters; truncate them to 63. */
	snprintf(anynet_net.host, sizeof(anynet_net.host), "%.63s",
		 uname(&names) ? "?" : names.nodename);
}

unsigned anynet_net_forks(void)
{
	return fd_forks();
}

void anynet_net_set_profiler(anynet_profiler profiler)
{
	anynet_net.profiler = anynet_net.cfg && anynet_net.cfg->profile ? profiler : NULL;
}

void anynet_net_set_nccl(int version, const char *path)
{
	anynet_net.nccl_version = version;
	snprintf(anynet_net.nccl_path, sizeof(anynet_net.nccl_path), "%s", path ? path : "");
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process-wide state: settings, devices, identity of the process. There is one instance. anynet_net_start
 * (service/start.c) and the anynet_net_set_* functions set it during NCCL's init; otherwise it is read-only. Changing
 * state (listeners, connects in progress) is in other files, each with its own lock.
 */
#ifndef ANYNET_NET_H
#define ANYNET_NET_H

#include <nccl_net/comm.h>
#include <nccl_net/wire.h>

struct anynet_net {
	const struct anynet_config *cfg;
	const struct anynet_device *devices; /* NCCL's, all of one transport */
	int device_count;
	int io_threads;           /* number of I/O threads to run; 0 = none */
	int gpu_count;            /* NVIDIA GPUs on this host; 0 = none, or not known */
	_Atomic anynet_profiler profiler; /* NULL = no events; a later init may change it */
	int nccl_version;         /* 0 = not found */
	char nccl_path[256];
	char host[64];
	uint32_t pid;
	unsigned forks; /* fd_forks in the process `pid` */
};

extern struct anynet_net anynet_net;

/* Set `host`, `pid` and `forks`. */
void net_identify(void);

#endif

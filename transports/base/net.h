/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is so for the whole process: settings, devices, who this process is. One instance, set by
 * anynet_net_start (service/start.c) and read-only afterwards; what changes (listeners, connects in
 * progress) has its own lock in its own file.
 */
#ifndef ANYNET_NET_H
#define ANYNET_NET_H

#include <nccl_net/comm.h>
#include <nccl_net/wire.h>

struct anynet_net {
	const struct anynet_config *cfg;
	const struct anynet_device *devices;
	int device_count;
	int io_threads;           /* to run, 0 = none */
	int gpu_count;            /* NVIDIA's on this host; 0 = not known */
	anynet_profiler profiler; /* NULL = events are off */
	int nccl_version;         /* 0 = not found */
	char nccl_path[256];
	char name[16]; /* that NCCL knows us by; "" = not known */
	char host[64];
	uint32_t pid;
};

extern struct anynet_net anynet_net;

/* Sets `host` and `pid`. */
void net_identify(void);

#endif

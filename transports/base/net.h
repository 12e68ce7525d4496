/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process-wide side of the message layer: settings, devices, identity of this process, and a
 * monotonic clock. One instance, set by anynet_net_start and read-only afterwards; what changes
 * (listeners, connects in progress) has its own lock in its own file.
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

/* Device number `index`: NCCL's, and behind them those that stand by. NULL: there are no more. */
const struct anynet_device *net_device(int index);

/* Our device with this IP address, NULL = none. */
const struct anynet_device *net_device_at(const struct sockaddr_storage *addr);

/* Milliseconds of CLOCK_MONOTONIC, but for long pauses in which nobody asked: a stopped process finds
 * its deadlines where they were. Never on the data path. */
uint64_t net_now_ms(void);

/* Fill with random bytes from the kernel. 0 or -errno, which is logged: it refuses (seccomp), and what
 * is there may not be used. */
int net_random(void *data, size_t bytes) __attribute__((warn_unused_result));

/* The NICs that one comm of `dev` may use: its members (a NIC is its own) first, then, if striping is on,
 * those as fast and of the same kind; of an IB device, for want of its own ports, the other ports, from
 * the first one on, and the TCP devices that stand by. Returns the count, at most `max`. */
int net_stripe(const struct anynet_device *dev, const struct anynet_device **set, int max);

/* Over how many of these `count` a comm of a TCP device spreads, the first ones; to the others it goes when a path
 * breaks. */
int net_spread(const struct anynet_device *dev, int count);

/* Is it an error if a comm of this device has to go over TCP from its beginning? */
bool net_needs_link(const struct anynet_device *dev);

/* Rails that comms of this device want on each pair of NICs; of an IB device in all, over its ports. */
int net_rails_wanted(const struct anynet_device *dev);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Async events of open ports: a port or a device that fails is known at once, and not when a queue pair
 * has tried in vain for long. One descriptor for all of them, read by the background thread.
 *
 * The context of a queue pair and of its completion queue is an _Atomic bool that is set when an event says that it
 * has failed, or NULL.
 */
#ifndef ANYNET_IB_EVENTS_H
#define ANYNET_IB_EVENTS_H

#include "device/ib_nic.h"

/* As ib_nic_open; its events are read from then on, and how its port is is known. Any thread. */
struct ib_nic *ib_events_open(const struct anynet_device *dev, char *why, size_t why_bytes);

/* A descriptor to poll, for the life of the process, -1 = none; read what there is, one thread at a time. True: comms
 * should look at their ports. */
int ib_events_fd(void);
bool ib_events_read(void);

/* The RDMA connection manager's events as well, which `read` reads, even if another
 * thread is doing it. 0 or -errno, also in errno. */
int ib_events_watch_cm(int fd, bool (*read)(bool wait));

/* Ports that are to be asked how they are: are there any; ask them, which may take long. True: some were. */
bool ib_events_stale(void);
bool ib_events_settle(void);

#endif

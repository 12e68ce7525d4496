/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Async events of open ports. They report a failed port or device at once; queue pairs fail only after all their
 * retries. All ports share one descriptor, which the background thread reads.
 *
 * The qp_context of a queue pair and the cq_context of its completion queue point to an _Atomic bool, which is set when
 * an event reports a failure; or they are NULL.
 */
#ifndef ANYNET_IB_EVENTS_H
#define ANYNET_IB_EVENTS_H

#include "device/ib_nic.h"

/* As ib_nic_open. Also sets the port's state (carrier.h) and has its events read from then on. Any thread. */
struct ib_nic *ib_events_open(const struct anynet_device *dev, char *why, size_t why_bytes);

/* A descriptor to poll, valid for the life of the process. -ENODEV: no device is offered; another -errno: it cannot be
 * made now, but perhaps by a later call. Any thread. */
int ib_events_fd(void);

/* Reads the events that have come. One thread at a time. True = comms should look at their ports. */
bool ib_events_read(void);

/* Adds the descriptor of the RDMA connection manager. ib_events_read calls read(true) when it is readable; `read` must
 * allow for other threads that read the same events. 0 or -errno, also in errno. */
int ib_events_watch_cm(int fd, bool (*read)(bool wait));

/* The port may have changed without an event: it is read again, and comms notice what has become of it when they next use it.
 * Any thread. */
void ib_events_reread(struct ib_nic *nic);

/* Is the state of any port out of date, and is it time to read it? */
bool ib_events_stale(void);

/* Reads the state of such ports again, which may take seconds. One that cannot be read is tried again a second later. True =
 * comms should look at their ports, because events have reported a change. One thread at a time. */
bool ib_events_settle(void);

#endif

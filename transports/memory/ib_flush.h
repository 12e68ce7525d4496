/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flushes: an RDMA READ of GPU memory makes everything that the same NIC has written to it before visible to the GPU
 * (net-api.md §3.6). A nic has one queue pair to itself for the flushes of all comms. Threads of several comms use it
 * concurrently without waiting for each other. The thread for slow calls (ib_chores.c) makes one that is missing, or
 * broken; until then CUDA flushes.
 */
#ifndef ANYNET_IB_FLUSH_H
#define ANYNET_IB_FLUSH_H

#include "device/ib_nic.h"

/* Creates the queue pair if there is none or it has broken. If it cannot, ib_flush_mend tries again. Takes as long as
 * the driver takes. Any thread. */
void ib_flush_prepare(struct ib_nic *nic);

/* Posts a READ of the byte at `addr`, registered with `rkey`. 0 and *ticket; -EAGAIN: try again; -EIO: the queue pair
 * is broken or not there, and ib_flush_mend makes another. */
int ib_flush_post(struct ib_nic *nic, const void *addr, uint32_t rkey, uint64_t *ticket);

/* 1: what the NIC had written before the READ was posted is visible; 0: not yet; -EIO: the queue pair has broken. */
int ib_flush_done(struct ib_nic *nic, uint64_t ticket);

/* Waits for all posted READs, before memory is deregistered: a READ of unregistered memory would break the queue pair
 * for all comms. Waits at most 10 s; then the queue pair counts as broken. */
void ib_flush_drain(struct ib_nic *nic);

/* Is any queue pair to be made now? */
bool ib_flush_is_due(void);
/* Makes those. Takes as long as the driver takes. */
void ib_flush_mend(void);

#endif

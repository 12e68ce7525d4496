/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flushing: what a NIC has written to GPU memory is there for the GPU once an RDMA READ of that memory by
 * the same NIC has come back (net-api.md §3.6). A nic has one queue pair to itself for the flushes of all
 * comms. Data threads of several comms use it side by side; none waits for another. One that has broken is
 * made again by the thread for chores (ib_chores.c).
 */
#ifndef ANYNET_IB_FLUSH_H
#define ANYNET_IB_FLUSH_H

#include "device/ib_nic.h"

/* Make it, if it is not there or has broken. Blocks for as long as the driver takes. Any thread. 0 or -errno;
 * `why` then tells. */
int ib_flush_prepare(struct ib_nic *nic, char *why, size_t why_bytes);

/* Begin to read the byte at `addr`, registered with `rkey`. 0 and a ticket; -EAGAIN: not now; -EIO: it has
 * broken, or is not there. */
int ib_flush_post(struct ib_nic *nic, const void *addr, uint32_t rkey, uint64_t *ticket);

/* 1: what the NIC wrote before the ticket was given is there; 0: not yet; -EIO: it has broken. */
int ib_flush_done(struct ib_nic *nic, uint64_t ticket);

/* Before memory is deregistered that READs may be of: wait until all that have been posted are over. A READ of
 * what is not registered any more would break the queue pair, for all comms. 10 s at most; then it counts as
 * broken. */
void ib_flush_drain(struct ib_nic *nic);

/* Has one broken, and is it time to make it again? Do so; blocks for as long as the drivers take. */
bool ib_flush_is_due(void);
void ib_flush_mend(void);

#endif

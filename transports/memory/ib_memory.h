/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations of NCCL's memory on verbs devices: made in NCCL's regMr, and on a further device when a stream moves
 * there. */
#ifndef ANYNET_IB_MEMORY_H
#define ANYNET_IB_MEMORY_H

#include "device/ib_nic.h"
#include "memory/ib_mr.h"
#include "memory/mr.h"

/* Registers mr->range on all ports of an IB device. `is_flushed`: GPU memory that is received into and flushed. 0 = on
 * one port at least, or the proof that it reaches the GPU (gpu_proof.h) is left to the first use; -ENODEV: no port is
 * there now, or its device fails; -ENOMEM: it cannot be registered; -EALREADY: the same, for a reason that has been
 * reported before. On an error `why` has the reason. */
int ib_memory_register(struct anynet_mr *mr, const struct anynet_device *dev, bool is_flushed,
		       char *why, size_t why_bytes);

/* Flush what the nic has written to GPU memory, by a READ of `data`, which `mr` covers. As ib_flush_post
 * and ib_flush_done; -ENODEV: the device has failed for good. */
int ib_memory_flush(struct ib_nic *nic, struct anynet_mr *mr, const void *data, uint64_t *ticket);
int ib_memory_flushed(struct ib_nic *nic, uint64_t ticket);

/* Puts all registrations of *mr. */
void ib_memory_release(struct anynet_mr *mr);

/* The registration of *mr on this nic, which is about to access it; registers it if needed, after the proof. Any thread,
 * while a request uses `mr` or before regMr has returned it. Of empty memory the keys are for empty messages only. NULL:
 * `why` and errno have the reason. */
const struct ib_mr *ib_memory_on(struct anynet_mr *mr, struct ib_nic *nic, char *why,
				 size_t why_bytes);

/* The bit 1 << nic->number; 0 = no memory has been registered on it. */
uint64_t ib_memory_bit(const struct ib_nic *nic);

#endif

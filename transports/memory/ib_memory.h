/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's registered memory on verbs devices: registered when NCCL asks for it, and on a further device
 * when a stream goes over to that. */
#ifndef ANYNET_IB_MEMORY_H
#define ANYNET_IB_MEMORY_H

#include "device/ib_nic.h"
#include "memory/ib_mr.h"
#include "memory/mr.h"

/* Register *mr (its addr and bytes) on the ports of an IB device; `is_flushed`: what is written to it there
 * will be, if it is a GPU's. 0, -ENODEV: none is there now, or -ENOMEM and `why`; -EALREADY: the same, and the
 * user has been told so. */
int ib_memory_register(struct anynet_mr *mr, const struct anynet_device *dev, bool is_flushed,
		       char *why, size_t why_bytes);

/* Begin to flush what the NIC of this number wrote to GPU memory; `data` is some of it, registered with
 * `mr`. As ib_flush_post and ib_flush_done. */
int ib_memory_flush(unsigned number, struct anynet_mr *mr, const void *data, uint64_t *ticket);
int ib_memory_flushed(unsigned number, uint64_t ticket);

/* Give back all registrations of *mr. */
void ib_memory_release(struct anynet_mr *mr);

/* The registration of *mr for this nic, made if it is not there. Any thread that has a request with
 * `mr` or has not given it away yet. NULL: `why` tells. */
const struct ib_mr *ib_memory_on(struct anynet_mr *mr, struct ib_nic *nic, char *why,
				 size_t why_bytes);

/* Number of a nic that memory is registered on, and its bit. */
uint32_t ib_memory_bit(const struct ib_nic *nic);

/* The cache of a nic; NULL = no memory. */
struct ib_mr_cache *ib_memory_cache(struct ib_nic *nic);

#endif

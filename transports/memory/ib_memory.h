/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's registered memory on verbs devices: registered when NCCL asks for it, and on a further device
 * when a rail goes over to that. */
#ifndef ANYNET_IB_MEMORY_H
#define ANYNET_IB_MEMORY_H

#include "device/ib_nic.h"
#include "memory/ib_mr.h"
#include "session/comm_internal.h"

/* The registration of *mr for this nic, made if it is not there. Any thread that has a request with
 * `mr` or has not given it away yet. NULL: `why` tells. */
const struct ib_mr *ib_memory_on(struct anynet_mr *mr, struct ib_nic *nic, char *why,
				 size_t why_bytes);

/* Number of a nic that memory is registered on, and its bit. */
uint32_t ib_memory_bit(const struct ib_nic *nic);

/* The cache of a nic; NULL = no memory. */
struct ib_mr_cache *ib_memory_cache(struct ib_nic *nic);

#endif

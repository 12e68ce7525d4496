/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a NIC reaches a GPU's memory: some of it is registered, written by the NIC, read back by it, and read by
 * CUDA. Where PCI bridges redirect or drop what goes from one device to another (ACS, an IOMMU) registering works
 * all the same, WRITEs may be lost without an error, and READs fail.
 */
#ifndef ANYNET_GPU_PROOF_H
#define ANYNET_GPU_PROOF_H

#include "device/ib_nic.h"
#include "memory/ib_mr.h"
#include "memory/mr.h"

/* How memory like *mr is registered on this nic: by address or as a dmabuf. 0 or -errno, and `why`. */
typedef int gpu_register(struct ib_mr_cache *cache, const struct anynet_mr *mr, struct ib_mr **made,
			 char *why, size_t why_bytes);

/* A nic that memory is registered on, and its registrations. */
struct nic_memory {
	struct ib_nic *nic;
	struct ib_mr_cache *cache;
	uint8_t proofs[GPUS_MAX]; /* gpu_proof.c: what has come of each GPU's */
};

/*
 * Prove it for the GPU that has *mr, once for each nic and GPU of the process; what has come of that
 * is kept. Blocks: milliseconds, or as long as CUDA and the driver take. Any thread. 0: it is reached, or that
 * cannot be found out, which an INFO line tells; -ENOMEM: it is not, and `why`; -EALREADY: the same, and it has been
 * told before.
 */
int gpu_prove(struct nic_memory *memory, const struct anynet_mr *mr, gpu_register *how, char *why,
	      size_t why_bytes);

#endif

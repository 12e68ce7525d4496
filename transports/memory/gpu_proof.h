/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proof that a NIC reaches a GPU's memory: the NIC writes to a piece of it and reads it back, and CUDA reads it. If
 * PCI bridges redirect or drop traffic between devices (ACS, an IOMMU), registration works all the same, WRITEs may be
 * lost without an error, and READs fail.
 */
#ifndef ANYNET_GPU_PROOF_H
#define ANYNET_GPU_PROOF_H

#include "device/ib_nic.h"
#include "memory/ib_mr.h"
#include "memory/mr.h"

/* A nic and its registrations. */
struct nic_memory {
	struct ib_nic *nic;
	struct ib_mr_cache *cache;
	uint8_t proofs[GPUS_MAX]; /* result of the proof for each GPU (gpu_proof.c) */
};

/* Allocates the GPU memory that proofs use, which may wait for kernels. Call it before proofs that must not. */
void gpu_proof_prepare(struct gpu *gpu);

/*
 * Does the nic reach the GPU that has *mr? Runs the proof once for each nic and GPU of the process and keeps the
 * result. Takes milliseconds, or as long as CUDA and the driver take. Any thread. 0: it does; -ENOMEM: it does not,
 * or memory of the GPU cannot be registered; -EALREADY: it does not, and an earlier call has returned -ENOMEM; -EAGAIN:
 * the proof cannot be run now, the port may be down or the device fail. `must_know`: the nic is about to access the
 * memory, and a GPU for which the proof cannot be run counts as reached, which one INFO line reports. On an error `why`
 * has the reason.
 */
int gpu_prove(struct nic_memory *memory, const struct anynet_mr *mr, bool must_know, char *why,
	      size_t why_bytes);

#endif

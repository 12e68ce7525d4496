/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two ways in which a verbs device may reach GPU memory, and whether this host has them. They
 * know nothing of the GPU itself: NCCL asks CUDA about that (net-api.md §3.8).
 */
#ifndef ANYNET_GPU_MEMORY_H
#define ANYNET_GPU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include <nccl_net/config.h>

#include "device/verbs.h"

/* Is a kernel module loaded by which plain reg_mr takes GPU addresses? `root` is where sysfs is
 * mounted (sysfs.h). `why`, of `why_bytes`, is always written: which module, or what is missing. */
bool gpu_peer_memory(const char *root, char *why, size_t why_bytes);

/* Does the device of `pd` take dmabufs? It is asked for one that does not exist, so nothing is
 * registered. `why` as above. */
bool gpu_dmabuf(const struct verbs *verbs, struct ibv_pd *pd, char *why, size_t why_bytes);

/* ANYNET_PTR_* of GPU memory that the device of `context` reaches: CUDA by a peer-memory module, or as the
 * settings say; DMABUF. `text` tells of both ways, in `text_bytes`. For the probe. */
int gpu_ptr_support(const struct anynet_config *cfg, const struct verbs *verbs,
		    struct ibv_context *context, const char *root, char *text, size_t text_bytes);

#endif

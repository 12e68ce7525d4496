/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a verbs device on this host can reach GPU memory, by a peer-memory module or by dma-buf. What the GPU itself
 * supports is not checked here: NCCL asks CUDA (net-api.md §3.8).
 */
#ifndef ANYNET_GPU_MEMORY_H
#define ANYNET_GPU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include <nccl_net/config.h>

#include "device/verbs.h"

/* Is a kernel module loaded that lets ibv_reg_mr register GPU addresses? `root` is where sysfs is mounted (sysfs.h).
 * `why`, of `why_bytes`, is always written: the module, or what is missing. */
bool gpu_peer_memory(const char *root, char *why, size_t why_bytes);

/* Can the device of `pd` register dma-bufs? Tries one that does not exist: nothing is registered. `why` as above. */
bool gpu_dmabuf(const struct verbs *verbs, struct ibv_pd *pd, char *why, size_t why_bytes);

/* For the probe: how the device of `context` reaches GPU memory. ANYNET_PTR_CUDA: by a peer-memory module, or because
 * the settings say so; ANYNET_PTR_DMABUF; or both. `text`, of `text_bytes`, describes both. */
int gpu_ptr_support(const struct anynet_config *cfg, const struct verbs *verbs,
		    struct ibv_context *context, const char *root, char *text, size_t text_bytes);

#endif

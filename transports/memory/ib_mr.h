/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache of the memory registrations of one verbs device, shared by all its comms: NCCL registers the same buffers on
 * every connection (net-api.md §3.7), and a registration takes milliseconds. Whole pages are registered, and shared only
 * by requests for the same bytes. A part of them, or a neighbour on the last page, may be used longer than the others are
 * mapped: other memory may then be mapped there. Any thread; no lock is held during a verbs call.
 */
#ifndef ANYNET_IB_MR_H
#define ANYNET_IB_MR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nccl_net/comm.h>

#include "device/verbs.h"
#include "memory/mr.h"

/* Remote reads, too: GPU memory, which flushes and the proof read. */
#define IB_MR_READ 0x1u

/* Requests share a registration only if their keys are equal. */
struct ib_mr_key {
	uint64_t flags; /* IB_MR_* */
	struct memory_id memory;
	uint64_t first, last; /* addresses of the first and the last byte asked for */
};

/* A registration. Immutable until its last put, so the data path reads it without a lock. */
struct ib_mr {
	struct ib_mr_key key; /* the first field, by which the cache finds it */
	uint32_t lkey, rkey;  /* as in struct ibv_mr */

	/* Private to the cache. */
	struct ib_mr_cache *cache;
	struct ibv_mr *verbs_mr;
	size_t refs;
};

struct ib_mr_cache; /* of one ibv_pd */

/* A cache for `pd`, for the life of the process; free() suffices while it is not used. `relaxed_ordering`: request
 * relaxed ordering if the library supports it. NULL = no memory. */
struct ib_mr_cache *ib_mr_cache_create(const struct verbs *verbs, struct ibv_pd *pd,
				       bool relaxed_ordering);

/*
 * Gets a registration of this memory, for local and remote writes: an existing one of the same range and key, or a new
 * one. The range is not empty, and may extend to the end of the address space. The caller puts *mr.
 *
 * 0 or -errno, never -EAGAIN. On an error *mr is NULL, and `why`, of `why_bytes`, says what was tried, why it failed
 * and what may help.
 */
int ib_mr_get(struct ib_mr_cache *cache, const struct memory_range *range, unsigned flags,
	      struct ib_mr **mr, char *why, size_t why_bytes);

/*
 * As ib_mr_get with IB_MR_READ, for memory in a dma-buf, which the caller may close afterwards. dmabuf->offset is that of
 * the first byte; an offset at the start of a page may also be that of the byte's page, as NCCL has it. Requests for
 * the same memory share a registration, whatever their dma-bufs. -EOPNOTSUPP: libibverbs is too old, or the device does
 * not support dma-buf.
 */
int ib_mr_get_dmabuf(struct ib_mr_cache *cache, const struct memory_range *range,
		     const struct anynet_dmabuf *dmabuf, struct ib_mr **mr, char *why,
		     size_t why_bytes);

/* Gets a registration of memory of NCCL's, by its way. 0, or -errno as ib_mr_get. */
int ib_mr_register(struct ib_mr_cache *cache, const struct anynet_mr *mr, struct ib_mr **made,
		   char *why, size_t why_bytes);

/* Puts a registration, once for each get. The last put deregisters at once, because the memory may be unmapped
 * afterwards; no work request may use the keys any more. NULL is allowed. */
void ib_mr_put(struct ib_mr *mr);

#endif

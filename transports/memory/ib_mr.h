/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory registrations of one verbs device, shared by all comms on it: NCCL registers the same and
 * overlapping buffers on every connection (net-api.md §3.7), and one costs milliseconds. Whole pages
 * are registered. Callable from any thread; no lock is held across a verbs call.
 */
#ifndef ANYNET_IB_MR_H
#define ANYNET_IB_MR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nccl_net/comm.h>

#include "device/verbs.h"
#include "memory/gpu.h"

/* For requests of this process only: no peer may write there, or read. */
#define IB_MR_LOCAL 0x1u

/* What a registration is of. Requests share one only when all of this agrees. */
struct ib_mr_key {
	unsigned flags; /* IB_MR_* */
	bool is_dmabuf;
	struct memory_id memory;
};

/* Immutable from the time it is handed out until it is put for the last time, so that the data path
 * reads it without a lock. */
struct ib_mr {
	uint32_t lkey, rkey; /* as in struct ibv_mr */
	bool is_relaxed;     /* registered with relaxed ordering */

	/* The cache's. */
	uintptr_t first, last; /* addresses of the first and the last byte that are covered */
	struct ib_mr_key key;
	struct ibv_mr *verbs_mr;
};

struct ib_mr_cache; /* of one ibv_pd */

/* Registers on `pd` by `verbs`; both must outlive the cache. With `relaxed_ordering` it is asked for
 * where the library knows it. NULL = no memory. */
struct ib_mr_cache *ib_mr_cache_create(const struct verbs *verbs, struct ibv_pd *pd,
				       bool relaxed_ordering);

/* No other thread is in a call. All registrations should have been put; what is left is deregistered
 * and freed. NULL is fine. */
void ib_mr_cache_destroy(struct ib_mr_cache *cache);

/*
 * A registration that covers this memory, for local writes and, unless flags forbid that, remote reads and
 * writes: one
 * that is there for the same memory with the same flags, or a new one. The range may end with the address
 * space. An empty range may be anywhere, mapped or not: its keys are good for empty messages only.
 *
 * 0 or -errno, never -EAGAIN; *mr is then NULL and `why`, of `why_bytes`, says what was tried, why
 * it failed, and what may help.
 */
int ib_mr_get(struct ib_mr_cache *cache, const struct memory_range *range, unsigned flags,
	      struct ib_mr **mr, char *why, size_t why_bytes);

/*
 * The same, without flags, for memory behind a dmabuf, which may be closed as soon as this returns. The offset
 * is that of the first byte in it; one at the start of a page may also mean the page that the byte
 * is in, as NCCL has it. Shared with requests for the same memory by whatever dmabuf.
 * -EOPNOTSUPP: libibverbs is too old, or the device takes no dmabufs.
 */
int ib_mr_get_dmabuf(struct ib_mr_cache *cache, const struct memory_range *range,
		     const struct anynet_dmabuf *dmabuf, struct ib_mr **mr, char *why,
		     size_t why_bytes);

/* Once for each get. The last one deregisters at once: the memory may be unmapped afterwards, so the
 * caller sees to it that no work request uses the keys any more. NULL is fine. */
void ib_mr_put(struct ib_mr_cache *cache, struct ib_mr *mr);

#endif

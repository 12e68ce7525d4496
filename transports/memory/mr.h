/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that NCCL has registered, and the requests that use it. regMr is session/reg_mr.c; registrations on verbs devices
 * are ib_memory.c, their cache ib_mr.c. */
#ifndef ANYNET_MR_H
#define ANYNET_MR_H

#include <stdatomic.h>
#include <sys/queue.h>

#include <nccl_net/comm.h>
#include <nccl_net/device.h>
#include <nccl_net/util.h>

#include "memory/gpu.h"

struct ib_mr;

enum mr_way {
	MR_BY_ADDRESS,
	MR_BY_DMABUF,
	MR_COPIED, /* GPU memory that the device cannot register: it is copied and goes over TCP */
};

/* A registration of NCCL's. TCP registers nothing, but deregMr needs to know which requests use the memory. */
struct anynet_mr {
	struct memory_range range;
	struct gpu *gpu; /* the GPU of the memory; NULL = host memory */
	enum mr_way way; /* how verbs devices register it */
	/* Valid during regMr; its offset is that of the first byte. fd -1: gpu_dmabuf_fd makes one when needed. */
	struct anynet_dmabuf dmabuf;
	/* The comm on which it was registered. It may be closed: only compare the pointer. */
	const struct anynet_comm *home;
	/* Requests of `home` in flight that use it. Written with that comm's lock, read by deregMr without it. */
	_Atomic unsigned in_flight;
	_Atomic bool shared; /* other comms have used it: deregMr checks all comms */
	/* By number of the nic; NULL = not registered there. */
	struct ib_mr *_Atomic ib[ANYNET_DEVICES_MAX];
	_Atomic uint64_t read_by; /* bits of the nics whose flushes have read it */
	/* Registered by the plugin for one request, with which it ends. Then `among` links it to the comm's others. */
	bool borrowed;
	LIST_ENTRY(anynet_mr) among;
};

/* Put its registrations on verbs devices, and free it (ib_memory.c). */
void mr_return(struct anynet_mr *mr) ANYNET_COLD;

/* Counts a request of the comm that begins or ends to use `mr`, which may be NULL. The caller has the comm's lock. */
static inline void mr_hold(const struct anynet_comm *comm, struct anynet_mr *mr)
{
	if (!mr)
		return;
	if (anynet_unlikely(mr->home != comm))
		atomic_store_explicit(&mr->shared, true, memory_order_release);
	else
		atomic_store_explicit(&mr->in_flight,
				      atomic_load_explicit(&mr->in_flight, memory_order_relaxed) +
					      1,
				      memory_order_relaxed);
}

static inline void mr_drop(const struct anynet_comm *comm, struct anynet_mr *mr)
{
	bool borrowed;

	if (!mr || anynet_unlikely(mr->home != comm))
		return;
	borrowed = mr->borrowed; /* read now: after the store deregMr may free *mr */
	atomic_store_explicit(&mr->in_flight,
			      atomic_load_explicit(&mr->in_flight, memory_order_relaxed) - 1,
			      memory_order_release);
	if (anynet_unlikely(borrowed))
		mr_return(mr);
}

#endif

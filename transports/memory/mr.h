/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory as NCCL has it, and who uses it. */
#ifndef ANYNET_MR_H
#define ANYNET_MR_H

#include <stdatomic.h>
#include <sys/queue.h>

#include <nccl_net/comm.h>
#include <nccl_net/util.h>

#include "memory/gpu.h"

struct ib_mr;

#define ANYNET_MR_NICS 32 /* verbs devices of a process that memory is registered on */

enum mr_way {
	MR_BY_ADDRESS,
	MR_BY_DMABUF,
	MR_COPIED, /* GPU memory of a device that offers neither: it goes over TCP */
};

/* Registered memory. TCP needs none; it is what deregMr's promise hangs on. */
struct anynet_mr {
	struct memory_range range;
	int type;        /* ANYNET_PTR_HOST or ANYNET_PTR_CUDA */
	struct gpu *gpu; /* that it is on; NULL = host memory */
	enum mr_way way; /* in which verbs devices register it */
	/* Of its first byte while it is being registered; fd -1: one is to be made. */
	struct anynet_dmabuf dmabuf;
	/* The comm that it was made on, which may be closed by now: only compared. */
	const struct anynet_comm *home;
	/* Requests of that comm in flight that use it. Written by its data thread only (its one caller,
	 * or whoever holds the lock), read by deregMr in another. */
	_Atomic unsigned in_flight;
	_Atomic bool shared; /* other comms have used it: deregMr asks all of them */
	struct ib_mr *_Atomic ib[ANYNET_MR_NICS]; /* its registrations on verbs devices */
	_Atomic uint32_t read_by; /* bits of those whose flushes have read it */
	/* Made for one request whose caller had none, and over with it: among its comm's. */
	bool borrowed;
	LIST_ENTRY(anynet_mr) among;
};

/* Give back its registrations, and free it. */
void mr_return(struct anynet_mr *mr) ANYNET_COLD;

/* A request of the comm uses it from now on; no more. With the comm's lock. */
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
	borrowed = mr->borrowed; /* after the store deregMr may free it */
	atomic_store_explicit(&mr->in_flight,
			      atomic_load_explicit(&mr->in_flight, memory_order_relaxed) - 1,
			      memory_order_release);
	if (anynet_unlikely(borrowed))
		mr_return(mr);
}

#endif

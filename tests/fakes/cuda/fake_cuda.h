/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control of the fake libcuda.so.1 (script.c describes the language), and access to its device memory by a processor or
 * an adapter. Callers get these functions by dlsym: the library is opened by its path, and known by its SONAME from
 * then on.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

struct fake_cuda_counts {
	/* alive now: all zero means that nothing has leaked */
	uint64_t contexts; /* number of retained primary contexts, and of created contexts */
	uint64_t allocations, device_bytes;
	uint64_t pinned, pinned_bytes; /* cuMemHostAlloc, cuMemHostRegister */
	uint64_t streams, events;
	uint64_t registrations; /* fake_cuda_pin */
	uint64_t waiting;       /* copies on streams */
	uint64_t frees_waiting; /* blocked cuMemFree calls */
	/* since the start, or fake_cuda_reset */
	uint64_t copies, copied_bytes; /* done, on streams */
	uint64_t queries;              /* cuEventQuery, cuStreamQuery */
	uint64_t dmabufs;              /* handed out … */
	uint64_t dmabufs_by_pcie;      /* … of which with that flag */
	uint64_t flushes;              /* cuFlushGPUDirectRDMAWrites */
	uint64_t misuses;              /* calls reported on stderr */
	uint64_t calls;                /* of any function, except those with fake_cuda_own */
};

/* Executes some lines of the language. 0, or -1 with the reason on stderr. */
int fake_cuda_script(const char *text);

/* Removes all faults and delays, and sets the second group of counts to 0. */
void fake_cuda_reset(void);

void fake_cuda_counts(struct fake_cuda_counts *counts);

/* Calls of this thread, until the next time, are the test's own, and not counted; or counted again. */
void fake_cuda_own(int own);

/* The address at which the processor may access the `bytes` of device memory at `device`, until they are freed; NULL if
 * they are not all within one allocation. */
void *fake_cuda_view(const void *device, size_t bytes);

/* The same for an adapter, which may access whole pages of an allocation until fake_cuda_unpin, which takes the view.
 * Freeing the memory before is misuse, because adapters lose access then. */
void *fake_cuda_pin(const void *device, size_t bytes);
void fake_cuda_unpin(const void *view);

/* … and by a dma-buf, from `offset` on. NULL if it is none, or too small. */
void *fake_cuda_pin_dmabuf(int fd, uint64_t offset, size_t bytes);

/* The action of cuFlushGPUDirectRDMAWrites on adapters; called without the lock. */
void fake_cuda_on_flush(void (*flush)(void));

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control of the fake libcuda.so.1 (script.c tells the language), and what a processor, or an adapter,
 * sees of its device memory. Whoever uses these has got them by dlsym: the library is opened by its
 * path, and known by its SONAME from then on.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

struct fake_cuda_counts {
	/* alive now: all zero means that nothing has leaked */
	uint64_t contexts; /* times that primary contexts are retained, and contexts made */
	uint64_t allocations, device_bytes;
	uint64_t pinned, pinned_bytes; /* cuMemHostAlloc, cuMemHostRegister */
	uint64_t streams, events;
	uint64_t registrations; /* fake_cuda_pin */
	uint64_t waiting;       /* copies on streams */
	uint64_t frees_waiting; /* cuMemFree, for a kernel */
	/* since the start, or fake_cuda_reset */
	uint64_t copies, copied_bytes; /* done, on streams */
	uint64_t queries;              /* cuEventQuery, cuStreamQuery */
	uint64_t dmabufs;              /* handed out … */
	uint64_t dmabufs_by_pcie;      /* … of which with that flag */
	uint64_t flushes;              /* cuFlushGPUDirectRDMAWrites */
	uint64_t misuses;              /* calls that a line on stderr complains of */
	uint64_t calls;                /* of any function, but for those with fake_cuda_own */
};

/* Obeys some lines of the language. 0, or -1 with the reason on stderr. */
int fake_cuda_script(const char *text);

/* Forgets what is to fail, holds nothing back, and sets the second group of counts to 0. */
void fake_cuda_reset(void);

void fake_cuda_counts(struct fake_cuda_counts *counts);

/* Calls of this thread, until the next time, are the test's own, and not counted; or not. */
void fake_cuda_own(int own);

/* Where the processor may read and write the `bytes` of device memory at `device`, until they are
 * freed; NULL if they are not all within one allocation. */
void *fake_cuda_view(const void *device, size_t bytes);

/* The same for an adapter, which may have an allocation's whole pages, and use them until fake_cuda_unpin,
 * which takes the view. Memory that is freed before is a misuse, as adapters lose theirs then. */
void *fake_cuda_pin(const void *device, size_t bytes);
void fake_cuda_unpin(const void *view);

/* … and by a dma-buf, from `offset` on: a descriptor of one has nothing else to give. NULL if it is none,
 * or does not hold that much. */
void *fake_cuda_pin_dmabuf(int fd, uint64_t offset, size_t bytes);

/* What cuFlushGPUDirectRDMAWrites is to do with adapters; without a lock of ours. */
void fake_cuda_on_flush(void (*flush)(void));

#endif

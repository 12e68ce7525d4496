/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory that has to go by a path which the GPU does not reach: it is copied through *bounces*,
 * pieces of pinned host memory, by the GPU's copy engines (docs/ib.md, "GPU memory over TCP"). A GPU
 * has one pool of them for all comms, made when the first memory of it is registered, and kept for the
 * life of the process: to pin memory, to make streams or events may wait for kernels that wait for us.
 *
 * Copies run on two streams of our own, one each way, and neither launch kernels nor wait for any. Any
 * thread; a bounce belongs to who has taken it.
 */
#ifndef ANYNET_GPU_H
#define ANYNET_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_BOUNCE_BYTES  ((size_t)64 << 10)
#define GPU_SCRATCH_BYTES ((size_t)64 << 10) /* of whole pages */
#define GPUS_MAX          64

struct gpu;

/*
 * Which memory is at a range of addresses: of a GPU's what CUDA calls the allocations that hold the first and
 * the last byte (CU_POINTER_ATTRIBUTE_BUFFER_ID), which tell cudaFree and cudaMalloc at one address apart. A
 * dmabuf does not tell: each export is another one, and NCCL exports for each connection (NCCL
 * src/transport/net.cc:994@v2.30.7). 0 and 0: the host's.
 */
struct memory_id {
	uint64_t first, last;
};

/* Some of it. */
struct memory_range {
	void *addr;
	size_t bytes;
	struct memory_id id;
};

/* The id of no other memory. Any thread. */
struct memory_id memory_id_unique(void);

/* The GPU that has the memory at `addr`, with its pool. 0, or -errno: -ENOENT without a CUDA driver;
 * `why` then tells. May block for as long as CUDA takes. */
int gpu_of(const void *addr, struct gpu **gpu, char *why, size_t why_bytes);

/* A bounce; -1: none is free. From then on gpu_is_short until one is taken again: who has some that
 * are not copying, and cannot use them at once, gives them back. */
int gpu_bounce_take(struct gpu *gpu);
/* Where a copy has failed, waits until nothing goes to it or from it; 20 s at most. */
void gpu_bounce_give(struct gpu *gpu, int bounce);
uint8_t *gpu_bounce_memory(const struct gpu *gpu, int bounce); /* GPU_BOUNCE_BYTES */
bool gpu_is_short(const struct gpu *gpu);

/* Start a copy between the beginning of a bounce and GPU memory. `polled`: the GPU looks for flags there
 * meanwhile, which LL128 has in the last 8 of each 128 bytes (net-api.md §3.5); CUDA promises no order of the
 * bytes of a copy, so they are copied when the others are there. 0 or -EIO (gpu_why). */
int gpu_copy_out(struct gpu *gpu, int bounce, const void *from, size_t bytes);
int gpu_copy_in(struct gpu *gpu, int bounce, void *to, size_t bytes, bool polled);

/* Is the copy that was started last done? 1, 0 or -EIO; the other waits: 0 or -EIO. */
int gpu_copy_done(struct gpu *gpu, int bounce);
int gpu_copy_wait(struct gpu *gpu, int bounce);

/* For little, and what is rare: copy, and wait for it; some ten microseconds for each GPU_BOUNCE_BYTES.
 * 0 or -EIO. */
int gpu_fetch(struct gpu *gpu, void *to, const void *from, size_t bytes);
int gpu_put(struct gpu *gpu, void *to, const void *from, size_t bytes, bool polled);

/* What other devices have written to the GPU's memory is there for it when this returns; up to 100 us. 0,
 * -EOPNOTSUPP: the driver or the GPU cannot, or -EIO. */
int gpu_flush(struct gpu *gpu);

/* An fd for a dmabuf of these whole pages, the caller's; -EOPNOTSUPP: the driver is too old. */
int gpu_dmabuf_fd(struct gpu *gpu, const void *addr, size_t bytes);

/* CUDA's number for it, less than GPUS_MAX. */
int gpu_ordinal(const struct gpu *gpu);

/* GPU_SCRATCH_BYTES of the GPU's memory, for the life of the process: to free memory may wait for kernels. The
 * caller sees to it that it is one thread's at a time. NULL = none (gpu_why). May block for as long as CUDA takes. */
void *gpu_scratch(struct gpu *gpu);

/* After gpu_of for `addr`. A unique id where CUDA does not tell. */
struct memory_id gpu_memory_id(const void *addr, size_t bytes);

/* What CUDA last had to say: "CUDA_ERROR_UNKNOWN (unknown error)". Returns `text`. */
const char *gpu_why(const struct gpu *gpu, char *text, size_t bytes);

#endif

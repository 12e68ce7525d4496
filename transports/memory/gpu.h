/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of GPU memory, for paths that do not reach it. The GPU's copy engines move it through *bounces*, pieces of
 * pinned host memory (docs/ib.md, "GPU memory over TCP"). A GPU has one pool of bounces for all comms. The pool is made
 * when memory of that GPU is registered for the first time, and is never freed, because pinning memory or creating
 * streams and events may wait for kernels, which may wait for this plugin.
 *
 * Copies run on two streams of the plugin, one for each direction. They launch no kernels and wait for none. Any
 * thread; a bounce belongs to the caller that has taken it.
 */
#ifndef ANYNET_GPU_H
#define ANYNET_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_BOUNCE_BYTES  ((size_t)64 << 10)
#define GPU_SCRATCH_BYTES ((size_t)64 << 10) /* whole pages */
#define GPUS_MAX          64

struct gpu;

/*
 * Identity of the memory at a range of addresses. For GPU memory: CUDA's numbers of the allocations with the first and
 * the last byte (CU_POINTER_ATTRIBUTE_BUFFER_ID). They differ after a cudaFree and a cudaMalloc at the same address. A
 * dma-buf cannot serve as identity, because each export is another one, and NCCL exports for each connection (NCCL
 * src/transport/net.cc:994@v2.30.7). 0 and 0: host memory.
 */
struct memory_id {
	uint64_t first, last;
};

struct memory_range {
	void *addr;
	size_t bytes;
	struct memory_id id;
};

/* An id that no other memory has. Any thread. */
struct memory_id memory_id_unique(void);

/* The GPU with the memory at `addr`; makes its pool if there is none. Takes as long as CUDA takes. 0 or -errno, -ENOENT
 * without a CUDA driver: `why` has the reason. */
int gpu_of(const void *addr, struct gpu **gpu, char *why, size_t why_bytes);

/* Takes a bounce. -1 = none is free. Then gpu_is_short is true until one can be taken again; callers meanwhile give
 * back bounces that are not copying and that they cannot use at once. */
int gpu_bounce_take(struct gpu *gpu);
/* Gives a bounce back. After a failed copy, waits until no copy reads or writes it, for at most 20 s. */
void gpu_bounce_give(struct gpu *gpu, int bounce);
uint8_t *gpu_bounce_memory(const struct gpu *gpu, int bounce); /* GPU_BOUNCE_BYTES */
bool gpu_is_short(const struct gpu *gpu);

/* Start a copy between the beginning of a bounce and GPU memory. `polled`: the GPU polls that memory for flags, which
 * LL128 has in the last 8 of each 128 bytes (net-api.md §3.5). CUDA guarantees no order of the bytes of a copy, so the
 * flags are then copied after the other bytes. 0 or -EIO (gpu_why). */
int gpu_copy_out(struct gpu *gpu, int bounce, const void *from, size_t bytes);
int gpu_copy_in(struct gpu *gpu, int bounce, void *to, size_t bytes, bool polled);

/* Is the bounce's last copy done? 1, 0 or -EIO. */
int gpu_copy_done(struct gpu *gpu, int bounce);
/* Waits for it, for at most 10 s. 0 or -EIO. */
int gpu_copy_wait(struct gpu *gpu, int bounce);

/* Copy and wait, some ten microseconds for each GPU_BOUNCE_BYTES: for small or rare copies. 0 or -EIO. */
int gpu_fetch(struct gpu *gpu, void *to, const void *from, size_t bytes);
int gpu_put(struct gpu *gpu, void *to, const void *from, size_t bytes, bool polled);

/* Makes what other devices have written to the GPU's memory visible to it; takes up to 100 us. 0, -EOPNOTSUPP: the
 * driver or the GPU does not support it, or -EIO. */
int gpu_flush(struct gpu *gpu);

/* An fd of a dma-buf of these whole pages, which the caller closes. -EOPNOTSUPP: the driver is too old; or -EIO. */
int gpu_dmabuf_fd(struct gpu *gpu, const void *addr, size_t bytes);

/* CUDA's number of the device, less than GPUS_MAX. */
int gpu_ordinal(const struct gpu *gpu);

/* GPU_SCRATCH_BYTES of the GPU's memory. Never freed, because that may wait for kernels. One thread at a time; the
 * caller ensures this. Takes as long as CUDA takes. NULL = none (gpu_why). */
void *gpu_scratch(struct gpu *gpu);

/* The id of GPU memory, after gpu_of for `addr`. A unique id if CUDA does not know it. */
struct memory_id gpu_memory_id(const void *addr, size_t bytes);

/* CUDA's last error: "CUDA_ERROR_UNKNOWN (unknown error)". Returns `text`. */
const char *gpu_why(const struct gpu *gpu, char *text, size_t bytes);

#endif

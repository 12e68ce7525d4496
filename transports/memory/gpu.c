/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs, their contexts and their pools of bounces; see gpu.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/log.h>
#include <nccl_net/util.h>

#include "base/net.h"
#include "base/pinned.h"
#include "memory/gpu_internal.h"

/* --- finding a GPU and making its pool --- */

/* The streams have the highest priority. Streams of default priority share the device's queues, of which there may be
 * only one (CUDA_DEVICE_MAX_CONNECTIONS). There a copy could queue behind one of the application that waits for a
 * kernel of NCCL, which waits for this plugin. */
static int make_streams(struct gpu *gpu)
{
	int least, greatest, error = gpus.cuda.ctx_priority_range(&least, &greatest);

	if (!error && !gpu->out)
		error = gpus.cuda.stream_create(&gpu->out, CUDA_STREAM_NON_BLOCKING, greatest);
	if (!error && !gpu->in)
		error = gpus.cuda.stream_create(&gpu->in, CUDA_STREAM_NON_BLOCKING, greatest);
	return error;
}

static int pin_memory(struct gpu *gpu)
{
	int error = gpus.cuda.mem_host_register(gpu->memory, GPU_BOUNCES * GPU_BOUNCE_BYTES,
					       CUDA_HOST_PORTABLE);

	if (error)
		return error;
	error = gpus.cuda.pointer_get_attribute(&gpu->pinned, CUDA_POINTER_BUFFER,
					       (uintptr_t)gpu->memory);
	if (error)
		gpus.cuda.mem_host_unregister(gpu->memory);
	return error;
}

/* Makes what is missing; an earlier attempt may have failed half-way. 0 or CUDA's error. */
static int make_pool(struct gpu *gpu)
{
	int error = 0;

	if (!gpu->memory)
		gpu->memory = pinned_alloc(GPU_BOUNCES * GPU_BOUNCE_BYTES);
	if (!gpu->memory)
		return CUDA_OUT_OF_MEMORY;
	if (!gpu->pinned)
		error = pin_memory(gpu);
	if (!error)
		error = make_streams(gpu);
	for (int i = 0; i < GPU_BOUNCES && !error; i++)
		if (!gpu->events[i])
			error = gpus.cuda.event_create(&gpu->events[i], CUDA_EVENT_NO_TIMING);
	return error;
}

/* Gives up the plugin's own context, and with it what the pool has there. A copy that may still be in progress keeps it,
 * and the memory. */
static void give_up_context(struct gpu *gpu)
{
	struct gpu_call call;

	if (atomic_load(&gpu->error) == CUDA_NOT_READY) {
		gpu->memory = NULL;
	} else {
		if (!gpu_enter_context(gpu->context, 0, &call) && gpu->pinned)
			gpus.cuda.mem_host_unregister(gpu->memory);
		gpu_leave(gpu, &call, 0);
		gpus.cuda.ctx_destroy(gpu->context);
	}
	gpu->pinned = 0;
	gpu->in = gpu->out = NULL; /* they end with their context */
	memset(gpu->events, 0, sizeof(gpu->events));
	atomic_store(&gpu->unsure, 0);
	gpu->context = gpu->primary;
}

static bool wants_context(void)
{
	int wish = anynet_net.cfg->cuda_own_context;

	if (wish != ANYNET_SWITCH_AUTO)
		return wish;
	for (int i = 0; i < anynet_net.device_count; i++)
		if (anynet_net.devices[i].transport == ANYNET_TRANSPORT_IB &&
		    anynet_net.devices[i].ptr_support & (ANYNET_PTR_CUDA | ANYNET_PTR_DMABUF))
			return false;
	return true;
}

/* Prefers a context of the plugin's own, which shares no lock and no queue with the application's calls. */
static void choose_context(struct gpu *gpu, int device)
{
	char text[160];
	int error;

	if (gpu->context)
		return;
	gpu->context = gpu->primary;
	if (!wants_context() || !gpus.cuda.ctx_create || !gpus.cuda.ctx_destroy)
		return;
	error = gpus.cuda.ctx_create(&gpu->context, 0, device);
	if (!error) {
		gpus.cuda.ctx_pop(&gpu->context);
		return;
	}
	gpu->context = gpu->primary;
	anynet_info("GPU %d: copies use the application's CUDA context, because anynet cannot "
		    "create one: %s",
		    gpu->ordinal, gpu_error_text(error, text, sizeof(text)));
}

/* Does the plugin's own context reach the application's memory? Copies a byte. 0 = yes. 1: no, so the primary context
 * is used from now on, and the pool is to be made in it. */
static int prove_context(struct gpu *gpu, const void *addr)
{
	char text[160];
	int bounce;

	if (gpu->context == gpu->primary)
		return 0;
	bounce = __builtin_ctzll(atomic_load(&gpu->bounces));
	if (!gpu_copy_out(gpu, bounce, addr, 1) && !gpu_copy_wait(gpu, bounce))
		return 0;
	anynet_info(
		"GPU %d: anynet's CUDA context cannot access the application's memory (%s); "
		"copies use the application's context",
		gpu->ordinal, gpu_why(gpu, text, sizeof(text)));
	give_up_context(gpu);
	return 1;
}

static int make_in_context(struct gpu *gpu)
{
	struct gpu_call call;
	int error = gpu_enter_context(gpu->context, 0, &call);

	if (!error)
		error = make_pool(gpu);
	gpu_leave(gpu, &call, error);
	return error;
}

static int make_relaxed(struct gpu *gpu, const void *addr)
{
	int device, error = gpus.cuda.device_get(&device, gpu->ordinal);

	if (!error && !gpu->primary)
		error = gpus.cuda.primary_ctx_retain(&gpu->primary, device);
	if (error)
		return error;
	choose_context(gpu, device);
	atomic_store(&gpu->waited, (1ull << GPU_WAITED) - 1);
	atomic_store(&gpu->bounces, ~0ull << GPU_WAITED);
	error = make_in_context(gpu);
	if (!error && prove_context(gpu, addr))
		error = make_in_context(gpu);
	if (!error)
		atomic_store(&gpu->state, GPU_MADE);
	return error;
}

static int make(struct gpu *gpu, const void *addr)
{
	int mode = CUDA_CAPTURE_RELAXED, error;

	gpus.cuda.thread_exchange_capture_mode(&mode);
	error = make_relaxed(gpu, addr);
	gpus.cuda.thread_exchange_capture_mode(&mode);
	return error;
}

static int open_driver(char *why, size_t why_bytes)
{
	const char *file = anynet_net.cfg->cuda_lib;
	int ret, error;
	char text[160];

	if (gpus.cuda.library)
		return 0;
	ret = cuda_open(*file ? file : "libcuda.so.1", &gpus.cuda, why, why_bytes);
	if (ret)
		return ret;
	error = gpus.cuda.init(0);
	if (!error)
		return 0;
	snprintf(why, why_bytes, "cuInit: %s", gpu_error_text(error, text, sizeof(text)));
	gpus.cuda.library = NULL; /* stays loaded; the next gpu_of tries again */
	return -ENODEV;
}

static int find(const void *addr, struct gpu **out, char *why, size_t why_bytes)
{
	struct gpu *gpu;
	char text[160];
	int ordinal = -1,
	    error = gpus.cuda.pointer_get_attribute(&ordinal, CUDA_POINTER_ORDINAL, (uintptr_t)addr);

	if (error || ordinal < 0 || ordinal >= GPUS_MAX) {
		snprintf(why, why_bytes, "CUDA does not know GPU memory at %p: %s", addr,
			 error ? gpu_error_text(error, text, sizeof(text)) : "no such device");
		return -EINVAL;
	}
	gpu = gpus.by_ordinal[ordinal];
	if (gpu && atomic_load(&gpu->state) == GPU_MADE)
		gpu_check_context(gpu);
	if (!gpu || atomic_load(&gpu->state) == GPU_RESET) {
		struct gpu *former = gpu;

		gpu = calloc(1, sizeof(*gpu));
		if (gpu) {
			gpu->ordinal = ordinal;
			gpu->former = former;
		}
		gpus.by_ordinal[ordinal] = gpu ? gpu : former;
	}
	if (!gpu) {
		snprintf(why, why_bytes, "out of memory");
		return -ENOMEM;
	}
	if (atomic_load(&gpu->state) == GPU_NEW) {
		error = make(gpu, addr);
		if (error) {
			snprintf(why, why_bytes, "GPU %d: cannot allocate a copy buffer: %s", ordinal,
				 gpu_error_text(error, text, sizeof(text)));
			return -ENOMEM;
		}
	}
	*out = gpu;
	return 0;
}

int gpu_of(const void *addr, struct gpu **gpu, char *why, size_t why_bytes)
{
	int ret;

	pthread_mutex_lock(&gpus.lock);
	ret = open_driver(why, why_bytes);
	if (!ret)
		ret = find(addr, gpu, why, why_bytes);
	pthread_mutex_unlock(&gpus.lock);
	return ret;
}

/* --- flush, scratch memory, ids --- */

int gpu_flush(struct gpu *gpu)
{
	struct gpu_call call;
	int error = gpu_enter(gpu, &call);

	if (!error)
		error = gpus.cuda.flush_writes
				? gpus.cuda.flush_writes(CUDA_FLUSH_CONTEXT, CUDA_FLUSH_TO_ALL)
				: CUDA_NOT_SUPPORTED;
	return gpu_leave(gpu, &call, error) && error == CUDA_NOT_SUPPORTED ? -EOPNOTSUPP
	       : error                                                 ? -EIO
								       : 0;
}

int gpu_ordinal(const struct gpu *gpu)
{
	return gpu->ordinal;
}

/* Allocated in the primary context, like the application's memory, with room to align it to a page. */
void *gpu_scratch(struct gpu *gpu)
{
	size_t page = pinned_round(1);
	struct gpu_call call;
	int error = 0;

	if (!gpu->scratch) {
		error = gpu_enter_context(gpu->primary, gpu_check_context(gpu), &call);
		if (!error)
			error = gpus.cuda.mem_alloc(&gpu->scratch, GPU_SCRATCH_BYTES + page);
		gpu_leave(gpu, &call, error);
	}
	return error ? NULL
		     : (void *)(uintptr_t)((gpu->scratch + page - 1) & ~(uint64_t)(page - 1));
}

/* Mapped by PCIe if the driver supports the flag. NCCL requests the same if GPU and NIC are behind one switch (NCCL
 * src/graph/paths.cc:540@v2.30.7), and tries it first for GIN (src/gin/gin_host_proxy.cc:98). */
int gpu_dmabuf_fd(struct gpu *gpu, const void *addr, size_t bytes)
{
	struct gpu_call call;
	int fd = -1, error;

	if (!gpus.cuda.mem_get_handle)
		return -EOPNOTSUPP;
	error = gpu_enter_context(gpu->primary, gpu_check_context(gpu), &call);
	if (!error && gpus.cuda.mem_get_handle(&fd, (uintptr_t)addr, bytes, CUDA_RANGE_DMABUF,
					      CUDA_RANGE_BY_PCIE))
		error = gpus.cuda.mem_get_handle(&fd, (uintptr_t)addr, bytes, CUDA_RANGE_DMABUF, 0);
	return gpu_leave(gpu, &call, error) ? -EIO : fd;
}

struct memory_id memory_id_unique(void)
{
	static _Atomic uint64_t serial;
	uint64_t id = 1ull << 63 | atomic_fetch_add(&serial, 1); /* CUDA's ids count from 1 */

	return (struct memory_id){ id, id };
}

struct memory_id gpu_memory_id(const void *addr, size_t bytes)
{
	uintptr_t first = (uintptr_t)addr, last = first + (bytes ? bytes - 1 : 0);
	struct memory_id id;

	if (gpus.cuda.pointer_get_attribute(&id.first, CUDA_POINTER_BUFFER, first) ||
	    gpus.cuda.pointer_get_attribute(&id.last, CUDA_POINTER_BUFFER, last))
		return memory_id_unique();
	return id;
}

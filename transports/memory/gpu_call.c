/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to CUDA; see gpu_internal.h. */
#include <errno.h>
#include <stdio.h>

#include <nccl_net/util.h>

#include "memory/gpu_internal.h"

struct gpus gpus = { .lock = PTHREAD_MUTEX_INITIALIZER };

const char *gpu_error_text(int error, char *text, size_t bytes)
{
	const char *name = NULL, *words = NULL;

	gpus.cuda.get_error_name(error, &name);
	gpus.cuda.get_error_string(error, &words);
	snprintf(text, bytes, "%s (%s)", name ? name : "unknown",
		 words ? words : "unknown error");
	return text;
}

const char *gpu_why(const struct gpu *gpu, char *text, size_t bytes)
{
	if (atomic_load(&gpu->state) != GPU_RESET)
		return gpu_error_text(atomic_load(&gpu->error), text, bytes);
	snprintf(text, bytes, "the application has reset GPU %d (cudaDeviceReset)", gpu->ordinal);
	return text;
}

int gpu_check_context(struct gpu *gpu)
{
	enum gpu_state made = GPU_MADE;
	uint64_t now = 0;
	int error;

	if (atomic_load_explicit(&gpu->state, memory_order_acquire) > GPU_MADE)
		return atomic_load(&gpu->error);
	if (!gpu->pinned)
		return 0;
	error = gpus.cuda.pointer_get_attribute(&now, CUDA_POINTER_BUFFER, (uintptr_t)gpu->memory);
	if (!error && now == gpu->pinned)
		return 0;
	/* Other errors are of calls before this one, such as a kernel's. */
	if (error && error != CUDA_INVALID_VALUE && error != CUDA_CONTEXT_IS_DESTROYED)
		return error;
	atomic_store(&gpu->error, CUDA_CONTEXT_IS_DESTROYED);
	atomic_compare_exchange_strong(&gpu->state, &made, GPU_RESET);
	return CUDA_CONTEXT_IS_DESTROYED;
}

int gpu_enter_context(void *context, int error, struct gpu_call *call)
{
	call->mode = CUDA_CAPTURE_RELAXED;
	gpus.cuda.thread_exchange_capture_mode(&call->mode);
	if (!error)
		error = gpus.cuda.ctx_push(context);
	call->entered = !error;
	return error;
}

int gpu_enter(struct gpu *gpu, struct gpu_call *call)
{
	return gpu_enter_context(gpu->context, gpu_check_context(gpu), call);
}

int gpu_leave(struct gpu *gpu, struct gpu_call *call, int error)
{
	void *context;

	if (call->entered)
		gpus.cuda.ctx_pop(&context);
	gpus.cuda.thread_exchange_capture_mode(&call->mode);
	if (anynet_likely(!error))
		return 0;
	atomic_store(&gpu->error, error);
	return -EIO;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by gpu.c, gpu_copy.c and gpu_call.c: the state of a GPU, and calls to CUDA. */
#ifndef ANYNET_GPU_INTERNAL_H
#define ANYNET_GPU_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "memory/cuda.h"
#include "memory/gpu.h"

#define GPU_BOUNCES 64
#define GPU_WAITED  2 /* of these, reserved for gpu_fetch and gpu_put */

enum gpu_state {
	GPU_NEW, /* its pool is not complete */
	GPU_MADE,
	GPU_LOST,  /* it is not known which copies are in progress: no further calls */
	GPU_RESET, /* the application has reset the device and so destroyed its context: no further calls */
};

struct gpu {
	int ordinal;
	_Atomic enum gpu_state state;
	void *primary;   /* the primary context, which the CUDA runtime uses */
	void *context;   /* the context of copies: the plugin's own, or the primary one */
	void *out, *in;  /* streams: from the GPU, to the GPU */
	uint8_t *memory; /* of the bounces; the plugin's, so it outlives the context */
	uint64_t pinned; /* CUDA's number of the registration of `memory`; 0 = not registered */
	void *events[GPU_BOUNCES];
	_Atomic uint64_t bounces, waited; /* bits of the free bounces; waited: of the reserved ones */
	_Atomic uint64_t unsure;          /* bits of bounces with a failed call: a copy may still be in progress */
	_Atomic bool is_short;
	_Atomic int error;  /* CUDA's last error */
	uint64_t scratch;   /* 0 = not allocated yet */
	struct gpu *former; /* this GPU before a reset; comms may still hold its bounces. NULL = none */
};

/* GPUs are never freed. */
extern struct gpus {
	pthread_mutex_t lock; /* held while a GPU is found or made */
	struct cuda cuda;
	struct gpu *by_ordinal[GPUS_MAX];
} gpus;

const char *gpu_error_text(int error, char *text, size_t bytes);

/* --- gpu_call.c: calls in a context, in relaxed capture mode, so that they do not break a stream capture --- */

struct gpu_call {
	int mode; /* the thread's capture mode before */
	bool entered;
};

/* Checks that the device has not been reset. A reset destroys the primary context, whose streams must not be used any
 * more, and ends the registration of gpu->memory, by which it is noticed. 0 or CUDA's error. */
int gpu_check_context(struct gpu *gpu);

/* Makes a context current, unless `error` is set already. gpu_enter: the context of copies, after gpu_check_context. 0
 * or CUDA's error; gpu_leave must follow in either case. */
int gpu_enter_context(void *context, int error, struct gpu_call *call);
int gpu_enter(struct gpu *gpu, struct gpu_call *call);

/* Restores the context and capture mode. `error`: result of entering and of the calls since. 0, or -EIO: it is kept as
 * gpu->error. */
int gpu_leave(struct gpu *gpu, struct gpu_call *call, int error);

#endif

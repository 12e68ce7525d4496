/* SPDX-License-Identifier: Apache-2.0 */
/* What gpu.c, gpu_copy.c and gpu_call.c share: a GPU as this process knows it, and how CUDA is called for it. */
#ifndef ANYNET_GPU_INTERNAL_H
#define ANYNET_GPU_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "memory/cuda.h"
#include "memory/gpu.h"

#define GPU_BOUNCES 64
#define GPU_WAITED  2 /* of these for gpu_fetch and gpu_put, which give back what they take */

enum gpu_state {
	GPU_NEW, /* its pool is not made yet, or in part */
	GPU_MADE,
	GPU_LOST,  /* what is in progress cannot be known any more: it is not called again */
	GPU_RESET, /* the application has reset the device, and its context is gone: the same */
};

struct gpu {
	int ordinal;
	_Atomic enum gpu_state state;
	void *primary;   /* the device's context that the CUDA runtime uses … */
	void *context;   /* … and the one that copies are made in: ours, or that */
	void *out, *in;  /* streams, one each way */
	uint8_t *memory; /* ours, so that it stays when the context goes … */
	uint64_t pinned; /* … and CUDA's number for it as long as it is registered */
	void *events[GPU_BOUNCES];
	_Atomic uint64_t bounces, waited; /* bits of those that are free */
	_Atomic uint64_t unsure; /* of those that a copy may be in progress of: a call has failed */
	_Atomic bool is_short;
	_Atomic int error;  /* the last */
	uint64_t scratch;   /* 0 = not asked for yet */
	struct gpu *former; /* the same before it was reset: comms may still hold bounces of that */
};

/* Never freed. */
extern struct gpus {
	pthread_mutex_t lock; /* of finding and making one */
	struct cuda cuda;
	struct gpu *by_ordinal[GPUS_MAX];
} gpus;

const char *gpu_error_text(int error, char *text, size_t bytes);

/* --- gpu_call.c: in a context, and whatever the thread or another one captures --- */

struct gpu_call {
	int mode; /* of the thread, before */
	bool entered;
};

/* A reset destroys the primary context with what is in it: its streams may not be called any more. The registration of
 * our memory ends with it. 0 or CUDA's error. */
int gpu_check_context(struct gpu *gpu);

/* Enter this context, unless there is an `error` already; or that in which copies are made. 0 or CUDA's error. */
int gpu_enter_context(void *context, int error, struct gpu_call *call);
int gpu_enter(struct gpu *gpu, struct gpu_call *call);

/* Leave, also after an error of entering. `error` of what was done since; 0, or -EIO and the error is kept. */
int gpu_leave(struct gpu *gpu, struct gpu_call *call, int error);

#endif

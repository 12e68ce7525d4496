/* SPDX-License-Identifier: Apache-2.0 */
/* What the checks of the fake libcuda.so.1 need: the library, opened as the plugin does it. Each check
 * has a process of its own. */
#ifndef TESTS_CUDA_RIG_H
#define TESTS_CUDA_RIG_H

#include "fakes/cuda/cuda_api.h"
#include "fakes/cuda/fake_cuda.h"

#include <support/check.h>

struct rig {
	struct cuda_calls cuda;
	int (*script)(const char *text);
	void (*reset)(void);
	void (*counts)(struct fake_cuda_counts *counts);
	void *(*view)(const void *device, size_t bytes);
	void *(*pin)(const void *device, size_t bytes);
	void (*unpin)(const void *view);
	void *(*pin_dmabuf)(int fd, uint64_t offset, size_t bytes);
	void (*on_flush)(void (*flush)(void));
};

extern struct rig rig;

struct check {
	const char *name;
	void (*run)(void);
	const char *description; /* FAKE_CUDA; NULL = unset */
};

/* cuInit, and device 0's primary context is retained and current. */
CUcontext rig_begin(void);

/* Releases it. Nothing is alive, and nothing was wrong but `misuses` calls. */
void rig_end(uint64_t misuses);

void order(const char *script);
struct fake_cuda_counts counts_now(void);
CUdeviceptr device_alloc(size_t bytes);
char *pinned_alloc(size_t bytes);
char *view_of(CUdeviceptr device, size_t bytes); /* there has to be one */
CUstream stream_new(void);                       /* non-blocking */
CUevent event_new(void);

/* Queries until the event is done; how often it was not. */
uint64_t event_poll(CUevent event);

/* The checks, by subject; each list ends with a NULL. */
extern const struct check adapter_checks[], context_checks[], memory_checks[], script_checks[],
	stream_checks[];

#endif

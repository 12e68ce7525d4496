/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the checks of the fake libcuda.so.1: the library, opened as by the plugin. Each check runs in a process of
 * its own. */
#ifndef TESTS_CUDA_RIG_H
#define TESTS_CUDA_RIG_H

#include "fakes/cuda/opened.h"
#include "fakes/selfcheck.h"

#include <support/check.h>

extern struct opened_cuda rig;
extern struct cuda_calls cuda; /* its calls */
extern CUcontext rig_context;  /* of device 0 */

/* Start of a check; its description is FAKE_CUDA. */
enum setting {
	BEGUN,
	BARE, /* before cuInit */
};

/* cuInit; device 0's primary context is retained and current. */
void rig_begin(void);

/* Releases it. Nothing is alive, and there were `misuses` wrong calls. */
void rig_end(uint64_t misuses);

void order(const char *script);
struct fake_cuda_counts counts_now(void);
CUdeviceptr device_alloc(size_t bytes);
char *pinned_alloc(size_t bytes);
char *view_of(CUdeviceptr device, size_t bytes); /* must exist */
CUstream stream_new(void);                       /* non-blocking */
CUevent event_new(void);

/* Queries until the event is done; returns how often it was not. */
uint64_t event_poll(CUevent event);

/* The checks, by subject; each list ends with a NULL. */
extern const struct selfcheck adapter_checks[], context_checks[], memory_checks[], script_checks[],
	stream_checks[];

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the checks of the software GPU. Each check runs in a process of its own. */
#ifndef TESTS_NCCL_RIG_H
#define TESTS_NCCL_RIG_H

#include "fakes/nccl/softgpu.h"
#include "fakes/selfcheck.h"

#include <support/check.h>

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#include <stdatomic.h>

#define INTS 4096 /* in each of the arrays */

/* The arguments of all kernels here. */
struct work {
	atomic_int *gate; /* a kernel that waits until it is open */
	atomic_int *count;
	int *from, *to;
	int wanted;
};

extern PFN_cuLaunchKernel_v4000 launch_kernel;

/* A function of the driver, as returned by the runtime. */
void entry_get(const char *name, unsigned version, void *function);

/* As NCCL does. */
CUresult launch(cudaStream_t stream, void (*kernel)(struct softgpu_args), unsigned blocks,
		struct work *work);

struct work work_of(struct softgpu_args *args);
void kernel_add(struct softgpu_args args);  /* waits at the gate, then to[] = from[] + 1 */
void kernel_gate(struct softgpu_args args); /* waits at the gate */

cudaStream_t stream_new(unsigned flags);
cudaEvent_t event_new(void);
int *ints_new(void); /* in the device's memory, zeros */
void ints_check(const int *device, int wanted);
void last_error_is(cudaError_t wanted); /* and clears it */

/* By subject; each list ends with a NULL. */
extern const struct selfcheck stream_checks[], memory_checks[], device_checks[];

#endif

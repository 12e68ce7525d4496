/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NCCL and its kernels rely on, checked on the software GPU. Each check has a process of its own.
 *
 *   check_stream.c   check_memory.c   check_device.c
 */
#include "rig.h"

#include <sched.h>
#include <string.h>

PFN_cuLaunchKernel_v4000 launch_kernel;

void entry_get(const char *name, unsigned version, void *function)
{
	enum cudaDriverEntryPointQueryResult status;

	check_ok(cudaGetDriverEntryPointByVersion(name, function, version, cudaEnableDefault,
						  &status));
	check_int(status, cudaDriverEntryPointSuccess);
}

/* As NCCL does. */
CUresult launch(cudaStream_t stream, void (*kernel)(struct softgpu_args), unsigned blocks,
		struct work *work)
{
	size_t bytes = sizeof(*work);
	void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, work, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			  CU_LAUNCH_PARAM_END };
	cudaFunction_t function;
	void *symbol;

	memcpy(&symbol, &kernel, sizeof(symbol));
	check_ok(cudaGetFuncBySymbol(&function, symbol));
	return launch_kernel(function, blocks, 1, 1, 64, 1, 1, 1024, stream, NULL, extra);
}

struct work work_of(struct softgpu_args *args)
{
	struct work work;

	memcpy(&work, args->bytes, sizeof(work));
	return work;
}

static void gate_wait(atomic_int *gate)
{
	while (gate && !atomic_load(gate))
		sched_yield();
}

/* Waits at the gate, then to[] = from[] + 1. */
void kernel_add(struct softgpu_args args)
{
	struct work work = work_of(&args);

	gate_wait(work.gate);
	for (int i = 0; i < INTS; i++)
		work.to[i] = work.from[i] + 1;
}

void kernel_gate(struct softgpu_args args)
{
	gate_wait(work_of(&args).gate);
}

cudaStream_t stream_new(unsigned flags)
{
	cudaStream_t stream;

	check_ok(cudaStreamCreateWithFlags(&stream, flags));
	return stream;
}

cudaEvent_t event_new(void)
{
	cudaEvent_t event;

	check_ok(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	return event;
}

int *ints_new(void)
{
	void *memory;

	check_ok(cudaMalloc(&memory, INTS * sizeof(int)));
	check_ok(cudaMemset(memory, 0, INTS * sizeof(int)));
	return memory;
}

void ints_check(const int *device, int wanted)
{
	static int ints[INTS];

	check_ok(cudaMemcpy(ints, device, sizeof(ints), cudaMemcpyDeviceToHost));
	for (int i = 0; i < INTS; i++)
		check_int(ints[i], wanted);
}

void last_error_is(cudaError_t wanted)
{
	check_int(cudaGetLastError(), wanted);
	check_int(cudaGetLastError(), cudaSuccess);
}

static void run(const struct selfcheck *check)
{
	entry_get("cuLaunchKernel", 4000, &launch_kernel);
	check->run();
}

int main(void)
{
	int failed = selfcheck_run(stream_checks, run) + selfcheck_run(memory_checks, run) +
		     selfcheck_run(device_checks, run);

	return failed ? TEST_FAILED : 0;
}

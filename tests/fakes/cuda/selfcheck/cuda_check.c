/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests rely on, checked on the fake libcuda.so.1.
 *
 *   cuda_check LIBRARY
 */
#include "rig.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

struct opened_cuda rig;
struct cuda_calls cuda;
CUcontext rig_context;
static const char *library;

void rig_begin(void)
{
	check_ok(cuda.cuInit(0));
	check_ok(cuda.cuDevicePrimaryCtxRetain(&rig_context, 0));
	check_ok(cuda.cuCtxPushCurrent_v2(rig_context));
}

void rig_end(uint64_t misuses)
{
	struct fake_cuda_counts counts;
	CUcontext context;

	check_ok(cuda.cuCtxPopCurrent_v2(&context));
	counts = counts_now();
	check_int(counts.allocations, 0);
	check_int(counts.device_bytes, 0);
	check_int(counts.pinned, 0);
	check_int(counts.pinned_bytes, 0);
	check_int(counts.streams, 0);
	check_int(counts.events, 0);
	check_int(counts.registrations, 0);
	check_int(counts.waiting, 0);
	check_ok(cuda.cuDevicePrimaryCtxRelease_v2(0));
	counts = counts_now();
	check_int(counts.contexts, 0);
	check_int(counts.misuses, misuses);
}

void order(const char *script)
{
	check_int(rig.script(script), 0);
}

struct fake_cuda_counts counts_now(void)
{
	struct fake_cuda_counts counts;

	rig.counts(&counts);
	return counts;
}

CUdeviceptr device_alloc(size_t bytes)
{
	CUdeviceptr memory;

	check_ok(cuda.cuMemAlloc_v2(&memory, bytes));
	return memory;
}

char *pinned_alloc(size_t bytes)
{
	void *memory;

	check_ok(cuda.cuMemHostAlloc(&memory, bytes, 0));
	return memory;
}

char *view_of(CUdeviceptr device, size_t bytes)
{
	char *view = rig.view((const void *)device, bytes);

	check_that(view, "no view of %zu bytes", bytes);
	return view;
}

CUstream stream_new(void)
{
	CUstream stream;

	check_ok(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

CUevent event_new(void)
{
	CUevent event;

	check_ok(cuda.cuEventCreate(&event, 2));
	return event;
}

uint64_t event_poll(CUevent event)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "an event");
	uint64_t count = 0;
	int ret;

	while ((ret = cuda.cuEventQuery(event)) == CUDA_ERROR_NOT_READY) {
		count++;
		deadline_turn(&deadline);
	}
	check_ok(ret);
	return count;
}

static void run(const struct selfcheck *check)
{
	check_ok(unsetenv("FAKE_CUDA"));
	if (check->description)
		check_ok(setenv("FAKE_CUDA", check->description, 1));
	cuda_open(library, &rig);
	cuda = rig.calls;
	check(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)); /* known by that name now */
	if (check->setting == BEGUN)
		rig_begin();
	check->run();
	if (check->setting == BEGUN)
		rig_end(check->misuses);
}

int main(int argc, char **argv)
{
	const struct selfcheck *lists[] = { adapter_checks, context_checks, memory_checks,
					    script_checks, stream_checks };
	int failed = 0;

	if (argc != 2) {
		fprintf(stderr, "usage: %s LIBRARY\n", argv[0]);
		return 2;
	}
	library = argv[1];
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		failed += selfcheck_run(lists[i], run);
	return failed ? 1 : 0;
}

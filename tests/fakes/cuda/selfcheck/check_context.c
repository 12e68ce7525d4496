/* SPDX-License-Identifier: Apache-2.0 */
/* Init, devices, contexts. */
#include "rig.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void nothing_works_before_init(void)
{
	CUcontext context;
	int value;

	check_int(cuda.cuDeviceGetCount(&value), CUDA_ERROR_NOT_INITIALIZED);
	check_int(cuda.cuDevicePrimaryCtxRetain(&context, 0), CUDA_ERROR_NOT_INITIALIZED);
	check_ok(cuda.cuDriverGetVersion(&value));
	check_int(value, 12040);
	check_int(cuda.cuInit(1), CUDA_ERROR_INVALID_VALUE);
	rig_begin();
	check_ok(cuda.cuDeviceGetCount(&value));
	check_int(value, 1);
	rig_end(2);
}

static void devices_are_as_described(void)
{
	CUdevice device;
	int value;

	check_ok(cuda.cuInit(0));
	check_ok(cuda.cuDriverGetVersion(&value));
	check_int(value, 11040);
	check_ok(cuda.cuDeviceGetCount(&value));
	check_int(value, 2);
	for (int i = 0; i < 2; i++) {
		check_ok(cuda.cuDeviceGet(&device, i));
		check_ok(cuda.cuDeviceGetAttribute(&value,
						   CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
						   device));
		check_int(value, i);
		check_ok(cuda.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
						   device));
		check_int(value, !i);
	}
	check_int(cuda.cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
	check_int(cuda.cuDeviceGetAttribute(&value, 116, 2), CUDA_ERROR_INVALID_DEVICE);
}

static void errors_have_names(void)
{
	const char *text;

	check_ok(cuda.cuGetErrorName(CUDA_ERROR_NOT_READY, &text));
	check(!strcmp(text, "CUDA_ERROR_NOT_READY"));
	check_ok(cuda.cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
	check(!strcmp(text, "out of memory"));
	check_int(cuda.cuGetErrorName(12345, &text), CUDA_ERROR_INVALID_VALUE);
	check(!text);
}

static void contexts_stack(void)
{
	CUcontext first = rig_context, second, seen;

	check_ok(cuda.cuDevicePrimaryCtxRetain(&second, 1));
	check(first != second);
	check_ok(cuda.cuCtxPushCurrent_v2(second));
	check_ok(cuda.cuCtxGetCurrent(&seen));
	check(seen == second);
	check_ok(cuda.cuCtxSetCurrent(first));
	check_ok(cuda.cuCtxPopCurrent_v2(&seen));
	check(seen == first);
	check_ok(cuda.cuCtxGetCurrent(&seen));
	check(seen == first);
	check_ok(cuda.cuCtxSetCurrent(NULL));
	check_int(cuda.cuCtxPopCurrent_v2(&seen), CUDA_ERROR_INVALID_CONTEXT);
	check_ok(cuda.cuCtxPushCurrent_v2(first));
	check_ok(cuda.cuDevicePrimaryCtxRelease_v2(1));
	check_int(cuda.cuCtxPushCurrent_v2(second), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	check_int(cuda.cuDevicePrimaryCtxRelease_v2(1), CUDA_ERROR_INVALID_CONTEXT);
}

static void *look_for_a_context(void *arg)
{
	CUcontext seen;
	CUdeviceptr memory;

	(void)arg;
	check_ok(cuda.cuCtxGetCurrent(&seen));
	check(!seen);
	check_int(cuda.cuMemAlloc_v2(&memory, 1), CUDA_ERROR_INVALID_CONTEXT);
	return NULL;
}

static void every_thread_has_its_own(void)
{
	pthread_t thread;

	check(!pthread_create(&thread, NULL, look_for_a_context, NULL));
	pthread_join(thread, NULL);
}

static void work_needs_a_context(void)
{
	CUcontext context = rig_context, seen;
	CUdeviceptr device = device_alloc(64);
	char *pinned = pinned_alloc(64);
	CUstream stream = stream_new(), none;
	CUevent event = event_new();

	check_ok(cuda.cuCtxPopCurrent_v2(&seen));
	check_int(cuda.cuStreamCreate(&none, 1), CUDA_ERROR_INVALID_CONTEXT);
	check_int(cuda.cuMemcpyHtoDAsync_v2(device, pinned, 64, stream),
		  CUDA_ERROR_INVALID_CONTEXT);
	check_int(cuda.cuMemcpyDtoH_v2(pinned, device, 64), CUDA_ERROR_INVALID_CONTEXT);
	check_int(cuda.cuEventRecord(event, stream), CUDA_ERROR_INVALID_CONTEXT);
	check_int(cuda.cuEventQuery(event), CUDA_ERROR_INVALID_CONTEXT);
	check_int(cuda.cuMemFreeHost(pinned), CUDA_ERROR_INVALID_CONTEXT);
	check_ok(cuda.cuCtxPushCurrent_v2(context));
	check_ok(cuda.cuMemFree_v2(device));
	check_ok(cuda.cuMemFreeHost(pinned));
	check_ok(cuda.cuStreamDestroy_v2(stream));
	check_ok(cuda.cuEventDestroy_v2(event));
}

/* Everything in a context is freed with its last reference. */
static void a_released_context_takes_all_with_it(void)
{
	struct fake_cuda_counts counts;
	CUstream stream;
	CUcontext context = rig_context;
	CUdeviceptr device = device_alloc(64);

	pinned_alloc(64);
	stream = stream_new();
	event_new();
	check_ok(cuda.cuDevicePrimaryCtxRelease_v2(0));
	counts = counts_now();
	check_int(counts.allocations + counts.pinned + counts.streams + counts.events, 0);
	check_int(cuda.cuStreamQuery(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	check(!rig.view((void *)device, 64));
	check_ok(cuda.cuDevicePrimaryCtxRetain(&context, 0));
	check_int(cuda.cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
}

/* Streams belong to one context, memory does not. */
static void made_contexts_share_memory_only(void)
{
	CUcontext primary = rig_context, made, seen;
	CUdeviceptr device = device_alloc(64);
	char *pinned = pinned_alloc(64);
	CUstream theirs = stream_new(), ours;
	int least, greatest;

	check_ok(cuda.cuCtxCreate_v2(&made, 0, 0));
	check_ok(cuda.cuCtxGetCurrent(&seen));
	check(seen == made && made != primary);
	check_ok(cuda.cuCtxGetStreamPriorityRange(&least, &greatest));
	check(greatest < least);
	check_ok(cuda.cuStreamCreateWithPriority(&ours, 1, greatest));
	strcpy(view_of(device, 64), "shared");
	check_ok(cuda.cuMemcpyDtoHAsync_v2(pinned, device, 64, ours));
	check_ok(cuda.cuStreamSynchronize(ours));
	check(!strcmp(pinned, "shared"));
	check_int(cuda.cuStreamQuery(theirs), CUDA_ERROR_INVALID_HANDLE);
	check_ok(cuda.cuCtxDestroy_v2(made));
	check_int(cuda.cuStreamQuery(ours), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	check_ok(cuda.cuCtxPopCurrent_v2(&seen));
	check_ok(cuda.cuStreamDestroy_v2(theirs));
	check_ok(cuda.cuMemFree_v2(device));
	check_ok(cuda.cuMemFreeHost(pinned));
}

/* The context stays retained, and other contexts are unchanged; registered memory is the caller's. */
static void a_reset_empties_the_primary_context(void)
{
	CUcontext primary = rig_context, made, seen;
	CUdeviceptr device = device_alloc(64);
	CUstream stream = stream_new();
	static char ours[4096];
	uint64_t id = 0;

	pinned_alloc(64);
	check_ok(cuda.cuMemHostRegister_v2(ours, sizeof(ours), 1));
	check_ok(
		cuda.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, (CUdeviceptr)ours));
	check(id);
	check_ok(cuda.cuCtxCreate_v2(&made, 0, 0));
	check_ok(cuda.cuDevicePrimaryCtxReset_v2(0));
	ours[0] = 1;
	check_int(cuda.cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
					     (CUdeviceptr)ours),
		  CUDA_ERROR_INVALID_VALUE);
	check(!rig.view((void *)device, 64));
	check_int(counts_now().pinned, 0);
	check_ok(cuda.cuCtxDestroy_v2(made));
	check_ok(cuda.cuCtxPopCurrent_v2(&seen));
	check_ok(cuda.cuCtxGetCurrent(&seen));
	check(seen == primary);
	check_int(cuda.cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
}

static void a_forked_child_has_no_cuda(void)
{
	int status, count;
	pid_t child;
	CUdeviceptr memory = device_alloc(64);

	strcpy(view_of(memory, 64), "parent");
	child = fork();
	if (!child) {
		check_int(cuda.cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
		check_int(cuda.cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
		check(!strcmp(view_of(memory, 64), "parent"));
		_exit(0);
	}
	check_int(waitpid(child, &status, 0), child);
	check_int(status, 0);
	check_ok(cuda.cuMemFree_v2(memory));
}

const struct selfcheck context_checks[] = {
	{ CHECK(nothing_works_before_init), .setting = BARE },
	{ CHECK(devices_are_as_described),
	  .description = "version 11040; device gpudirect=0; device dmabuf=0", .setting = BARE },
	{ CHECK(errors_have_names), .setting = BARE },
	{ CHECK(contexts_stack), .description = "device; device", .misuses = 3 },
	{ CHECK(every_thread_has_its_own), .misuses = 1 },
	{ CHECK(work_needs_a_context), .misuses = 6 },
	{ CHECK(a_released_context_takes_all_with_it), .misuses = 2 },
	{ CHECK(made_contexts_share_memory_only), .misuses = 2 },
	{ CHECK(a_reset_empties_the_primary_context), .misuses = 1 },
	{ CHECK(a_forked_child_has_no_cuda) },
	{ 0 },
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NCCL and its kernels rely on, checked on the software GPU: order on streams and between them,
 * blocks that run together, events, what memory is known as, and that wrong calls are errors. Each
 * check has a process of its own.
 */
#include "gpu.h"
#include "softgpu.h"

#include <support/check.h>

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCKS 24
#define INTS   4096

/* The arguments of all kernels here. */
struct work {
	atomic_int *gate; /* waits for it to be open */
	atomic_int *count;
	int *from, *to;
	int wanted;
};

static PFN_cuLaunchKernel_v4000 launch_kernel;

static void entry_get(const char *name, unsigned version, void *function)
{
	enum cudaDriverEntryPointQueryResult status;

	check_ok(cudaGetDriverEntryPointByVersion(name, function, version, cudaEnableDefault,
						  &status));
	check_int(status, cudaDriverEntryPointSuccess);
}

/* As NCCL does it. */
static CUresult launch(cudaStream_t stream, void (*kernel)(struct softgpu_args), unsigned blocks,
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

static struct work work_of(struct softgpu_args *args)
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
static void kernel_add(struct softgpu_args args)
{
	struct work work = work_of(&args);

	gate_wait(work.gate);
	for (int i = 0; i < INTS; i++)
		work.to[i] = work.from[i] + 1;
}

/* No block is done before all are there; each leaves its mark where it belongs. */
static void kernel_meet(struct softgpu_args args)
{
	struct work work = work_of(&args);

	work.to[softgpu_block()] += 1 + (int)softgpu_block();
	atomic_fetch_add(work.count, 1);
	while (atomic_load(work.count) < work.wanted)
		sched_yield();
}

static void kernel_gate(struct softgpu_args args)
{
	gate_wait(work_of(&args).gate);
}

static void count_up(void *data)
{
	atomic_fetch_add((atomic_int *)data, 1);
}

static cudaStream_t stream_new(unsigned flags)
{
	cudaStream_t stream;

	check_ok(cudaStreamCreateWithFlags(&stream, flags));
	return stream;
}

static cudaEvent_t event_new(void)
{
	cudaEvent_t event;

	check_ok(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	return event;
}

static int *ints_new(void)
{
	void *memory;

	check_ok(cudaMalloc(&memory, INTS * sizeof(int)));
	check_ok(cudaMemset(memory, 0, INTS * sizeof(int)));
	return memory;
}

static void ints_check(const int *device, int wanted)
{
	static int ints[INTS];

	check_ok(cudaMemcpy(ints, device, sizeof(ints), cudaMemcpyDeviceToHost));
	for (int i = 0; i < INTS; i++)
		check_int(ints[i], wanted);
}

static void last_error_is(cudaError_t wanted)
{
	check_int(cudaGetLastError(), wanted);
	check_int(cudaGetLastError(), cudaSuccess);
}

static void streams_keep_their_order_and_wait_for_events(void)
{
	cudaStream_t a = stream_new(cudaStreamNonBlocking), b = stream_new(cudaStreamNonBlocking);
	int *x = ints_new(), *y = ints_new(), *z = ints_new();
	cudaEvent_t a_done = event_new(), b_done = event_new();
	atomic_int gate = 0;

	for (int round = 0; round < 50; round++) {
		atomic_store(&gate, 0);
		check_ok(cudaMemsetAsync(x, 0, INTS * sizeof(int), a));
		check_ok(launch(a, kernel_add, 1,
				&(struct work){ .gate = &gate, .from = x, .to = y }));
		check_ok(launch(a, kernel_add, 1, &(struct work){ .from = y, .to = x }));
		check_ok(cudaEventRecord(a_done, a));
		check_ok(cudaStreamWaitEvent(b, a_done, 0));
		check_ok(cudaMemcpyAsync(z, x, INTS * sizeof(int), cudaMemcpyDeviceToDevice, b));
		check_ok(launch(b, kernel_add, 1, &(struct work){ .from = z, .to = y }));
		check_ok(cudaEventRecord(b_done, b));
		check_ok(cudaStreamWaitEvent(a, b_done, 0));
		check_ok(cudaMemcpyAsync(x, y, INTS * sizeof(int), cudaMemcpyDefault, a));
		check_int(cudaStreamQuery(a), cudaErrorNotReady);
		check_int(cudaStreamQuery(b), cudaErrorNotReady);
		last_error_is(cudaErrorNotReady);
		atomic_store(&gate, 1);
		check_ok(cudaStreamSynchronize(a));
		check_ok(cudaStreamQuery(b));
		ints_check(x, 3);
		ints_check(z, 2);
	}
}

/* Two launches whose blocks wait for those of the other too: twice the blocks, and nothing is free. */
static void blocks_run_at_the_same_time(void)
{
	cudaStream_t a = stream_new(cudaStreamNonBlocking), b = stream_new(cudaStreamNonBlocking);
	int *x = ints_new(), *y = ints_new(), ints[BLOCKS];
	atomic_int count = 0;

	for (int round = 1; round <= 50; round++) {
		struct work work = { .count = &count, .wanted = round * 2 * BLOCKS, .to = x };

		check_ok(launch(a, kernel_meet, BLOCKS, &work));
		work.to = y; /* the arguments are the launch's by now */
		check_ok(launch(b, kernel_meet, BLOCKS, &work));
		memset(&work, 0, sizeof(work));
		check_ok(cudaDeviceSynchronize());
		check_int(atomic_load(&count), round * 2 * BLOCKS);
		for (int *device = x; device; device = device == x ? y : NULL) {
			check_ok(cudaMemcpy(ints, device, sizeof(ints), cudaMemcpyDeviceToHost));
			for (int i = 0; i < BLOCKS; i++)
				check_int(ints[i], round * (1 + i));
		}
	}
}

static void events_stand_for_their_last_record(void)
{
	cudaStream_t a = stream_new(cudaStreamNonBlocking), b = stream_new(cudaStreamNonBlocking);
	atomic_int gates[3] = { 0 }, count = 0;
	cudaEvent_t event = event_new();

	check_ok(cudaEventQuery(event)); /* never recorded */
	check_ok(cudaEventSynchronize(event));
	check_ok(cudaStreamWaitEvent(a, event, 0));
	check_ok(cudaEventRecord(event, a)); /* of nothing */
	check_ok(cudaEventQuery(event));

	check_ok(launch(a, kernel_gate, 1, &(struct work){ .gate = &gates[0] }));
	check_ok(cudaEventRecord(event, a));
	check_ok(launch(a, kernel_gate, 1, &(struct work){ .gate = &gates[1] }));
	check_int(cudaEventQuery(event), cudaErrorNotReady);
	check_ok(cudaStreamWaitEvent(b, event, 0)); /* for the first gate, whatever comes */
	check_ok(cudaLaunchHostFunc(b, count_up, &count));
	check_ok(cudaEventRecord(event, a)); /* the second gate */
	atomic_store(&gates[0], 1);
	check_ok(cudaStreamSynchronize(b));
	check_int(atomic_load(&count), 1);
	check_int(cudaEventQuery(event), cudaErrorNotReady);
	atomic_store(&gates[1], 1);
	check_ok(cudaEventSynchronize(event));
	check_ok(cudaEventQuery(event));

	check_ok(launch(a, kernel_gate, 1, &(struct work){ .gate = &gates[2] }));
	check_ok(cudaEventRecord(event, a));
	check_ok(cudaStreamWaitEvent(b, event, 0));
	check_ok(cudaLaunchHostFunc(b, count_up, &count));
	check_ok(cudaEventDestroy(event)); /* who waits for it goes on waiting */
	check_ok(cudaStreamDestroy(a));
	check_int(cudaStreamQuery(b), cudaErrorNotReady);
	atomic_store(&gates[2], 1);
	check_ok(cudaStreamSynchronize(b));
	check_int(atomic_load(&count), 2);
	check_int(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
}

static void null_stream_is_ordered_with_blocking_ones(void)
{
	cudaStream_t blocking = stream_new(cudaStreamDefault),
		     other = stream_new(cudaStreamNonBlocking);
	unsigned long long null_id, legacy_id, id;
	int *x = ints_new(), *y = ints_new();
	atomic_int gates[3] = { 0 };
	cudaEvent_t event = event_new();

	check_ok(launch(other, kernel_gate, 1, &(struct work){ .gate = &gates[2] }));
	check_ok(cudaStreamSynchronize(NULL)); /* that is none of its business */
	check_ok(launch(blocking, kernel_add, 1,
			&(struct work){ .gate = &gates[0], .from = x, .to = x }));
	check_int(cudaStreamQuery(NULL), cudaErrorNotReady);
	check_ok(cudaEventRecord(event, NULL));
	check_int(cudaEventQuery(event), cudaErrorNotReady);
	check_ok(launch(NULL, kernel_add, 1,
			&(struct work){ .gate = &gates[1], .from = x, .to = y }));
	check_ok(launch(blocking, kernel_add, 1, &(struct work){ .from = y, .to = x }));
	atomic_store(&gates[0], 1);
	check_ok(cudaEventSynchronize(event));
	check_int(cudaStreamQuery(blocking), cudaErrorNotReady);
	atomic_store(&gates[1], 1);
	ints_check(x, 3); /* by a copy that waits for the blocking stream */
	ints_check(y, 2);
	check_int(cudaStreamQuery(other), cudaErrorNotReady);
	atomic_store(&gates[2], 1);
	check_ok(cudaDeviceSynchronize());
	check_ok(cudaStreamQuery(other));

	check_ok(cudaStreamGetId(NULL, &null_id));
	check_ok(cudaStreamGetId(cudaStreamLegacy, &legacy_id));
	check_ok(cudaStreamGetId(other, &id));
	check(null_id == legacy_id && id != null_id);
}

static void destroyed_stream_finishes_its_work(void)
{
	cudaStream_t stream = stream_new(cudaStreamNonBlocking);
	atomic_int gate = 0, count = 0;

	check_ok(launch(stream, kernel_gate, 4, &(struct work){ .gate = &gate }));
	check_ok(cudaLaunchHostFunc(stream, count_up, &count));
	check_ok(cudaStreamDestroy(stream));
	check_int(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
	check_int(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
	check_int(atomic_load(&count), 0);
	atomic_store(&gate, 1);
	check_ok(cudaDeviceSynchronize());
	check_int(atomic_load(&count), 1);
}

/* The check's process is to end like any other, and soon. */
static void process_ends_with_work_under_way(void)
{
	static atomic_int gate;

	for (int i = 0; i < 4; i++)
		check_ok(
			launch(stream_new(i % 2), kernel_gate, 8, &(struct work){ .gate = &gate }));
	check_int(cudaStreamQuery(NULL), cudaErrorNotReady);
}

static void pageable_memory_is_the_callers_again(void)
{
	cudaStream_t stream = stream_new(cudaStreamNonBlocking);
	int *x = ints_new(), *y = ints_new(), *from = malloc(INTS * sizeof(int)), to[INTS];
	atomic_int gate = 0;

	for (int i = 0; i < INTS; i++)
		from[i] = 7;
	check_ok(launch(stream, kernel_gate, 1, &(struct work){ .gate = &gate }));
	check_ok(cudaMemcpyAsync(x, from, INTS * sizeof(int), cudaMemcpyHostToDevice, stream));
	memset(from, 0, INTS * sizeof(int));
	free(from);
	check_ok(launch(stream, kernel_add, 1, &(struct work){ .from = x, .to = y }));
	atomic_store(&gate, 1);
	check_ok(cudaMemcpyAsync(to, y, sizeof(to), cudaMemcpyDefault, stream));
	for (int i = 0; i < INTS; i++)
		check_int(to[i], 8);
}

static void pointer_is(const void *pointer, enum cudaMemoryType type, bool on_device, bool on_host)
{
	struct cudaPointerAttributes attributes;

	check_ok(cudaPointerGetAttributes(&attributes, pointer));
	check_int(attributes.type, type);
	check(attributes.devicePointer == (on_device ? pointer : NULL));
	check(attributes.hostPointer == (on_host ? pointer : NULL));
	check_int(attributes.device, on_device ? 0 : cudaInvalidDeviceId);
}

static void memory_is_known_by_address(void)
{
	PFN_cuPointerGetAttribute_v4000 get_attribute;
	PFN_cuMemGetAddressRange_v3020 get_range;
	char *device, *host, *registered = aligned_alloc(4096, 8192);
	size_t before, after, total, bytes;
	CUdeviceptr start;
	void *pointer;
	int ordinal;

	entry_get("cuPointerGetAttribute", 4000, &get_attribute);
	entry_get("cuMemGetAddressRange", 3020, &get_range);
	check_ok(cudaMemGetInfo(&before, &total));
	check_ok(cudaMalloc((void **)&device, 10000));
	check((uintptr_t)device % 512 == 0);
	check_ok(cudaMemGetInfo(&after, &total));
	check(after < before && before <= total);
	check_ok(cudaHostAlloc((void **)&host, 5000, cudaHostAllocMapped));
	pointer_is(device, cudaMemoryTypeDevice, true, false);
	pointer_is(device + 9999, cudaMemoryTypeDevice, true, false);
	pointer_is(host + 4999, cudaMemoryTypeHost, true, true);
	pointer_is(registered, cudaMemoryTypeUnregistered, false, true);
	check_ok(cudaHostRegister(registered, 8192, cudaHostRegisterMapped));
	pointer_is(registered + 8191, cudaMemoryTypeHost, true, true);
	check_int(cudaHostRegister(registered + 4096, 4096, 0),
		  cudaErrorHostMemoryAlreadyRegistered);
	check_ok(cudaHostGetDevicePointer(&pointer, registered, 0));
	check(pointer == registered);
	check_ok(get_attribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)device));
	check_int(ordinal, 0);
	check_ok(get_range(&start, &bytes, (CUdeviceptr)device + 5));
	check(start == (CUdeviceptr)device && bytes >= 10000);
	check_ok(cudaHostUnregister(registered));
	check_int(cudaHostUnregister(registered), cudaErrorHostMemoryNotRegistered);
	pointer_is(registered, cudaMemoryTypeUnregistered, false, true);
	check_ok(cudaFree(device));
	check_ok(cudaFreeHost(host));
	pointer_is(device, cudaMemoryTypeUnregistered, false, true);
	pointer_is(host, cudaMemoryTypeUnregistered, false, true);
	check_ok(cudaMemGetInfo(&after, &total));
	check(after == before);
	check(get_attribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)device));
	free(registered);
}

static void pools_free_in_the_streams_order(void)
{
	struct cudaMemPoolProps props = { .allocType = cudaMemAllocationTypePinned,
					  .location = { .type = cudaMemLocationTypeDevice } };
	cudaStream_t stream = stream_new(cudaStreamNonBlocking);
	uint64_t threshold = ~UINT64_C(0);
	atomic_int gate = 0;
	cudaMemPool_t pool;
	void *memory;

	check_ok(cudaMemPoolCreate(&pool, &props));
	check_ok(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
	check_ok(cudaMallocFromPoolAsync(&memory, INTS * sizeof(int), pool, stream));
	check_ok(launch(stream, kernel_add, 1,
			&(struct work){ .gate = &gate, .from = memory, .to = memory }));
	check_ok(cudaFreeAsync(memory, stream));
	check_int(cudaFreeAsync(memory, stream), cudaErrorInvalidValue);
	check_int(cudaFree(memory), cudaErrorInvalidValue);
	atomic_store(&gate, 1);
	check_ok(cudaStreamSynchronize(stream));
	pointer_is(memory, cudaMemoryTypeUnregistered, false, true);
	check_ok(cudaMemPoolDestroy(pool));
}

static void device_is_one_without_gpudirect(void)
{
	struct cudaFuncAttributes function;
	struct cudaDeviceProp prop;
	cudaStream_t stream = stream_new(0);
	enum cudaStreamCaptureStatus status;
	PFN_cuCtxGetCurrent_v4000 get_current;
	PFN_cuGetErrorName_v6000 get_name;
	enum cudaDriverEntryPointQueryResult found;
	CUcontext context;
	const char *name;
	char bus_id[16];
	void *pointer;
	int value;

	check_ok(cudaGetDeviceCount(&value));
	check_int(value, 1);
	check_ok(cudaDriverGetVersion(&value));
	check_int(value, 11040);
	check_ok(cudaRuntimeGetVersion(&value));
	check_int(value, 13000);
	check_ok(cudaDeviceGetAttribute(&value, cudaDevAttrGPUDirectRDMASupported, 0));
	check_int(value, 0);
	check_ok(cudaGetDeviceProperties(&prop, 0));
	check_int(prop.major * 10 + prop.minor, 80);
	check_ok(cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), 0));
	check_ok(cudaDeviceGetByPCIBusId(&value, bus_id));
	check_int(cudaDeviceGetByPCIBusId(&value, "0000:01:00.0"), cudaErrorInvalidDevice);
	memcpy(&pointer, &(void (*)(struct softgpu_args)){ kernel_gate }, sizeof(pointer));
	check_ok(cudaFuncGetAttributes(&function, pointer));
	check_ok(cudaStreamGetCaptureInfo(stream, &status, NULL, NULL, NULL, NULL, NULL));
	check_int(status, cudaStreamCaptureStatusNone);
	entry_get("cuCtxGetCurrent", 4000, &get_current);
	check_ok(get_current(&context));
	check(context);
	entry_get("cuGetErrorName", 6000, &get_name);
	check_ok(get_name(CUDA_ERROR_INVALID_VALUE, &name));
	check(!strcmp(name, "CUDA_ERROR_INVALID_VALUE"));
	check_ok(cudaGetDriverEntryPointByVersion("cuMemCreate", &pointer, 10020, 0, &found));
	check_int(found, cudaDriverEntryPointSymbolNotFound);
	check(!pointer);
}

static void nvml_has_the_same_device(void)
{
	void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	int (*by_bus_id)(const char *, void **), (*capability)(void *, int *, int *);
	char bus_id[16];
	int major, minor;
	void *device;

	check_that(nvml, "%s", dlerror());
	*(void **)&by_bus_id = dlsym(nvml, "nvmlDeviceGetHandleByPciBusId");
	*(void **)&capability = dlsym(nvml, "nvmlDeviceGetCudaComputeCapability");
	check(by_bus_id && capability);
	check_ok(cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), 0));
	check_ok(by_bus_id(bus_id, &device));
	check_ok(capability(device, &major, &minor));
	check_int(major * 10 + minor, 80);
	check(by_bus_id("0000:01:00.0", &device));
}

static void wrong_calls_are_errors(void)
{
	struct work work = { 0 };
	cudaStream_t stream = stream_new(0);
	int *x = ints_new(), here = 0;
	cudaIpcMemHandle_t handle;
	void *params[] = { &work }, *pointer;

	last_error_is(cudaSuccess);
	check_int(cudaFree(&here), cudaErrorInvalidValue);
	last_error_is(cudaErrorInvalidValue);
	check_int(cudaFree(x + 1), cudaErrorInvalidValue);
	check_int(cudaFreeHost(x), cudaErrorInvalidValue);
	check_ok(cudaFree(NULL));
	check_int(cudaMalloc(&pointer, (size_t)1 << 50), cudaErrorMemoryAllocation);
	check_int(cudaMemset(&here, 0, sizeof(here)), cudaErrorInvalidValue);
	check_int(cudaMemset(x, 0, INTS * sizeof(int) + 1), cudaErrorInvalidValue);
	check_int(cudaMemcpy(&here, &here, sizeof(here), cudaMemcpyHostToDevice),
		  cudaErrorInvalidValue);
	check_int(cudaMemcpy(x, &here, sizeof(here), cudaMemcpyDeviceToHost),
		  cudaErrorInvalidValue);
	check_int(cudaMemcpy(x, &here, sizeof(here), (enum cudaMemcpyKind)9),
		  cudaErrorInvalidMemcpyDirection);
	check_int(cudaHostRegister((void *)4096, 4096, 0), cudaErrorInvalidValue);
	check_int(cudaSetDevice(1), cudaErrorInvalidDevice);
	check_int(cudaStreamSynchronize((cudaStream_t)x), cudaErrorInvalidResourceHandle);
	check_int(cudaEventRecord((cudaEvent_t)x, stream), cudaErrorInvalidResourceHandle);
	check_int(cudaStreamDestroy(NULL), cudaErrorInvalidResourceHandle);
	check_int(cudaIpcGetMemHandle(&handle, x), cudaErrorNotSupported);
	check_int(cudaLaunchKernel(x, (dim3){ 1, 1, 1 }, (dim3){ 1, 1, 1 }, params, 0, stream),
		  cudaErrorNotSupported);
	check_int(launch_kernel((CUfunction)x, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL),
		  CUDA_ERROR_NOT_SUPPORTED);
	check_int(launch(stream, kernel_gate, 0, &work), CUDA_ERROR_INVALID_VALUE);
	check_int(launch((cudaStream_t)x, kernel_gate, 1, &work), CUDA_ERROR_INVALID_HANDLE);
	check(strstr(cudaGetErrorString(cudaErrorInvalidValue), "cudaErrorInvalidValue"));
	check_ok(cudaStreamSynchronize(stream));
}

static const struct {
	const char *name;
	void (*run)(void);
} checks[] = {
#define CHECK(name)         \
	{                   \
#name, name \
	}
	CHECK(streams_keep_their_order_and_wait_for_events),
	CHECK(blocks_run_at_the_same_time),
	CHECK(events_stand_for_their_last_record),
	CHECK(null_stream_is_ordered_with_blocking_ones),
	CHECK(destroyed_stream_finishes_its_work),
	CHECK(process_ends_with_work_under_way),
	CHECK(pageable_memory_is_the_callers_again),
	CHECK(memory_is_known_by_address),
	CHECK(pools_free_in_the_streams_order),
	CHECK(device_is_one_without_gpudirect),
	CHECK(nvml_has_the_same_device),
	CHECK(wrong_calls_are_errors),
#undef CHECK
};

int main(void)
{
	int failed = 0, status;
	pid_t pid;

	for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++) {
		fflush(NULL);
		pid = fork();
		check(pid >= 0);
		if (!pid) {
			alarm(TEST_PATIENCE_MS * TEST_TIME_SCALE / 1000);
			entry_get("cuLaunchKernel", 4000, &launch_kernel);
			checks[i].run();
			exit(0);
		}
		check(waitpid(pid, &status, 0) == pid);
		printf("%s: %s\n", status ? "FAIL" : "ok", checks[i].name);
		failed += status != 0;
	}
	return failed ? TEST_FAILED : 0;
}

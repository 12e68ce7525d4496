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

static void device_is_one_without_dmabufs(void)
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
	check_int(value, 1);
	check_ok(cudaDeviceGetAttribute(&value,
					(enum cudaDeviceAttr)CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
					0));
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

/* What a net plugin calls, found as it finds them. */
static struct {
	CUresult (*init)(unsigned flags);
	CUresult (*context_retain)(CUcontext *context, CUdevice device);
	CUresult (*context_push)(CUcontext context);
	CUresult (*context_pop)(CUcontext *context);
	CUresult (*context_get)(CUcontext *context);
	CUresult (*context_set)(CUcontext context);
	CUresult (*pointer_get)(void *data, CUpointer_attribute attribute, CUdeviceptr pointer);
	CUresult (*host_alloc)(void **memory, size_t bytes, unsigned flags);
	CUresult (*host_free)(void *memory);
	CUresult (*copy_in)(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
	CUresult (*copy_out)(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
	CUresult (*stream_create)(CUstream *stream, unsigned flags);
	CUresult (*stream_sync)(CUstream stream);
	CUresult (*event_create)(CUevent *event, unsigned flags);
	CUresult (*event_record)(CUevent event, CUstream stream);
	CUresult (*event_query)(CUevent event);
	CUresult (*event_sync)(CUevent event);
	CUresult (*flush)(int target, int scope);
	CUresult (*handle_get)(void *handle, CUdeviceptr start, size_t bytes, int type,
			       unsigned long long flags);
} driver;

static void driver_open(void)
{
	static const struct {
		const char *name;
		void *member;
	} symbols[] = {
		{ "cuInit", &driver.init },
		{ "cuDevicePrimaryCtxRetain", &driver.context_retain },
		{ "cuCtxPushCurrent_v2", &driver.context_push },
		{ "cuCtxPopCurrent_v2", &driver.context_pop },
		{ "cuCtxGetCurrent", &driver.context_get },
		{ "cuCtxSetCurrent", &driver.context_set },
		{ "cuPointerGetAttribute", &driver.pointer_get },
		{ "cuMemHostAlloc", &driver.host_alloc },
		{ "cuMemFreeHost", &driver.host_free },
		{ "cuMemcpyHtoDAsync_v2", &driver.copy_in },
		{ "cuMemcpyDtoHAsync_v2", &driver.copy_out },
		{ "cuStreamCreate", &driver.stream_create },
		{ "cuStreamSynchronize", &driver.stream_sync },
		{ "cuEventCreate", &driver.event_create },
		{ "cuEventRecord", &driver.event_record },
		{ "cuEventQuery", &driver.event_query },
		{ "cuEventSynchronize", &driver.event_sync },
		{ "cuFlushGPUDirectRDMAWrites", &driver.flush },
		{ "cuMemGetHandleForAddressRange", &driver.handle_get },
	};
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *symbol;

	check_that(library, "%s", dlerror());
	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
		symbol = dlsym(library, symbols[i].name);
		check_that(symbol, "no %s", symbols[i].name);
		memcpy(symbols[i].member, &symbol, sizeof(symbol));
	}
	check_ok(driver.init(0));
}

static void driver_copies_the_runtimes_memory(void)
{
	int *x = ints_new(), *y = ints_new(), *bounce;
	cudaStream_t kernels = stream_new(cudaStreamNonBlocking);
	atomic_int gate = 0;
	CUstream out, in;
	CUevent event;
	unsigned type;

	driver_open();
	check_ok(driver.pointer_get(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)x));
	check_int(type, CU_MEMORYTYPE_DEVICE);
	check_ok(driver.host_alloc((void **)&bounce, INTS * sizeof(int), CU_MEMHOSTALLOC_PORTABLE));
	check_ok(driver.pointer_get(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)bounce));
	check_int(type, CU_MEMORYTYPE_HOST);
	check_ok(driver.stream_create(&out, CU_STREAM_NON_BLOCKING));
	check_ok(driver.stream_create(&in, CU_STREAM_NON_BLOCKING));
	check_ok(driver.event_create(&event, CU_EVENT_DISABLE_TIMING));

	/* Under way beside them is a kernel that waits for the copies. */
	check_ok(launch(kernels, kernel_gate, 1, &(struct work){ .gate = &gate }));
	check_ok(launch(out, kernel_add, 1, &(struct work){ .from = x, .to = x }));
	check_ok(driver.copy_out(bounce, (CUdeviceptr)x, INTS * sizeof(int), out));
	check_ok(driver.event_record(event, out));
	check_ok(driver.event_sync(event));
	check_ok(driver.event_query(event));
	for (int i = 0; i < INTS; i++) {
		check_int(bounce[i], 1);
		bounce[i] = 5;
	}
	check_ok(driver.copy_in((CUdeviceptr)y, bounce, INTS * sizeof(int), in));
	check_ok(driver.event_record(event, in));
	while (driver.event_query(event) == CUDA_ERROR_NOT_READY)
		sched_yield();
	check_int(y[INTS - 1], 5);
	check_ok(launch(kernels, kernel_add, 1, &(struct work){ .from = y, .to = y }));
	atomic_store(&gate, 1);
	check_ok(cudaStreamSynchronize(kernels));
	ints_check(y, 6);
	check_ok(driver.host_free(bounce));
	check(driver.pointer_get(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)bounce));
}

static void driver_has_its_contexts_and_errors(void)
{
	CUcontext context, primary;
	int *x = ints_new(), *y = ints_new(), fd = -1;
	atomic_int gate = 0;
	unsigned long long id, other;
	CUstream stream;
	CUevent event;

	driver_open();
	check_ok(driver.context_retain(&primary, 0));
	check_ok(driver.context_set(NULL));
	check_ok(driver.context_get(&context));
	check(!context);
	check_int(driver.stream_create(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
	check_int(driver.context_pop(&context), CUDA_ERROR_INVALID_CONTEXT);
	check_ok(driver.context_push(primary));
	check_ok(driver.stream_create(&stream, CU_STREAM_NON_BLOCKING));
	check_ok(driver.event_create(&event, CU_EVENT_DISABLE_TIMING));
	check_ok(driver.flush(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
			      CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES));
	check_int(driver.handle_get(&fd, (CUdeviceptr)x, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
				    0),
		  CUDA_ERROR_NOT_SUPPORTED);
	check_ok(driver.pointer_get(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, (CUdeviceptr)(x + 1)));
	check_ok(driver.pointer_get(&other, CU_POINTER_ATTRIBUTE_BUFFER_ID, (CUdeviceptr)y));
	check(id != other);

	/* The runtime's callers see none of the driver's errors. */
	check_ok(launch(stream, kernel_gate, 1, &(struct work){ .gate = &gate }));
	check_ok(driver.event_record(event, stream));
	check_int(driver.event_query(event), CUDA_ERROR_NOT_READY);
	last_error_is(cudaSuccess);
	check_int(cudaFree(x + 1), cudaErrorInvalidValue);
	check_int(driver.event_record((CUevent)x, stream), CUDA_ERROR_INVALID_HANDLE);
	last_error_is(cudaErrorInvalidValue);
	atomic_store(&gate, 1);
	check_ok(driver.stream_sync(stream));
	check_ok(driver.event_query(event));
	check_ok(driver.context_pop(&context));
	check(context == primary);
	check_int(driver.copy_in((CUdeviceptr)x, y, 4, stream), CUDA_ERROR_INVALID_CONTEXT);
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
	CHECK(device_is_one_without_dmabufs),
	CHECK(nvml_has_the_same_device),
	CHECK(driver_copies_the_runtimes_memory),
	CHECK(driver_has_its_contexts_and_errors),
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

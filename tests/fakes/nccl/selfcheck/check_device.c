/* SPDX-License-Identifier: Apache-2.0 */
/* The device by the runtime, NVML and the driver; wrong calls are errors. */
#include "fakes/nccl/gpu.h"
#include "rig.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

	/* Beside them runs a kernel that waits for the copies. */
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

const struct runtime_check device_checks[] = {
	{ "device_is_one_without_dmabufs", device_is_one_without_dmabufs },
	{ "nvml_has_the_same_device", nvml_has_the_same_device },
	{ "driver_copies_the_runtimes_memory", driver_copies_the_runtimes_memory },
	{ "driver_has_its_contexts_and_errors", driver_has_its_contexts_and_errors },
	{ "wrong_calls_are_errors", wrong_calls_are_errors },
	{ 0 },
};

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

/* The calls of a net plugin, looked up as it does. */
static void driver_open(void)
{
	static const char *const names[] = { "cuInit",
					     "cuDevicePrimaryCtxRetain",
					     "cuCtxPushCurrent_v2",
					     "cuCtxPopCurrent_v2",
					     "cuCtxGetCurrent",
					     "cuCtxSetCurrent",
					     "cuPointerGetAttribute",
					     "cuMemHostAlloc",
					     "cuMemFreeHost",
					     "cuMemcpyHtoDAsync_v2",
					     "cuMemcpyDtoHAsync_v2",
					     "cuStreamCreate",
					     "cuStreamSynchronize",
					     "cuEventCreate",
					     "cuEventRecord",
					     "cuEventQuery",
					     "cuEventSynchronize",
					     "cuFlushGPUDirectRDMAWrites",
					     "cuMemGetHandleForAddressRange" };
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	check_that(library, "%s", dlerror());
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		check_that(dlsym(library, names[i]), "no %s", names[i]);
	check_ok(cuInit(0));
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
	check_ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)x));
	check_int(type, CU_MEMORYTYPE_DEVICE);
	check_ok(cuMemHostAlloc((void **)&bounce, INTS * sizeof(int), CU_MEMHOSTALLOC_PORTABLE));
	check_ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				       (CUdeviceptr)bounce));
	check_int(type, CU_MEMORYTYPE_HOST);
	check_ok(cuStreamCreate(&out, CU_STREAM_NON_BLOCKING));
	check_ok(cuStreamCreate(&in, CU_STREAM_NON_BLOCKING));
	check_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));

	/* Meanwhile a kernel runs that waits for the copies. */
	check_ok(launch(kernels, kernel_gate, 1, &(struct work){ .gate = &gate }));
	check_ok(launch(out, kernel_add, 1, &(struct work){ .from = x, .to = x }));
	check_ok(cuMemcpyDtoHAsync(bounce, (CUdeviceptr)x, INTS * sizeof(int), out));
	check_ok(cuEventRecord(event, out));
	check_ok(cuEventSynchronize(event));
	check_ok(cuEventQuery(event));
	for (int i = 0; i < INTS; i++) {
		check_int(bounce[i], 1);
		bounce[i] = 5;
	}
	check_ok(cuMemcpyHtoDAsync((CUdeviceptr)y, bounce, INTS * sizeof(int), in));
	check_ok(cuEventRecord(event, in));
	while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
		sched_yield();
	check_int(y[INTS - 1], 5);
	check_ok(launch(kernels, kernel_add, 1, &(struct work){ .from = y, .to = y }));
	atomic_store(&gate, 1);
	check_ok(cudaStreamSynchronize(kernels));
	ints_check(y, 6);
	check_ok(cuMemFreeHost(bounce));
	check(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)bounce));
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
	check_ok(cuDevicePrimaryCtxRetain(&primary, 0));
	check_ok(cuCtxSetCurrent(NULL));
	check_ok(cuCtxGetCurrent(&context));
	check(!context);
	check_int(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
	check_int(cuCtxPopCurrent(&context), CUDA_ERROR_INVALID_CONTEXT);
	check_ok(cuCtxPushCurrent(primary));
	check_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	check_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	check_ok(cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
					    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES));
	check_int(cuMemGetHandleForAddressRange(&fd, (CUdeviceptr)x, 4096,
						CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
		  CUDA_ERROR_NOT_SUPPORTED);
	check_ok(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, (CUdeviceptr)(x + 1)));
	check_ok(cuPointerGetAttribute(&other, CU_POINTER_ATTRIBUTE_BUFFER_ID, (CUdeviceptr)y));
	check(id != other);

	/* Callers of the runtime see no errors of the driver. */
	check_ok(launch(stream, kernel_gate, 1, &(struct work){ .gate = &gate }));
	check_ok(cuEventRecord(event, stream));
	check_int(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	last_error_is(cudaSuccess);
	check_int(cudaFree(x + 1), cudaErrorInvalidValue);
	check_int(cuEventRecord((CUevent)x, stream), CUDA_ERROR_INVALID_HANDLE);
	last_error_is(cudaErrorInvalidValue);
	atomic_store(&gate, 1);
	check_ok(cuStreamSynchronize(stream));
	check_ok(cuEventQuery(event));
	check_ok(cuCtxPopCurrent(&context));
	check(context == primary);
	check_int(cuMemcpyHtoDAsync((CUdeviceptr)x, y, 4, stream), CUDA_ERROR_INVALID_CONTEXT);
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

const struct selfcheck device_checks[] = {
	{ CHECK(device_is_one_without_dmabufs) },
	{ CHECK(nvml_has_the_same_device) },
	{ CHECK(driver_copies_the_runtimes_memory) },
	{ CHECK(driver_has_its_contexts_and_errors) },
	{ CHECK(wrong_calls_are_errors) },
	{ 0 },
};

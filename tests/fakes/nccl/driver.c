/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's functions: many are those of the runtime, with the same memory, streams and events, but do not change
 * the runtime's last error.
 */
#include "runtime.h"

/* The codes are the same; one that only the runtime has means a bad argument. */
static CUresult driver_error(cudaError_t error)
{
	switch (error) {
	case cudaErrorInvalidConfiguration:
	case cudaErrorInvalidMemcpyDirection:
	case cudaErrorInvalidDeviceFunction:
		return CUDA_ERROR_INVALID_VALUE;
	default:
		return (CUresult)error;
	}
}

static cudaError_t context_error(void)
{
	return context_current() ? cudaSuccess : cudaErrorDeviceUninitialized;
}

static _Thread_local cudaError_t before; /* the runtime's last error at the start of the call */

/* For calls that do not need a current context. */
static cudaError_t enter(void)
{
	before = cudaPeekAtLastError();
	return context_error();
}

static CUresult leave(cudaError_t error)
{
	last_error_set(before);
	return driver_error(error);
}

CUresult cuInit(unsigned flags)
{
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
	if (!text)
		return CUDA_ERROR_INVALID_VALUE;
	*text = error_text((int)error);
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	*name = error_driver_name((int)error);
	return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	if (!device || ordinal)
		return device ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
	*device = 0;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	return driver_error(device_attribute(value, (int)attribute, device));
}

CUresult cuMemGetAddressRange(CUdeviceptr *start, size_t *bytes, CUdeviceptr pointer)
{
	struct range range;

	if (range_find((const void *)pointer, 1, &range) == PLACE_PAGEABLE)
		return CUDA_ERROR_NOT_FOUND;
	if (start)
		*start = (CUdeviceptr)range.start;
	if (bytes)
		*bytes = range.bytes;
	return CUDA_SUCCESS;
}

/* Every attribute is stored with the width that cuda.h specifies. */
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
	struct range range;
	enum place place = range_find((const void *)pointer, 1, &range);

	if (!data || place == PLACE_PAGEABLE)
		return CUDA_ERROR_INVALID_VALUE;
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)data =
			place == PLACE_DEVICE ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)data = range.id;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(bool *)data = false;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(unsigned long long *)data = 0;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

/* No device has it. */
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr start, size_t bytes,
				       CUmemRangeHandleType type, unsigned long long flags)
{
	(void)handle, (void)start, (void)bytes, (void)type, (void)flags;
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* It is host memory, whoever writes to it. */
CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
				    CUflushGPUDirectRDMAWritesScope scope)
{
	if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
	    (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER &&
	     scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES))
		return CUDA_ERROR_INVALID_VALUE;
	return driver_error(context_error());
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	enter();
	return leave(cudaThreadExchangeStreamCaptureMode((enum cudaStreamCaptureMode *)mode));
}

CUresult cuMemAlloc(CUdeviceptr *start, size_t bytes)
{
	cudaError_t error = enter();
	void *memory = NULL;

	if (!start || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!error)
		error = cudaMalloc(&memory, bytes);
	*start = (CUdeviceptr)memory;
	return leave(error);
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
	cudaError_t error = enter();

	return leave(error ? error : cudaHostAlloc(memory, bytes, flags));
}

CUresult cuMemHostRegister(void *memory, size_t bytes, unsigned flags)
{
	cudaError_t error = enter();

	return leave(error ? error : cudaHostRegister(memory, bytes, flags));
}

CUresult cuMemHostUnregister(void *memory)
{
	enter();
	return leave(cudaHostUnregister(memory));
}

CUresult cuMemFreeHost(void *memory)
{
	enter();
	return leave(cudaFreeHost(memory));
}

static CUresult copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
		     CUstream stream)
{
	cudaError_t error = enter();

	return leave(error ? error : cudaMemcpyAsync(to, from, bytes, kind, stream));
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	return copy((void *)to, from, bytes, cudaMemcpyHostToDevice, stream);
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return copy(to, (const void *)from, bytes, cudaMemcpyDeviceToHost, stream);
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
	cudaError_t error = enter();

	return leave(error ? error : cudaStreamCreateWithFlags(stream, flags));
}

/* There is one priority only. */
CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	*least = *greatest = 0;
	return driver_error(context_error());
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
	(void)priority;
	return cuStreamCreate(stream, flags);
}

/* Between pitched memory, row by row. */
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream)
{
	bool in = copy->dstMemoryType == CU_MEMORYTYPE_DEVICE;
	cudaError_t error = enter();
	const char *from = in ? copy->srcHost : (const char *)copy->srcDevice;
	char *to = in ? (char *)copy->dstDevice : copy->dstHost;

	for (size_t row = 0; row < copy->Height && !error; row++)
		error = cudaMemcpyAsync(to + row * copy->dstPitch, from + row * copy->srcPitch,
					copy->WidthInBytes,
					in ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
					stream);
	return leave(error);
}

CUresult cuStreamSynchronize(CUstream stream)
{
	enter();
	return leave(cudaStreamSynchronize(stream));
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
	cudaError_t error = enter();

	return leave(error ? error : cudaEventCreateWithFlags(event, flags));
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
	cudaError_t error = enter();

	return leave(error ? error : cudaEventRecord(event, stream));
}

CUresult cuEventQuery(CUevent event)
{
	enter();
	return leave(cudaEventQuery(event));
}

CUresult cuEventSynchronize(CUevent event)
{
	enter();
	return leave(cudaEventSynchronize(event));
}

CUresult cuLaunchKernel(CUfunction kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
			unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
			CUstream stream, void **params, void **extra)
{
	if (params)
		return extra ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
	return driver_error(launch(kernel, (dim3){ grid_x, grid_y, grid_z },
				   (dim3){ block_x, block_y, block_z }, shared_bytes, extra,
				   stream));
}

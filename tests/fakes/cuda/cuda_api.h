/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the CUDA driver API that the tests and the fake libcuda.so.1 share: the calls that a network plugin uses,
 * declared from NVIDIA's public documentation. Results are CUresult values as int.
 */
#ifndef TESTS_CUDA_CUDA_API_H
#define TESTS_CUDA_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef uintptr_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_INVALID_DEVICE = 101,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_INVALID_HANDLE = 400,
	CUDA_ERROR_NOT_READY = 600,
	CUDA_ERROR_ILLEGAL_ADDRESS = 700,
	CUDA_ERROR_LAUNCH_TIMEOUT = 702,
	CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
	CUDA_ERROR_NOT_SUPPORTED = 801,
	CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
	CUDA_ERROR_UNKNOWN = 999,
};

/* CUDA_MEMCPY2D: rows of `width` bytes, at a distance of a pitch; no arrays here. */
struct cuda_copy_2d {
	size_t from_x, from_y;
	int from_type; /* CU_MEMORYTYPE_* */
	const void *from_host;
	CUdeviceptr from_device;
	void *from_array;
	size_t from_pitch;
	size_t to_x, to_y;
	int to_type;
	void *to_host;
	CUdeviceptr to_device;
	void *to_array;
	size_t to_pitch;
	size_t width, rows;
};

enum {
	CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED = 116,
	CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED = 124,
	CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
	CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
	CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
	CU_MEMORYTYPE_HOST = 1,
	CU_MEMORYTYPE_DEVICE = 2,
	CU_STREAM_NON_BLOCKING = 1,
	CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 1,
	CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE = 1, /* CUDA 12.8 */
	CU_FLUSH_TARGET_CURRENT_CTX = 0,
	CU_FLUSH_TO_OWNER = 100,
	CU_FLUSH_TO_ALL_DEVICES = 200,
	CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
	CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
	CU_STREAM_CAPTURE_MODE_RELAXED = 2,
};

/* X(name, arguments): all return a CUresult. */
#define CUDA_CALLS(X)                                                                              \
	X(cuInit, (unsigned flags))                                                                \
	X(cuDriverGetVersion, (int *version))                                                      \
	X(cuGetErrorName, (CUresult code, const char **name))                                      \
	X(cuGetErrorString, (CUresult code, const char **text))                                    \
	X(cuDeviceGet, (CUdevice * device, int ordinal))                                           \
	X(cuDeviceGetCount, (int *count))                                                          \
	X(cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))                      \
	X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                        \
	X(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                         \
	X(cuDevicePrimaryCtxReset_v2, (CUdevice device))                                           \
	X(cuCtxCreate_v2, (CUcontext * context, unsigned flags, CUdevice device))                  \
	X(cuCtxDestroy_v2, (CUcontext context))                                                    \
	X(cuCtxGetStreamPriorityRange, (int *least, int *greatest))                                \
	X(cuCtxPushCurrent_v2, (CUcontext context))                                                \
	X(cuCtxPopCurrent_v2, (CUcontext * context))                                               \
	X(cuCtxGetCurrent, (CUcontext * context))                                                  \
	X(cuCtxSetCurrent, (CUcontext context))                                                    \
	X(cuThreadExchangeStreamCaptureMode, (int *mode))                                          \
	X(cuPointerGetAttribute, (void *data, int attribute, CUdeviceptr pointer))                 \
	X(cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                           \
	X(cuMemFreeHost, (void *memory))                                                           \
	X(cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags))                      \
	X(cuMemHostUnregister, (void *memory))                                                     \
	X(cuMemAlloc_v2, (CUdeviceptr * memory, size_t bytes))                                     \
	X(cuMemFree_v2, (CUdeviceptr memory))                                                      \
	X(cuMemGetHandleForAddressRange,                                                           \
	  (void *handle, CUdeviceptr memory, size_t bytes, int type, unsigned long long flags))    \
	X(cuFlushGPUDirectRDMAWrites, (int target, int scope))                                     \
	X(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes))                       \
	X(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes))                             \
	X(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream)) \
	X(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))       \
	X(cuMemcpy2DAsync_v2, (const struct cuda_copy_2d *copy, CUstream stream))                  \
	X(cuStreamCreate, (CUstream * stream, unsigned flags))                                     \
	X(cuStreamCreateWithPriority, (CUstream * stream, unsigned flags, int priority))           \
	X(cuStreamDestroy_v2, (CUstream stream))                                                   \
	X(cuStreamQuery, (CUstream stream))                                                        \
	X(cuStreamSynchronize, (CUstream stream))                                                  \
	X(cuEventCreate, (CUevent * event, unsigned flags))                                        \
	X(cuEventDestroy_v2, (CUevent event))                                                      \
	X(cuEventRecord, (CUevent event, CUstream stream))                                         \
	X(cuEventQuery, (CUevent event))                                                           \
	X(cuEventSynchronize, (CUevent event))

#define CUDA_DECLARE(name, arguments) CUresult name arguments;
CUDA_CALLS(CUDA_DECLARE)
#undef CUDA_DECLARE

/* The same, by dlsym. */
struct cuda_calls {
#define CUDA_MEMBER(name, arguments) CUresult(*name) arguments;
	CUDA_CALLS(CUDA_MEMBER)
#undef CUDA_MEMBER
};

#endif

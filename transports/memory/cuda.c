/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA driver library, opened at run time; see cuda.h. */
#include "memory/cuda.h"

#include <nccl_net/util.h>

#include "base/library.h"

#define ENTRY(member, name, optional)                                  \
	{                                                              \
		name, offsetof(struct cuda, member), NULL, (optional), \
	}

static const struct library_function functions[] = {
	ENTRY(init, "cuInit", false),
	ENTRY(get_error_name, "cuGetErrorName", false),
	ENTRY(get_error_string, "cuGetErrorString", false),
	ENTRY(device_get, "cuDeviceGet", false),
	ENTRY(primary_ctx_retain, "cuDevicePrimaryCtxRetain", false),
	ENTRY(ctx_push, "cuCtxPushCurrent_v2", false),
	ENTRY(ctx_pop, "cuCtxPopCurrent_v2", false),
	ENTRY(thread_exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", false),
	ENTRY(pointer_get_attribute, "cuPointerGetAttribute", false),
	ENTRY(ctx_priority_range, "cuCtxGetStreamPriorityRange", false),
	ENTRY(stream_create, "cuStreamCreateWithPriority", false),
	ENTRY(event_create, "cuEventCreate", false),
	ENTRY(event_record, "cuEventRecord", false),
	ENTRY(event_query, "cuEventQuery", false),
	ENTRY(mem_alloc, "cuMemAlloc_v2", false),
	ENTRY(mem_host_register, "cuMemHostRegister_v2", false),
	ENTRY(mem_host_unregister, "cuMemHostUnregister", false),
	ENTRY(memcpy_to_host, "cuMemcpyDtoHAsync_v2", false),
	ENTRY(memcpy_to_device, "cuMemcpyHtoDAsync_v2", false),
	ENTRY(memcpy_2d, "cuMemcpy2DAsync_v2", false),
	ENTRY(ctx_create, "cuCtxCreate_v2", true),
	ENTRY(ctx_destroy, "cuCtxDestroy_v2", true),
	ENTRY(mem_get_handle, "cuMemGetHandleForAddressRange", true),
	ENTRY(flush_writes, "cuFlushGPUDirectRDMAWrites", true),
};

int cuda_open(const char *file, struct cuda *cuda, char *why, size_t why_bytes)
{
	return library_open(file, functions, ARRAY_SIZE(functions), cuda, why, why_bytes);
}

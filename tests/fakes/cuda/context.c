/* SPDX-License-Identifier: Apache-2.0 */
/* Init, devices, primary contexts, and each thread's stack of current ones. */
#include "fake.h"

#include <stdlib.h>
#include <unistd.h>

static const struct {
	CUresult code;
	const char *name, *text;
} errors[] = {
	{ CUDA_SUCCESS, "CUDA_SUCCESS", "no error" },
	{ CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
	{ CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
	{ CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
	{ CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
	{ CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
	{ CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
	{ CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
	{ CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready" },
	{ CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access" },
	{ CUDA_ERROR_LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out" },
	{ CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED",
	  "context is destroyed" },
	{ CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported" },
	{ CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
	  "operation not permitted when stream is capturing" },
	{ CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error" },
};

CUresult cuGetErrorName(CUresult code, const char **name)
{
	*name = NULL;
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (errors[i].code == code)
			*name = errors[i].name;
	return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char **text)
{
	*text = NULL;
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (errors[i].code == code)
			*text = errors[i].text;
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The first one reads the description. */
CUresult cuInit(unsigned flags)
{
	CUresult ret = call_begin("cuInit", NOTHING);

	if (!ret && flags)
		ret = CUDA_ERROR_INVALID_VALUE;
	if (!ret && !fake.owner) {
		ret = describe() ? CUDA_ERROR_UNKNOWN : failure_of("cuInit");
		if (!ret)
			fake.owner = getpid();
	}
	return call_end(ret);
}

CUresult cuDriverGetVersion(int *version)
{
	CUresult ret = call_begin("cuDriverGetVersion", NOTHING);

	if (!ret)
		*version = fake.version;
	return call_end(ret);
}

CUresult cuDeviceGetCount(int *count)
{
	CUresult ret = call_begin("cuDeviceGetCount", INIT);

	if (!ret)
		*count = fake.device_count;
	return call_end(ret);
}

static CUresult check_device(int device)
{
	return device >= 0 && device < fake.device_count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult ret = call_begin("cuDeviceGet", INIT);

	if (!ret)
		ret = check_device(ordinal);
	if (!ret)
		*device = ordinal;
	return call_end(ret);
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
	CUresult ret = call_begin("cuDeviceGetAttribute", INIT);

	if (!ret)
		ret = check_device(device);
	if (!ret) {
		if (attribute == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED)
			*value = fake.devices[device].gpudirect;
		else if (attribute == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED)
			*value = fake.devices[device].dmabuf;
		else
			ret = misuse(CUDA_ERROR_INVALID_VALUE, "attribute %d is not in the fake",
				     attribute);
	}
	return call_end(ret);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	CUresult ret = call_begin("cuDevicePrimaryCtxRetain", INIT);

	if (!ret)
		ret = check_device(device);
	if (!ret) {
		fake.contexts[device].device = device;
		fake.contexts[device].retained++;
		fake.counts.contexts++;
		*context = (CUcontext)(void *)&fake.contexts[device];
	}
	return call_end(ret);
}

static void context_end(struct fake_context *context)
{
	streams_end(context);
	allocations_end(context);
	context->error = CUDA_SUCCESS;
}

/* It stays retained, and everything in it is gone: memory, streams, events, registrations (cuda.h of CUDA 13,
 * cuDevicePrimaryCtxReset: "destroy all allocations and reset all state on the primary context"). */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	CUresult ret = call_begin("cuDevicePrimaryCtxReset", INIT);

	if (!ret)
		ret = check_device(device);
	if (!ret)
		context_end(&fake.contexts[device]);
	return call_end(ret);
}

/* It becomes current in this thread. */
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
	CUresult ret = call_begin("cuCtxCreate", INIT | UNSAFE);
	struct fake_context *made = NULL;

	if (!ret && flags)
		ret = misuse(CUDA_ERROR_INVALID_VALUE, "flags %#x are not in the fake", flags);
	if (!ret)
		ret = check_device(device);
	if (!ret && fake_thread.depth == STACK_MAX)
		ret = misuse(CUDA_ERROR_INVALID_VALUE, "%d contexts are pushed", STACK_MAX);
	if (!ret && !(made = calloc(1, sizeof(*made))))
		ret = CUDA_ERROR_OUT_OF_MEMORY;
	if (!ret) {
		made->device = device;
		made->retained = 1;
		LIST_INSERT_HEAD(&fake.made, made, next);
		fake.counts.contexts++;
		fake_thread.stack[fake_thread.depth++] = made;
		*context = (CUcontext)(void *)made;
	}
	return call_end(ret);
}

CUresult cuCtxDestroy_v2(CUcontext handle)
{
	CUresult ret = call_begin("cuCtxDestroy", INIT | UNSAFE);
	struct fake_context *context;

	LIST_FOREACH(context, &fake.made, next)
	if ((CUcontext)(void *)context == handle)
		break;
	if (!ret && (!context || !context->retained))
		ret = misuse(CUDA_ERROR_INVALID_CONTEXT, "no such context was made");
	if (!ret) {
		context->retained = 0;
		fake.counts.contexts--;
		context_end(context);
	}
	return call_end(ret);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	CUresult ret = call_begin("cuCtxGetStreamPriorityRange", CONTEXT);

	if (!ret) {
		*least = 0;
		*greatest = -5;
	}
	return call_end(ret);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	CUresult ret = call_begin("cuDevicePrimaryCtxRelease", INIT);

	if (!ret)
		ret = check_device(device);
	if (!ret && !fake.contexts[device].retained)
		ret = misuse(CUDA_ERROR_INVALID_CONTEXT, "it is not retained");
	if (!ret) {
		fake.counts.contexts--;
		if (!--fake.contexts[device].retained)
			context_end(&fake.contexts[device]);
	}
	return call_end(ret);
}

/* NULL may be made current: no context. */
static CUresult check_context(const struct fake_context *context)
{
	const struct fake_context *made;
	bool is = false;

	if (!context)
		return CUDA_SUCCESS;
	for (int i = 0; i < fake.device_count; i++)
		is = is || context == &fake.contexts[i];
	LIST_FOREACH(made, &fake.made, next)
	is = is || context == made;
	if (!is)
		return misuse(CUDA_ERROR_INVALID_CONTEXT, "no such context");
	return context->retained ? CUDA_SUCCESS
				 : misuse(CUDA_ERROR_CONTEXT_IS_DESTROYED,
					  "the context is not retained, or destroyed");
}

CUresult cuCtxPushCurrent_v2(CUcontext handle)
{
	struct fake_context *context = (struct fake_context *)(void *)handle;
	CUresult ret = call_begin("cuCtxPushCurrent", INIT);

	if (!ret)
		ret = check_context(context);
	if (!ret && fake_thread.depth == STACK_MAX)
		ret = misuse(CUDA_ERROR_INVALID_VALUE, "%d contexts are pushed", STACK_MAX);
	if (!ret)
		fake_thread.stack[fake_thread.depth++] = context;
	return call_end(ret);
}

CUresult cuCtxPopCurrent_v2(CUcontext *handle)
{
	CUresult ret = call_begin("cuCtxPopCurrent", INIT);

	if (!ret && !fake_thread.depth)
		ret = misuse(CUDA_ERROR_INVALID_CONTEXT, "nothing is pushed");
	if (!ret) {
		fake_thread.depth--;
		if (handle)
			*handle = (CUcontext)(void *)fake_thread.stack[fake_thread.depth];
	}
	return call_end(ret);
}

CUresult cuCtxGetCurrent(CUcontext *handle)
{
	CUresult ret = call_begin("cuCtxGetCurrent", INIT);

	if (!ret)
		*handle = (CUcontext)(void *)context_current();
	return call_end(ret);
}

CUresult cuCtxSetCurrent(CUcontext handle)
{
	struct fake_context *context = (struct fake_context *)(void *)handle;
	CUresult ret = call_begin("cuCtxSetCurrent", INIT);

	if (!ret)
		ret = check_context(context);
	if (!ret) {
		if (fake_thread.depth)
			fake_thread.depth--;
		if (context)
			fake_thread.stack[fake_thread.depth++] = context;
	}
	return call_end(ret);
}

CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
	CUresult ret = call_begin("cuThreadExchangeStreamCaptureMode", INIT);

	if (!ret &&
	    (*mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED))
		ret = misuse(CUDA_ERROR_INVALID_VALUE, "there is no mode %d", *mode);
	if (!ret) {
		int before = fake_thread.capture_mode;

		fake_thread.capture_mode = *mode;
		*mode = before;
	}
	return call_end(ret);
}

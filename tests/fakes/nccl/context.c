/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's contexts. All stand for the same device with the same memory. */
#include "runtime.h"

#include <stdlib.h>

#define CURRENT_MAX 16

/* The handle of a context points to this. */
struct CUctx_st {
	CUdevice device;
};

static struct CUctx_st primary;

/* The runtime has made the primary one current. The last one is current. */
static _Thread_local CUcontext pushed[CURRENT_MAX] = { &primary };
static _Thread_local int pushed_count = 1;

CUcontext context_current(void)
{
	return pushed_count ? pushed[pushed_count - 1] : NULL;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	if (!context || device)
		return context ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
	*context = &primary;
	return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context)
{
	if (!context || pushed_count == CURRENT_MAX)
		return context ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	pushed[pushed_count++] = context;
	return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
	if (!pushed_count)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (context)
		*context = context_current();
	pushed_count--;
	return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	*context = context_current();
	return CUDA_SUCCESS;
}

/* Replaces the current one. */
CUresult cuCtxSetCurrent(CUcontext context)
{
	if (pushed_count)
		pushed_count--;
	return context ? cuCtxPushCurrent(context) : CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	CUcontext current = context_current();

	if (!current || !device)
		return device ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
	*device = current->device;
	return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *params, int params_count,
			unsigned flags, CUdevice device)
{
	CUresult ret;

	(void)flags;
	if (!context || device)
		return context ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
	if (params || params_count)
		return CUDA_ERROR_NOT_SUPPORTED;
	*context = calloc(1, sizeof(**context));
	if (!*context)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ret = cuCtxPushCurrent(*context);
	if (ret)
		free(*context);
	return ret;
}

CUresult cuCtxDestroy(CUcontext context)
{
	if (!context || context == &primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (context_current() == context)
		pushed_count--;
	free(context);
	return CUDA_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the driver that can be had by name. */
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

/* The handle of a context points to this. They all are the same device with the same memory. */
struct CUctx_st {
	CUcontext below; /* which was current when this was made */
};

static struct CUctx_st primary;
static _Thread_local CUcontext current = &primary;

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

static CUresult get_error_string(CUresult error, const char **text)
{
	if (!text)
		return CUDA_ERROR_INVALID_VALUE;
	*text = error_text((int)error);
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult get_error_name(CUresult error, const char **name)
{
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	*name = error_driver_name((int)error);
	return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult device_get(CUdevice *device, int ordinal)
{
	if (!device || ordinal)
		return device ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
	*device = 0;
	return CUDA_SUCCESS;
}

static CUresult device_get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	return driver_error(device_attribute(value, (int)attribute, device));
}

static CUresult context_create(CUcontext *context, CUexecAffinityParam *params, int params_count,
			       unsigned flags, CUdevice device)
{
	(void)flags;
	if (!context || device)
		return context ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
	if (params || params_count)
		return CUDA_ERROR_NOT_SUPPORTED;
	*context = malloc(sizeof(**context));
	if (!*context)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(*context)->below = current;
	current = *context;
	return CUDA_SUCCESS;
}

static CUresult context_destroy(CUcontext context)
{
	if (!context || context == &primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (current == context)
		current = context->below;
	free(context);
	return CUDA_SUCCESS;
}

static CUresult context_get_current(CUcontext *context)
{
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	*context = current;
	return CUDA_SUCCESS;
}

static CUresult context_set_current(CUcontext context)
{
	current = context;
	return CUDA_SUCCESS;
}

static CUresult context_get_device(CUdevice *device)
{
	if (!current || !device)
		return device ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
	*device = 0;
	return CUDA_SUCCESS;
}

static CUresult memory_get_address_range(CUdeviceptr *start, size_t *bytes, CUdeviceptr pointer)
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

/* Every attribute is stored at the width that cuda.h gives it. */
static CUresult pointer_get_attribute(void *data, CUpointer_attribute attribute,
				      CUdeviceptr pointer)
{
	struct range range;
	enum place place = range_find((const void *)pointer, 1, &range);

	if (!data || place == PLACE_PAGEABLE)
		return CUDA_ERROR_INVALID_VALUE;
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)data = &primary;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)data =
			place == PLACE_DEVICE ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (place == PLACE_DEVICE)
			return CUDA_ERROR_INVALID_VALUE;
		/* fall through */
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)data = pointer;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(void **)data = range.start;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = range.bytes;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*(bool *)data = false;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(bool *)data = true;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(unsigned long long *)data = 0;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

static CUresult launch_kernel(CUfunction kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
			      unsigned block_x, unsigned block_y, unsigned block_z,
			      unsigned shared_bytes, CUstream stream, void **params, void **extra)
{
	if (params)
		return extra ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
	return driver_error(launch(kernel, (dim3){ grid_x, grid_y, grid_z },
				   (dim3){ block_x, block_y, block_z }, shared_bytes, extra,
				   stream));
}

/* Each with the version that its signature is of. */
static const struct {
	const char *name;
	unsigned version;
	void (*function)(void);
} entries[] = {
#define ENTRY(name, version, function)                  \
	{                                               \
		name, version, (void (*)(void))function \
	}
	ENTRY("cuGetErrorString", 6000, get_error_string),
	ENTRY("cuGetErrorName", 6000, get_error_name),
	ENTRY("cuDeviceGet", 2000, device_get),
	ENTRY("cuDeviceGetAttribute", 2000, device_get_attribute),
	ENTRY("cuCtxCreate", 11040, context_create),
	ENTRY("cuCtxDestroy", 4000, context_destroy),
	ENTRY("cuCtxGetCurrent", 4000, context_get_current),
	ENTRY("cuCtxSetCurrent", 4000, context_set_current),
	ENTRY("cuCtxGetDevice", 2000, context_get_device),
	ENTRY("cuMemGetAddressRange", 3020, memory_get_address_range),
	ENTRY("cuPointerGetAttribute", 4000, pointer_get_attribute),
	ENTRY("cuLaunchKernel", 4000, launch_kernel),
#undef ENTRY
};

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
					     unsigned long long flags,
					     enum cudaDriverEntryPointQueryResult *status)
{
	enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;

	if (!name || !function ||
	    flags & ~(unsigned long long)(cudaEnableLegacyStream |
					  cudaEnablePerThreadDefaultStream))
		return report(cudaErrorInvalidValue);
	if (flags & cudaEnablePerThreadDefaultStream)
		return report(cudaErrorNotSupported);
	*function = NULL;
	for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++) {
		if (strcmp(entries[i].name, name))
			continue;
		found = cudaDriverEntryPointVersionNotSufficent;
		if (version >= entries[i].version) {
			found = cudaDriverEntryPointSuccess;
			memcpy(function, &entries[i].function, sizeof(*function));
		}
	}
	if (status)
		*status = found;
	return cudaSuccess;
}

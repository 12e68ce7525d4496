/* SPDX-License-Identifier: Apache-2.0 */
/* The errors by name, and the last one of every thread. */
#include "runtime.h"

/* The codes are the same in both APIs. */
static const struct {
	cudaError_t code;
	const char *name, *driver, *text;
} errors[] = {
	{ cudaSuccess, "cudaSuccess", "CUDA_SUCCESS", "no error (cudaSuccess)" },
#define ERROR(runtime, driver, text)                               \
	{                                                          \
		runtime, #runtime, #driver, text " (" #runtime ")" \
	}
	ERROR(cudaErrorInvalidValue, CUDA_ERROR_INVALID_VALUE, "invalid argument"),
	ERROR(cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
	ERROR(cudaErrorInitializationError, CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
	ERROR(cudaErrorInvalidConfiguration, CUDA_ERROR_INVALID_VALUE,
	      "invalid configuration argument"),
	ERROR(cudaErrorInvalidMemcpyDirection, CUDA_ERROR_INVALID_VALUE,
	      "invalid copy direction for memcpy"),
	ERROR(cudaErrorInvalidDeviceFunction, CUDA_ERROR_INVALID_VALUE, "invalid device function"),
	ERROR(cudaErrorInvalidDevice, CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
	ERROR(cudaErrorInvalidResourceHandle, CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
	ERROR(cudaErrorDeviceUninitialized, CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
	ERROR(cudaErrorSymbolNotFound, CUDA_ERROR_NOT_FOUND, "named symbol not found"),
	ERROR(cudaErrorNotReady, CUDA_ERROR_NOT_READY, "device not ready"),
	ERROR(cudaErrorPeerAccessUnsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
	      "peer access is not supported between these two devices"),
	ERROR(cudaErrorHostMemoryAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
	      "part or all of the requested memory range is already mapped"),
	ERROR(cudaErrorHostMemoryNotRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
	      "pointer does not correspond to a registered memory region"),
	ERROR(cudaErrorNotSupported, CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
	ERROR(cudaErrorUnsupportedLimit, CUDA_ERROR_UNSUPPORTED_LIMIT,
	      "limit is not supported on this architecture"),
	ERROR(cudaErrorUnknown, CUDA_ERROR_UNKNOWN, "unknown error"),
#undef ERROR
};

#define ERRORS (sizeof(errors) / sizeof(*errors))

static _Thread_local cudaError_t last = cudaSuccess;

static size_t error_find(int error)
{
	size_t i = 0;

	while (i < ERRORS && (int)errors[i].code != error)
		i++;
	return i;
}

const char *error_name(int error)
{
	size_t i = error_find(error);

	return i < ERRORS ? errors[i].name : NULL;
}

const char *error_driver_name(int error)
{
	size_t i = error_find(error);

	return i < ERRORS ? errors[i].driver : NULL;
}

const char *error_text(int error)
{
	size_t i = error_find(error);

	return i < ERRORS ? errors[i].text : NULL;
}

cudaError_t report(cudaError_t error)
{
	if (error)
		last = error;
	return error;
}

void last_error_set(cudaError_t error)
{
	last = error;
}

cudaError_t cudaGetLastError(void)
{
	cudaError_t error = last;

	last = cudaSuccess;
	return error;
}

cudaError_t cudaPeekAtLastError(void)
{
	return last;
}

const char *cudaGetErrorName(cudaError_t error)
{
	const char *name = error_name((int)error);

	return name ? name : "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
	const char *text = error_text((int)error);

	return text ? text : "unrecognized error code";
}

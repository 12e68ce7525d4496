/* SPDX-License-Identifier: Apache-2.0 */
/* The errors by name, and the last error of every thread. */
#include "runtime.h"

/* The codes are the same in both APIs. */
static const struct error {
	cudaError_t code;
	const char *driver, *text;
} errors[] = {
	{ cudaSuccess, "CUDA_SUCCESS", "no error (cudaSuccess)" },
#define ERROR(runtime, driver, text)                     \
	{                                                \
		runtime, #driver, text " (" #runtime ")" \
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

static _Thread_local cudaError_t last = cudaSuccess;

static const struct error *error_find(int code)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if ((int)errors[i].code == code)
			return &errors[i];
	return NULL;
}

const char *error_driver_name(int code)
{
	const struct error *error = error_find(code);

	return error ? error->driver : NULL;
}

const char *error_text(int code)
{
	const struct error *error = error_find(code);

	return error ? error->text : NULL;
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

const char *cudaGetErrorString(cudaError_t error)
{
	const char *text = error_text((int)error);

	return text ? text : "unrecognized error code";
}

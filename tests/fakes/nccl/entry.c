/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the driver that the runtime returns by name. */
#include "runtime.h"

#include <string.h>

/* Each with the version of its signature. */
static const struct {
	const char *name;
	unsigned version;
	void (*function)(void);
} entries[] = {
#define ENTRY(name, version, function)                  \
	{                                               \
		name, version, (void (*)(void))function \
	}
	ENTRY("cuGetErrorString", 6000, cuGetErrorString),
	ENTRY("cuGetErrorName", 6000, cuGetErrorName),
	ENTRY("cuDeviceGet", 2000, cuDeviceGet),
	ENTRY("cuDeviceGetAttribute", 2000, cuDeviceGetAttribute),
	ENTRY("cuCtxCreate", 11040, cuCtxCreate_v3),
	ENTRY("cuCtxDestroy", 4000, cuCtxDestroy),
	ENTRY("cuCtxGetCurrent", 4000, cuCtxGetCurrent),
	ENTRY("cuCtxSetCurrent", 4000, cuCtxSetCurrent),
	ENTRY("cuCtxGetDevice", 2000, cuCtxGetDevice),
	ENTRY("cuMemGetAddressRange", 3020, cuMemGetAddressRange),
	ENTRY("cuPointerGetAttribute", 4000, cuPointerGetAttribute),
	ENTRY("cuLaunchKernel", 4000, cuLaunchKernel),
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libnvidia-ml.so.1 of the software GPU: the functions that NCCL calls for one GPU without NVLink, and those of `anynet
 * check`. NCCL looks up others and works without them: fabrics, platforms, confidential computing. NVML's header is not
 * in the runtime part of the CUDA toolkit, so the necessary part is declared here. FAKE_NVML has the GPU's faults, as
 * "RESULT-OF-INIT FREE-GIB UNCORRECTED-ERRORS".
 */
#include "gpu.h"

#include <stddef.h>
#include <stdlib.h>

typedef enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
} nvmlReturn_t;

#define NVML_P2P_STATUS_NOT_SUPPORTED 5

typedef struct nvmlDevice_st *nvmlDevice_t;

typedef struct {
	unsigned fieldId, scopeId;
	long long timestamp, latencyUsec;
	unsigned valueType;
	nvmlReturn_t nvmlReturn;
	union {
		double number;
		unsigned long long bits;
	} value;
} nvmlFieldValue_t;

struct nvmlDevice_st {
	char unused;
};

static struct nvmlDevice_st gpu;

static int told(int which)
{
	const char *text = getenv("FAKE_NVML");
	int values[3] = { 0, 70, 0 };

	if (text)
		sscanf(text, "%d %d %d", &values[0], &values[1], &values[2]);
	return values[which];
}

nvmlReturn_t nvmlInit_v2(void)
{
	return (nvmlReturn_t)told(0);
}

nvmlReturn_t nvmlInit(void)
{
	return nvmlInit_v2();
}

nvmlReturn_t nvmlShutdown(void)
{
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = 1;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned *count)
{
	return nvmlDeviceGetCount_v2(count);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device)
{
	if (!device || index)
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = &gpu;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByIndex(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
{
	if (!bus_id || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!gpu_is_at(bus_id))
		return NVML_ERROR_NOT_FOUND;
	*device = &gpu;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index)
{
	if (device != &gpu || !index)
		return NVML_ERROR_INVALID_ARGUMENT;
	*index = 0;
	return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t error)
{
	switch (error) {
	case NVML_SUCCESS:
		return "Success";
	case NVML_ERROR_INVALID_ARGUMENT:
		return "Invalid Argument";
	case NVML_ERROR_NOT_SUPPORTED:
		return "Not Supported";
	case NVML_ERROR_NOT_FOUND:
		return "Not Found";
	case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
		return "Driver/library version mismatch";
	}
	return "Unknown Error";
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	if (device != &gpu || !major || !minor)
		return NVML_ERROR_INVALID_ARGUMENT;
	*major = GPU_CAPABILITY_MAJOR;
	*minor = GPU_CAPABILITY_MINOR;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, int capability, int *status)
{
	(void)capability;
	if (a != &gpu || b != &gpu || !status)
		return NVML_ERROR_INVALID_ARGUMENT;
	*status = NVML_P2P_STATUS_NOT_SUPPORTED;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, int *state)
{
	(void)link, (void)state;
	return device == &gpu ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned link, void *info)
{
	(void)link, (void)info;
	return device == &gpu ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned link, int capability,
					   unsigned *value)
{
	(void)link, (void)capability, (void)value;
	return device == &gpu ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}

/* Each field says that it is not available. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
	if (device != &gpu || !values || count < 1)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; i < count; i++)
		values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *text, unsigned bytes)
{
	snprintf(text, bytes, "535.104.05");
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
	*version = 12020;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *text, unsigned bytes)
{
	snprintf(text, bytes, "NVIDIA A10G");
	return device == &gpu ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, unsigned long long *total_free_used)
{
	total_free_used[0] = 80ULL << 30;
	total_free_used[1] = (unsigned long long)told(1) << 30;
	total_free_used[2] = total_free_used[0] - total_free_used[1];
	return device == &gpu ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int type, int counter, unsigned long long *count)
{
	*count = type == 1 && counter == 0 ? (unsigned long long)told(2) : 0;
	return device == &gpu ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

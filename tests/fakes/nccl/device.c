/* SPDX-License-Identifier: Apache-2.0 */
/* The one device: its properties and state, shared by all threads. */
#include "runtime.h"

#include <string.h>

/* Attributes that NCCL, nccl-tests and the plugin query; 0 if the software GPU lacks the feature. */
static const struct {
	int attribute, value;
} attributes[] = {
	{ cudaDevAttrComputeCapabilityMajor, GPU_CAPABILITY_MAJOR },
	{ cudaDevAttrComputeCapabilityMinor, GPU_CAPABILITY_MINOR },
	{ cudaDevAttrMaxSharedMemoryPerBlockOptin, GPU_SHARED_OPTIN_BYTES },
	{ CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0 },
	{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0 },
	{ cudaDevAttrGPUDirectRDMASupported, 1 }, /* otherwise NCCL never passes GPU memory to a net */
	{ CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0 },
	{ CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0 },
	{ CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0 },
};

static _Thread_local enum cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

cudaError_t device_attribute(int *value, int attribute, int device)
{
	if (!value)
		return cudaErrorInvalidValue;
	if (device)
		return cudaErrorInvalidDevice;
	for (size_t i = 0; i < sizeof(attributes) / sizeof(*attributes); i++) {
		if (attributes[i].attribute == attribute) {
			*value = attributes[i].value;
			return cudaSuccess;
		}
	}
	return cudaErrorInvalidValue;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
	return report(device_attribute(value, (int)attribute, device));
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	if (!prop || device)
		return report(prop ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
	*prop = (struct cudaDeviceProp){
		.name = "software GPU",
		.totalGlobalMem = GPU_MEMORY_BYTES,
		.major = GPU_CAPABILITY_MAJOR,
		.minor = GPU_CAPABILITY_MINOR,
		.pciBusID = GPU_PCI_BUS,
		.pciDeviceID = GPU_PCI_DEVICE,
		.pciDomainID = GPU_PCI_DOMAIN,
	};
	return cudaSuccess;
}

static cudaError_t number_get(int *value, int number)
{
	if (!value)
		return report(cudaErrorInvalidValue);
	*value = number;
	return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
	return number_get(count, 1);
}

cudaError_t cudaGetDevice(int *device)
{
	return number_get(device, 0);
}

cudaError_t cudaDriverGetVersion(int *version)
{
	return number_get(version, GPU_DRIVER_VERSION);
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
	return number_get(version, GPU_RUNTIME_VERSION);
}

cudaError_t cudaSetDevice(int device)
{
	return report(device ? cudaErrorInvalidDevice : cudaSuccess);
}

cudaError_t cudaDeviceGetPCIBusId(char *bus_id, int bytes, int device)
{
	if (!bus_id || device)
		return report(bus_id ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
	if (bytes < (int)sizeof("ffff:ff:ff.0"))
		return report(cudaErrorInvalidValue);
	snprintf(bus_id, (size_t)bytes, "%04x:%02x:%02x.0", GPU_PCI_DOMAIN, GPU_PCI_BUS,
		 GPU_PCI_DEVICE);
	return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *bus_id)
{
	if (!device || !bus_id)
		return report(cudaErrorInvalidValue);
	if (!gpu_is_at(bus_id))
		return report(cudaErrorInvalidDevice);
	*device = 0;
	return cudaSuccess;
}

/* Kernels use the stacks of threads. */
cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
	(void)value;
	return report(limit == cudaLimitStackSize ? cudaSuccess : cudaErrorUnsupportedLimit);
}

/* Nothing is ever captured, so only the caller sees the mode. */
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	enum cudaStreamCaptureMode before = capture_mode;

	if (!mode || (unsigned)*mode > cudaStreamCaptureModeRelaxed)
		return report(cudaErrorInvalidValue);
	capture_mode = *mode;
	*mode = before;
	return cudaSuccess;
}

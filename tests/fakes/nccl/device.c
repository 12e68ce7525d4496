/* SPDX-License-Identifier: Apache-2.0 */
/* The one device: what it is and what it has. It is every thread's. */
#include "runtime.h"

#include <string.h>

/* 0 where the software GPU lacks what a GPU may have; what is not here is no attribute of it. */
static const struct {
	int attribute, value;
} attributes[] = {
	{ cudaDevAttrMaxThreadsPerBlock, GPU_BLOCK_THREADS_MAX },
	{ cudaDevAttrMaxBlockDimX, GPU_BLOCK_THREADS_MAX },
	{ cudaDevAttrMaxBlockDimY, GPU_BLOCK_THREADS_MAX },
	{ cudaDevAttrMaxBlockDimZ, 64 },
	{ cudaDevAttrMaxGridDimX, GPU_GRID_MAX },
	{ cudaDevAttrMaxGridDimY, 1 },
	{ cudaDevAttrMaxGridDimZ, 1 },
	{ cudaDevAttrMaxSharedMemoryPerBlock, GPU_SHARED_BYTES },
	{ cudaDevAttrTotalConstantMemory, GPU_CONSTANT_BYTES },
	{ cudaDevAttrWarpSize, GPU_WARP_THREADS },
	{ cudaDevAttrMaxRegistersPerBlock, GPU_REGISTERS },
	{ cudaDevAttrGpuOverlap, 1 },
	{ cudaDevAttrMultiProcessorCount, GPU_MULTIPROCESSORS },
	{ cudaDevAttrKernelExecTimeout, 0 },
	{ cudaDevAttrIntegrated, 0 },
	{ cudaDevAttrCanMapHostMemory, 1 },
	{ cudaDevAttrComputeMode, cudaComputeModeDefault },
	{ cudaDevAttrConcurrentKernels, 1 },
	{ cudaDevAttrEccEnabled, 0 },
	{ cudaDevAttrPciBusId, GPU_PCI_BUS },
	{ cudaDevAttrPciDeviceId, GPU_PCI_DEVICE },
	{ cudaDevAttrTccDriver, 0 },
	{ cudaDevAttrL2CacheSize, GPU_L2_BYTES },
	{ cudaDevAttrMaxThreadsPerMultiProcessor, 2 * GPU_BLOCK_THREADS_MAX },
	{ cudaDevAttrAsyncEngineCount, 1 },
	{ cudaDevAttrUnifiedAddressing, 1 },
	{ cudaDevAttrPciDomainId, GPU_PCI_DOMAIN },
	{ cudaDevAttrComputeCapabilityMajor, GPU_CAPABILITY_MAJOR },
	{ cudaDevAttrComputeCapabilityMinor, GPU_CAPABILITY_MINOR },
	{ cudaDevAttrStreamPrioritiesSupported, 0 },
	{ cudaDevAttrMaxSharedMemoryPerMultiprocessor, GPU_SHARED_SM_BYTES },
	{ cudaDevAttrMaxRegistersPerMultiprocessor, GPU_REGISTERS },
	{ cudaDevAttrManagedMemory, 0 },
	{ cudaDevAttrIsMultiGpuBoard, 0 },
	{ cudaDevAttrHostNativeAtomicSupported, 1 }, /* it is the host */
	{ cudaDevAttrPageableMemoryAccess, 0 },
	{ cudaDevAttrConcurrentManagedAccess, 0 },
	{ cudaDevAttrComputePreemptionSupported, 1 },
	{ cudaDevAttrCanUseHostPointerForRegisteredMem, 1 },
	{ cudaDevAttrCooperativeLaunch, 0 },
	{ cudaDevAttrMaxSharedMemoryPerBlockOptin, GPU_SHARED_OPTIN_BYTES },
	{ cudaDevAttrCanFlushRemoteWrites, 0 },
	{ cudaDevAttrHostRegisterSupported, 1 },
	{ cudaDevAttrPageableMemoryAccessUsesHostPageTables, 0 },
	{ cudaDevAttrDirectManagedMemAccessFromHost, 0 },
	{ CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0 },
	{ CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0 },
	{ cudaDevAttrMaxBlocksPerMultiprocessor, 32 },
	{ CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0 },
	{ cudaDevAttrReservedSharedMemoryPerBlock, 1024 },
	{ cudaDevAttrMemoryPoolsSupported, 1 },
	{ cudaDevAttrGPUDirectRDMASupported, 1 }, /* or NCCL never gives a net its memory */
	{ cudaDevAttrGPUDirectRDMAFlushWritesOptions, cudaFlushGPUDirectRDMAWritesOptionHost },
	{ cudaDevAttrGPUDirectRDMAWritesOrdering, cudaGPUDirectRDMAWritesOrderingNone },
	{ cudaDevAttrMemoryPoolSupportedHandleTypes, cudaMemHandleTypeNone },
	{ cudaDevAttrClusterLaunch, 0 },
	{ CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0 },
	{ cudaDevAttrIpcEventSupport, 0 },
	{ cudaDevAttrMemSyncDomainCount, 1 },
	{ CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0 },
	{ cudaDevAttrNumaConfig, cudaDeviceNumaConfigNone },
	{ cudaDevAttrNumaId, -1 },
	{ CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0 },
	{ cudaDevAttrMpsEnabled, 0 },
	{ cudaDevAttrHostNumaId, -1 },
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
		.uuid.bytes = "software GPU",
		.totalGlobalMem = GPU_MEMORY_BYTES,
		.sharedMemPerBlock = GPU_SHARED_BYTES,
		.regsPerBlock = GPU_REGISTERS,
		.warpSize = GPU_WARP_THREADS,
		.maxThreadsPerBlock = GPU_BLOCK_THREADS_MAX,
		.maxThreadsDim = { GPU_BLOCK_THREADS_MAX, GPU_BLOCK_THREADS_MAX, 64 },
		.maxGridSize = { GPU_GRID_MAX, 1, 1 },
		.totalConstMem = GPU_CONSTANT_BYTES,
		.major = GPU_CAPABILITY_MAJOR,
		.minor = GPU_CAPABILITY_MINOR,
		.multiProcessorCount = GPU_MULTIPROCESSORS,
		.canMapHostMemory = 1,
		.concurrentKernels = 1,
		.pciBusID = GPU_PCI_BUS,
		.pciDeviceID = GPU_PCI_DEVICE,
		.pciDomainID = GPU_PCI_DOMAIN,
		.asyncEngineCount = 1,
		.unifiedAddressing = 1,
		.l2CacheSize = GPU_L2_BYTES,
		.maxThreadsPerMultiProcessor = 2 * GPU_BLOCK_THREADS_MAX,
		.sharedMemPerMultiprocessor = GPU_SHARED_SM_BYTES,
		.regsPerMultiprocessor = GPU_REGISTERS,
		.hostNativeAtomicSupported = 1,
		.computePreemptionSupported = 1,
		.canUseHostPointerForRegisteredMem = 1,
		.sharedMemPerBlockOptin = GPU_SHARED_OPTIN_BYTES,
		.maxBlocksPerMultiProcessor = 32,
		.reservedSharedMemPerBlock = 1024,
		.hostRegisterSupported = 1,
		.gpuDirectRDMASupported = 1,
		.gpuDirectRDMAFlushWritesOptions = cudaFlushGPUDirectRDMAWritesOptionHost,
		.memoryPoolsSupported = 1,
		.deviceNumaId = -1,
		.hostNumaId = -1,
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

/* Kernels have the stacks of threads. */
cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
	(void)value;
	return report(limit == cudaLimitStackSize ? cudaSuccess : cudaErrorUnsupportedLimit);
}

/* Nothing is ever captured, so the mode matters to nobody but the caller. */
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	enum cudaStreamCaptureMode before = capture_mode;

	if (!mode || (unsigned)*mode > cudaStreamCaptureModeRelaxed)
		return report(cudaErrorInvalidValue);
	capture_mode = *mode;
	*mode = before;
	return cudaSuccess;
}

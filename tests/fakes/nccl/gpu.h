/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of the software GPU: shared by the runtime and NVML, which have to agree. */
#ifndef TESTS_NCCL_GPU_H
#define TESTS_NCCL_GPU_H

#include <stdio.h>

#define GPU_CAPABILITY_MAJOR 8
#define GPU_CAPABILITY_MINOR 0

/* A PCI address without a device on any host: /sys has nothing about it. */
#define GPU_PCI_DOMAIN 0xffff
#define GPU_PCI_BUS    0xff
#define GPU_PCI_DEVICE 0x1f

/* NCCL then does not use features of newer drivers: virtual memory, multicast, launch attributes. */
#define GPU_DRIVER_VERSION  11040
#define GPU_RUNTIME_VERSION 13000

#define GPU_MEMORY_BYTES       (16ULL << 30)
#define GPU_SHARED_BYTES       (48 << 10)
#define GPU_SHARED_OPTIN_BYTES (163 << 10)
#define GPU_BLOCK_THREADS_MAX  1024
#define GPU_REGISTERS          65536

/* Is the text the GPU's PCI bus id, with a domain of any width or without? */
static inline int gpu_is_at(const char *bus_id)
{
	unsigned domain = GPU_PCI_DOMAIN, bus, device, function;

	if (sscanf(bus_id, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4) {
		domain = GPU_PCI_DOMAIN;
		if (sscanf(bus_id, "%x:%x.%x", &bus, &device, &function) != 3)
			return 0;
	}
	return domain == GPU_PCI_DOMAIN && bus == GPU_PCI_BUS && device == GPU_PCI_DEVICE &&
	       function == 0;
}

#endif

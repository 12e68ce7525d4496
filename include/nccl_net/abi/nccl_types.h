/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's types that every version of the net API shares, declared from the contract (net-api.md §1.2,
 * §1.4, §1.5), not from NCCL's headers. Pointer kinds are ANYNET_PTR_* in device.h, the handle's size
 * is ANYNET_HANDLE_BYTES in comm.h.
 */
#ifndef ANYNET_ABI_NCCL_TYPES_H
#define ANYNET_ABI_NCCL_TYPES_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* ncclResult_t. The newer codes 7 (in progress) and 8 (timeout) are never returned by a plugin. */
enum anynet_nccl_result {
	ANYNET_NCCL_SUCCESS = 0,
	ANYNET_NCCL_UNHANDLED_CUDA_ERROR = 1,
	ANYNET_NCCL_SYSTEM_ERROR = 2,
	ANYNET_NCCL_INTERNAL_ERROR = 3,
	ANYNET_NCCL_INVALID_ARGUMENT = 4,
	ANYNET_NCCL_INVALID_USAGE = 5,
	ANYNET_NCCL_REMOTE_ERROR = 6,
};
static_assert(sizeof(enum anynet_nccl_result) == 4, "net-api.md §1.2");

/* Copies the properties that every version has, between any two of the structs. */
#define ANYNET_COPY_SHARED_PROPS(to, from)               \
	do {                                             \
		(to)->name = (from)->name;               \
		(to)->pci_path = (from)->pci_path;       \
		(to)->guid = (from)->guid;               \
		(to)->ptr_support = (from)->ptr_support; \
		(to)->speed_mbps = (from)->speed_mbps;   \
		(to)->port = (from)->port;               \
		(to)->latency_us = (from)->latency_us;   \
		(to)->max_comms = (from)->max_comms;     \
		(to)->max_recvs = (from)->max_recvs;     \
	} while (0)

/* ncclNetDeviceType: a plugin without device offload is HOST. */
enum anynet_nccl_device_type {
	ANYNET_NCCL_DEVICE_HOST = 0,
	ANYNET_NCCL_DEVICE_UNPACK = 1,
};
static_assert(sizeof(enum anynet_nccl_device_type) == 4, "net-api.md §1.2");

/* ncclDebugLogger_t and ncclProfilerCallback_t; enums are passed as int. */
typedef void (*anynet_nccl_logger)(int level, unsigned long flags, const char *file, int line,
				   const char *fmt, ...);
typedef int (*anynet_nccl_profiler)(void **event, int type, void *phandle, int64_t plugin_id,
				    void *ext);

/* Value of *request on entry to irecv, v9+: NCCL needs neither the size nor a real completion (net-api.md §3.5). */
#define ANYNET_NCCL_OPTIONAL_COMPLETION ((void *)0x1)

/* Largest maxP2pBytes and maxCollBytes that NCCL accepts. It also rejects 0. */
#define ANYNET_NCCL_MESSAGE_MAX ((size_t)1 << 40)

/* "Not set" for the traffic class, rail and plane. */
#define ANYNET_NCCL_UNSET (-1)

/* v7+: for device offload, which the plugin does not support. */
struct anynet_net_device_handle;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Net API v8 (net-api.md §1.3, §1.4), native in NCCL 2.20 - 2.23: registrations above 2 GiB, mhandles valid for a whole
 * device. */
#ifndef ANYNET_ABI_NET_V8_H
#define ANYNET_ABI_NET_V8_H

#include <nccl_net/abi/nccl_types.h>

struct anynet_net_props_v8 {
	const char *name;
	const char *pci_path;
	uint64_t guid;
	int ptr_support;
	int reg_is_global;
	int speed_mbps;
	int port;
	float latency_us;
	int max_comms;
	int max_recvs;
	enum anynet_nccl_device_type device_type;
	int device_version;
};
ANYNET_ABI_SIZE(anynet_net_props_v8, 64);
ANYNET_ABI_AT(anynet_net_props_v8, name, 0);
ANYNET_ABI_AT(anynet_net_props_v8, pci_path, 8);
ANYNET_ABI_AT(anynet_net_props_v8, guid, 16);
ANYNET_ABI_AT(anynet_net_props_v8, ptr_support, 24);
ANYNET_ABI_AT(anynet_net_props_v8, reg_is_global, 28);
ANYNET_ABI_AT(anynet_net_props_v8, speed_mbps, 32);
ANYNET_ABI_AT(anynet_net_props_v8, port, 36);
ANYNET_ABI_AT(anynet_net_props_v8, latency_us, 40);
ANYNET_ABI_AT(anynet_net_props_v8, max_comms, 44);
ANYNET_ABI_AT(anynet_net_props_v8, max_recvs, 48);
ANYNET_ABI_AT(anynet_net_props_v8, device_type, 52);
ANYNET_ABI_AT(anynet_net_props_v8, device_version, 56);

struct anynet_net_v8 {
	const char *name;
	enum anynet_nccl_result (*init)(anynet_nccl_logger logger);
	enum anynet_nccl_result (*devices)(int *count);
	enum anynet_nccl_result (*get_properties)(int dev, struct anynet_net_props_v8 *props);
	enum anynet_nccl_result (*listen)(int dev, void *handle, void **lcomm);
	enum anynet_nccl_result (*connect)(int dev, void *handle, void **scomm,
					   struct anynet_net_device_handle **dev_handle);
	enum anynet_nccl_result (*accept)(void *lcomm, void **rcomm,
					  struct anynet_net_device_handle **dev_handle);
	enum anynet_nccl_result (*reg_mr)(void *comm, void *data, size_t bytes, int type,
					  void **mhandle);
	enum anynet_nccl_result (*reg_mr_dmabuf)(void *comm, void *data, size_t bytes, int type,
						 uint64_t offset, int fd, void **mhandle);
	enum anynet_nccl_result (*dereg_mr)(void *comm, void *mhandle);
	enum anynet_nccl_result (*isend)(void *scomm, void *data, int bytes, int tag, void *mhandle,
					 void **request);
	enum anynet_nccl_result (*irecv)(void *rcomm, int n, void **data, int *bytes, int *tags,
					 void **mhandles, void **request);
	enum anynet_nccl_result (*iflush)(void *rcomm, int n, void **data, int *bytes,
					  void **mhandles, void **request);
	enum anynet_nccl_result (*test)(void *request, int *done, int *bytes);
	enum anynet_nccl_result (*close_send)(void *scomm);
	enum anynet_nccl_result (*close_recv)(void *rcomm);
	enum anynet_nccl_result (*close_listen)(void *lcomm);
	enum anynet_nccl_result (*get_device_mr)(void *comm, void *mhandle, void **device_mr);
	enum anynet_nccl_result (*irecv_consumed)(void *rcomm, int n, void *request);
};
ANYNET_ABI_SIZE(anynet_net_v8, 152);
ANYNET_ABI_SLOT(anynet_net_v8, name, 0);
ANYNET_ABI_SLOT(anynet_net_v8, init, 1);
ANYNET_ABI_SLOT(anynet_net_v8, devices, 2);
ANYNET_ABI_SLOT(anynet_net_v8, get_properties, 3);
ANYNET_ABI_SLOT(anynet_net_v8, listen, 4);
ANYNET_ABI_SLOT(anynet_net_v8, connect, 5);
ANYNET_ABI_SLOT(anynet_net_v8, accept, 6);
ANYNET_ABI_SLOT(anynet_net_v8, reg_mr, 7);
ANYNET_ABI_SLOT(anynet_net_v8, reg_mr_dmabuf, 8);
ANYNET_ABI_SLOT(anynet_net_v8, dereg_mr, 9);
ANYNET_ABI_SLOT(anynet_net_v8, isend, 10);
ANYNET_ABI_SLOT(anynet_net_v8, irecv, 11);
ANYNET_ABI_SLOT(anynet_net_v8, iflush, 12);
ANYNET_ABI_SLOT(anynet_net_v8, test, 13);
ANYNET_ABI_SLOT(anynet_net_v8, close_send, 14);
ANYNET_ABI_SLOT(anynet_net_v8, close_recv, 15);
ANYNET_ABI_SLOT(anynet_net_v8, close_listen, 16);
ANYNET_ABI_SLOT(anynet_net_v8, get_device_mr, 17);
ANYNET_ABI_SLOT(anynet_net_v8, irecv_consumed, 18);

#endif

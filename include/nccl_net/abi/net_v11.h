/* SPDX-License-Identifier: Apache-2.0 */
/* Net API v11 (net-api.md §1.3, §1.4), native in NCCL 2.28 - 2.29: contexts, one init and finalize per communicator. */
#ifndef ANYNET_ABI_NET_V11_H
#define ANYNET_ABI_NET_V11_H

#include <nccl_net/abi/net_v10.h>

struct anynet_net_comm_attr_v11 {
	int32_t max_concurrent_peers, min_concurrent_peers;
	int32_t max_flows_per_peer, min_flows_per_peer;
};
ANYNET_ABI_SIZE(anynet_net_comm_attr_v11, 16);
ANYNET_ABI_AT(anynet_net_comm_attr_v11, max_concurrent_peers, 0);
ANYNET_ABI_AT(anynet_net_comm_attr_v11, min_concurrent_peers, 4);
ANYNET_ABI_AT(anynet_net_comm_attr_v11, max_flows_per_peer, 8);
ANYNET_ABI_AT(anynet_net_comm_attr_v11, min_flows_per_peer, 12);

/* Hints about the traffic to come. A bit set with all bits set means "not known". */
struct anynet_net_attr_v11 {
	struct anynet_net_comm_attr_v11 send, recv;
	uint32_t op, algo, proto;
};
ANYNET_ABI_SIZE(anynet_net_attr_v11, 44);
ANYNET_ABI_AT(anynet_net_attr_v11, send, 0);
ANYNET_ABI_AT(anynet_net_attr_v11, recv, 16);
ANYNET_ABI_AT(anynet_net_attr_v11, op, 32);
ANYNET_ABI_AT(anynet_net_attr_v11, algo, 36);
ANYNET_ABI_AT(anynet_net_attr_v11, proto, 40);

struct anynet_net_props_v11 {
	const char *name;
	const char *pci_path;
	uint64_t guid;
	int ptr_support;
	int reg_is_global;
	int force_flush;
	int speed_mbps;
	int port;
	float latency_us;
	int max_comms;
	int max_recvs;
	enum anynet_nccl_device_type device_type;
	int device_version;
	struct anynet_net_vprops_v9 vprops;
	size_t max_p2p_bytes;
	size_t max_coll_bytes;
	int max_multi_request;
};
ANYNET_ABI_SIZE(anynet_net_props_v11, 112);
ANYNET_ABI_AT(anynet_net_props_v11, name, 0);
ANYNET_ABI_AT(anynet_net_props_v11, pci_path, 8);
ANYNET_ABI_AT(anynet_net_props_v11, guid, 16);
ANYNET_ABI_AT(anynet_net_props_v11, ptr_support, 24);
ANYNET_ABI_AT(anynet_net_props_v11, reg_is_global, 28);
ANYNET_ABI_AT(anynet_net_props_v11, force_flush, 32);
ANYNET_ABI_AT(anynet_net_props_v11, speed_mbps, 36);
ANYNET_ABI_AT(anynet_net_props_v11, port, 40);
ANYNET_ABI_AT(anynet_net_props_v11, latency_us, 44);
ANYNET_ABI_AT(anynet_net_props_v11, max_comms, 48);
ANYNET_ABI_AT(anynet_net_props_v11, max_recvs, 52);
ANYNET_ABI_AT(anynet_net_props_v11, device_type, 56);
ANYNET_ABI_AT(anynet_net_props_v11, device_version, 60);
ANYNET_ABI_AT(anynet_net_props_v11, vprops, 64);
ANYNET_ABI_AT(anynet_net_props_v11, max_p2p_bytes, 88);
ANYNET_ABI_AT(anynet_net_props_v11, max_coll_bytes, 96);
ANYNET_ABI_AT(anynet_net_props_v11, max_multi_request, 104);

struct anynet_net_v11 {
	const char *name;
	enum anynet_nccl_result (*init)(void **ctx, uint64_t comm_id,
					struct anynet_net_config_v10 *config,
					anynet_nccl_logger logger, anynet_nccl_profiler profiler);
	enum anynet_nccl_result (*devices)(int *count);
	enum anynet_nccl_result (*get_properties)(int dev, struct anynet_net_props_v11 *props);
	enum anynet_nccl_result (*listen)(void *ctx, int dev, void *handle, void **lcomm);
	enum anynet_nccl_result (*connect)(void *ctx, int dev, void *handle, void **scomm,
					   struct anynet_net_device_handle **dev_handle);
	enum anynet_nccl_result (*accept)(void *lcomm, void **rcomm,
					  struct anynet_net_device_handle **dev_handle);
	enum anynet_nccl_result (*reg_mr)(void *comm, void *data, size_t bytes, int type,
					  void **mhandle);
	enum anynet_nccl_result (*reg_mr_dmabuf)(void *comm, void *data, size_t bytes, int type,
						 uint64_t offset, int fd, void **mhandle);
	enum anynet_nccl_result (*dereg_mr)(void *comm, void *mhandle);
	enum anynet_nccl_result (*isend)(void *scomm, void *data, size_t bytes, int tag,
					 void *mhandle, void *phandle, void **request);
	enum anynet_nccl_result (*irecv)(void *rcomm, int n, void **data, size_t *bytes, int *tags,
					 void **mhandles, void **phandles, void **request);
	enum anynet_nccl_result (*iflush)(void *rcomm, int n, void **data, int *bytes,
					  void **mhandles, void **request);
	enum anynet_nccl_result (*test)(void *request, int *done, int *bytes);
	enum anynet_nccl_result (*close_send)(void *scomm);
	enum anynet_nccl_result (*close_recv)(void *rcomm);
	enum anynet_nccl_result (*close_listen)(void *lcomm);
	enum anynet_nccl_result (*get_device_mr)(void *comm, void *mhandle, void **device_mr);
	enum anynet_nccl_result (*irecv_consumed)(void *rcomm, int n, void *request);
	enum anynet_nccl_result (*make_vdevice)(int *dev, struct anynet_net_vprops_v9 *vprops);
	enum anynet_nccl_result (*finalize)(void *ctx);
	enum anynet_nccl_result (*set_net_attr)(void *ctx, struct anynet_net_attr_v11 *attr);
};
ANYNET_ABI_SIZE(anynet_net_v11, 176);
ANYNET_ABI_SLOT(anynet_net_v11, name, 0);
ANYNET_ABI_SLOT(anynet_net_v11, init, 1);
ANYNET_ABI_SLOT(anynet_net_v11, devices, 2);
ANYNET_ABI_SLOT(anynet_net_v11, get_properties, 3);
ANYNET_ABI_SLOT(anynet_net_v11, listen, 4);
ANYNET_ABI_SLOT(anynet_net_v11, connect, 5);
ANYNET_ABI_SLOT(anynet_net_v11, accept, 6);
ANYNET_ABI_SLOT(anynet_net_v11, reg_mr, 7);
ANYNET_ABI_SLOT(anynet_net_v11, reg_mr_dmabuf, 8);
ANYNET_ABI_SLOT(anynet_net_v11, dereg_mr, 9);
ANYNET_ABI_SLOT(anynet_net_v11, isend, 10);
ANYNET_ABI_SLOT(anynet_net_v11, irecv, 11);
ANYNET_ABI_SLOT(anynet_net_v11, iflush, 12);
ANYNET_ABI_SLOT(anynet_net_v11, test, 13);
ANYNET_ABI_SLOT(anynet_net_v11, close_send, 14);
ANYNET_ABI_SLOT(anynet_net_v11, close_recv, 15);
ANYNET_ABI_SLOT(anynet_net_v11, close_listen, 16);
ANYNET_ABI_SLOT(anynet_net_v11, get_device_mr, 17);
ANYNET_ABI_SLOT(anynet_net_v11, irecv_consumed, 18);
ANYNET_ABI_SLOT(anynet_net_v11, make_vdevice, 19);
ANYNET_ABI_SLOT(anynet_net_v11, finalize, 20);
ANYNET_ABI_SLOT(anynet_net_v11, set_net_attr, 21);

#endif

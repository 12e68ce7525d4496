/* SPDX-License-Identifier: Apache-2.0 */
/* Net API v5 (net-api.md §1.3, §1.4), native in NCCL 2.12: tags and grouped receives. */
#ifndef ANYNET_ABI_NET_V5_H
#define ANYNET_ABI_NET_V5_H

#include <nccl_net/abi/nccl_types.h>

struct anynet_net_props_v5 {
	const char *name;
	const char *pci_path;
	uint64_t guid;
	int ptr_support;
	int speed_mbps;
	int port;
	float latency_us;
	int max_comms;
	int max_recvs;
};

struct anynet_net_v5 {
	const char *name;
	enum anynet_nccl_result (*init)(anynet_nccl_logger logger);
	enum anynet_nccl_result (*devices)(int *count);
	enum anynet_nccl_result (*get_properties)(int dev, struct anynet_net_props_v5 *props);
	enum anynet_nccl_result (*listen)(int dev, void *handle, void **lcomm);
	enum anynet_nccl_result (*connect)(int dev, void *handle, void **scomm);
	enum anynet_nccl_result (*accept)(void *lcomm, void **rcomm);
	enum anynet_nccl_result (*reg_mr)(void *comm, void *data, int bytes, int type,
					  void **mhandle);
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
};

#endif

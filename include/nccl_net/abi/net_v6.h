/* SPDX-License-Identifier: Apache-2.0 */
/* Net API v6 (net-api.md §1.3, §1.4), native in NCCL 2.13 - 2.18: v5 with DMA-BUF registration. Its properties are v5's. */
#ifndef ANYNET_ABI_NET_V6_H
#define ANYNET_ABI_NET_V6_H

#include <nccl_net/abi/net_v5.h>

struct anynet_net_v6 {
	const char *name;
	enum anynet_nccl_result (*init)(anynet_nccl_logger logger);
	enum anynet_nccl_result (*devices)(int *count);
	enum anynet_nccl_result (*get_properties)(int dev, struct anynet_net_props_v5 *props);
	enum anynet_nccl_result (*listen)(int dev, void *handle, void **lcomm);
	enum anynet_nccl_result (*connect)(int dev, void *handle, void **scomm);
	enum anynet_nccl_result (*accept)(void *lcomm, void **rcomm);
	enum anynet_nccl_result (*reg_mr)(void *comm, void *data, int bytes, int type,
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
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Net API v10 (net-api.md §1.3, §1.4), native in NCCL 2.26 - 2.27: profiler handles, traffic class. Its properties are v9's. */
#ifndef ANYNET_ABI_NET_V10_H
#define ANYNET_ABI_NET_V10_H

#include <nccl_net/abi/net_v9.h>

struct anynet_net_config_v10 {
	int traffic_class; /* ANYNET_NCCL_UNSET = none */
};

struct anynet_net_v10 {
	const char *name;
	enum anynet_nccl_result (*init)(anynet_nccl_logger logger, anynet_nccl_profiler profiler);
	enum anynet_nccl_result (*devices)(int *count);
	enum anynet_nccl_result (*get_properties)(int dev, struct anynet_net_props_v9 *props);
	enum anynet_nccl_result (*listen)(int dev, void *handle, void **lcomm);
	enum anynet_nccl_result (*connect)(int dev, struct anynet_net_config_v10 *config,
					   void *handle, void **scomm,
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
};

#endif

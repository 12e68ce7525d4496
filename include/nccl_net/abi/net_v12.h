/* SPDX-License-Identifier: Apache-2.0 */
/* Net API v12 (net-api.md §1.3, §1.4), native in NCCL 2.30: rails and planes, wider virtual devices. */
#ifndef ANYNET_ABI_NET_V12_H
#define ANYNET_ABI_NET_V12_H

#include <nccl_net/abi/net_v11.h>

struct anynet_net_vprops_v12 {
	int count;
	int devs[8];
};

struct anynet_net_props_v12 {
	const char *name;
	const char *pci_path; /* sysfs directory of the PCI function, or NULL */
	uint64_t guid;        /* of the chip */
	int ptr_support;      /* ANYNET_PTR_* */
	int reg_is_global;    /* mhandles are valid for every comm of the device */
	int force_flush;      /* flush on every GPU generation */
	int speed_mbps;
	int port;         /* of the chip */
	float latency_us; /* 0 = NCCL's default */
	int max_comms;
	int max_recvs; /* buffers in a grouped receive */
	enum anynet_nccl_device_type device_type;
	int device_version;
	struct anynet_net_vprops_v12 vprops; /* physical devices behind this one */
	size_t max_p2p_bytes;
	size_t max_coll_bytes;
	int max_multi_request; /* 1 */
	int16_t rail_id;       /* ANYNET_NCCL_UNSET if not known */
	int16_t plane_id;
};

struct anynet_net_v12 {
	const char *name;
	enum anynet_nccl_result (*init)(void **ctx, uint64_t comm_id,
					struct anynet_net_config_v10 *config,
					anynet_nccl_logger logger, anynet_nccl_profiler profiler);
	enum anynet_nccl_result (*devices)(int *count);
	enum anynet_nccl_result (*get_properties)(int dev, struct anynet_net_props_v12 *props);
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
	enum anynet_nccl_result (*make_vdevice)(int *dev, struct anynet_net_vprops_v12 *vprops);
	enum anynet_nccl_result (*finalize)(void *ctx);
	enum anynet_nccl_result (*set_net_attr)(void *ctx, struct anynet_net_attr_v11 *attr);
};

#endif

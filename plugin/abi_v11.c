/* SPDX-License-Identifier: Apache-2.0 */
/* Net API v11: v12 without rails and planes, and with fewer NICs in a virtual device. */
#include "abi.h"

#include <string.h>

#include <nccl_net/util.h>

static enum anynet_nccl_result init(void **ctx, uint64_t comm_id,
				    struct anynet_net_config_v10 *config, anynet_nccl_logger logger,
				    anynet_nccl_profiler profiler)
{
	return abi_v12_init_context(11, ctx, comm_id, config, logger, profiler);
}

/* A virtual device that was made through a newer version may have more NICs than fit: the rest is left out. */
enum anynet_nccl_result abi_v11_get_properties(int dev, struct anynet_net_props_v11 *props)
{
	struct anynet_net_props_v12 wide;
	enum anynet_nccl_result ret = abi_v12_get_properties(dev, props ? &wide : NULL);

	if (ret != ANYNET_NCCL_SUCCESS)
		return ret;
	memset(props, 0, sizeof(*props));
	ANYNET_COPY_SHARED_PROPS(props, &wide);
	props->reg_is_global = wide.reg_is_global;
	props->force_flush = wide.force_flush;
	props->device_type = wide.device_type;
	props->device_version = wide.device_version;
	props->max_p2p_bytes = wide.max_p2p_bytes;
	props->max_coll_bytes = wide.max_coll_bytes;
	props->max_multi_request = wide.max_multi_request;
	props->vprops.count = (int)anynet_min((size_t)wide.vprops.count, ARRAY_SIZE(props->vprops.devs));
	memcpy(props->vprops.devs, wide.vprops.devs, sizeof(props->vprops.devs));
	return ANYNET_NCCL_SUCCESS;
}

enum anynet_nccl_result abi_v11_make_vdevice(int *dev, struct anynet_net_vprops_v9 *vprops)
{
	if (!dev || !vprops)
		return ANYNET_NCCL_INVALID_ARGUMENT;
	return abi_v12_fuse(dev, vprops->count, vprops->devs, ARRAY_SIZE(vprops->devs));
}

struct anynet_net_v11 ncclNetPlugin_v11 = {
	ABI_SAME_ENTRIES,
	.init = init,
	.get_properties = abi_v11_get_properties,
	.listen = abi_v12_listen,
	.connect = abi_v12_connect,
	.accept = abi_v12_accept,
	.reg_mr = abi_v12_reg_mr,
	.reg_mr_dmabuf = abi_v12_reg_mr_dmabuf,
	.isend = abi_v12_isend,
	.irecv = abi_v12_irecv,
	.make_vdevice = abi_v11_make_vdevice,
	.finalize = abi_v12_finalize,
};

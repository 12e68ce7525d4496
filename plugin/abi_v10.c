/* SPDX-License-Identifier: Apache-2.0 */
/* Net API v10: no contexts. init is called once per process, and each connect has a traffic class. */
#include "abi.h"

#include <string.h>

#include "core.h"

static enum anynet_nccl_result init(anynet_nccl_logger logger, anynet_nccl_profiler profiler)
{
	anynet_core_init(10, logger, profiler);
	return ANYNET_NCCL_SUCCESS;
}

/* The properties are the first ones of v11. */
enum anynet_nccl_result abi_v10_get_properties(int dev, struct anynet_net_props_v9 *props)
{
	struct anynet_net_props_v11 wide;
	enum anynet_nccl_result ret = abi_v11_get_properties(dev, props ? &wide : NULL);

	if (ret != ANYNET_NCCL_SUCCESS)
		return ret;
	memcpy(props, &wide, sizeof(*props));
	return ANYNET_NCCL_SUCCESS;
}

enum anynet_nccl_result abi_v10_listen(int dev, void *handle, void **lcomm)
{
	return abi_v12_listen(NULL, dev, handle, lcomm);
}

static enum anynet_nccl_result connect_with_config(int dev, struct anynet_net_config_v10 *config,
						   void *handle, void **scomm,
						   struct anynet_net_device_handle **dev_handle)
{
	struct anynet_connect_options opts = anynet_core_options(NULL);

	(void)dev_handle;
	if (config)
		opts.traffic_class = config->traffic_class;
	return abi_v12_connect_step(&opts, dev, handle, scomm);
}

struct anynet_net_v10 ncclNetPlugin_v10 = {
	ABI_SAME_ENTRIES,
	.init = init,
	.get_properties = abi_v10_get_properties,
	.listen = abi_v10_listen,
	.connect = connect_with_config,
	.accept = abi_v12_accept,
	.reg_mr = abi_v12_reg_mr,
	.reg_mr_dmabuf = abi_v12_reg_mr_dmabuf,
	.isend = abi_v12_isend,
	.irecv = abi_v12_irecv,
	.make_vdevice = abi_v11_make_vdevice,
};

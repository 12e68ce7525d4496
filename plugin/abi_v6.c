/* SPDX-License-Identifier: Apache-2.0 */
/* Net API v6: v7 without device offload arguments. */
#include "abi.h"

#include <string.h>

#include "core.h"

static enum anynet_nccl_result init(anynet_nccl_logger logger)
{
	anynet_core_init(6, logger, NULL);
	return ANYNET_NCCL_SUCCESS;
}

enum anynet_nccl_result abi_v6_get_properties(int dev, struct anynet_net_props_v5 *props)
{
	struct anynet_net_props_v9 wide;
	enum anynet_nccl_result ret = abi_v10_get_properties(dev, props ? &wide : NULL);

	if (ret != ANYNET_NCCL_SUCCESS)
		return ret;
	memset(props, 0, sizeof(*props));
	ANYNET_COPY_SHARED_PROPS(props, &wide);
	return ANYNET_NCCL_SUCCESS;
}

enum anynet_nccl_result abi_v6_connect(int dev, void *handle, void **scomm)
{
	return abi_v9_connect(dev, handle, scomm, NULL);
}

enum anynet_nccl_result abi_v6_accept(void *lcomm, void **rcomm)
{
	return abi_v12_accept(lcomm, rcomm, NULL);
}

struct anynet_net_v6 ncclNetPlugin_v6 = {
	ABI_SAME_ENTRIES,
	.init = init,
	.get_properties = abi_v6_get_properties,
	.listen = abi_v10_listen,
	.connect = abi_v6_connect,
	.accept = abi_v6_accept,
	.reg_mr = abi_v7_reg_mr,
	.reg_mr_dmabuf = abi_v12_reg_mr_dmabuf,
	.isend = abi_v8_isend,
	.irecv = abi_v8_irecv,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* Net API v7: registrations are limited to 2 GiB and are valid for one comm. */
#include "abi.h"

#include <string.h>

#include <nccl_net/log.h>

#include "core.h"

static enum anynet_nccl_result init(anynet_nccl_logger logger)
{
	anynet_core_init(7, logger, NULL);
	return ANYNET_NCCL_SUCCESS;
}

static enum anynet_nccl_result get_properties(int dev, struct anynet_net_props_v7 *props)
{
	struct anynet_net_props_v9 wide;
	enum anynet_nccl_result ret = abi_v10_get_properties(dev, props ? &wide : NULL);

	if (ret != ANYNET_NCCL_SUCCESS)
		return ret;
	memset(props, 0, sizeof(*props));
	ANYNET_COPY_SHARED_PROPS(props, &wide);
	props->device_type = wide.device_type;
	props->device_version = wide.device_version;
	return ANYNET_NCCL_SUCCESS;
}

enum anynet_nccl_result abi_v7_reg_mr(void *comm, void *data, int bytes, int type, void **mhandle)
{
	if (bytes < 0) {
		*mhandle = NULL;
		anynet_warn("registration of %d bytes refused: net API v7 has no sizes above 2 "
			    "GiB; NCCL gets an error; NCCL 2.20 and newer register more",
			    bytes);
		return ANYNET_NCCL_INVALID_USAGE;
	}
	return abi_v12_reg_mr(comm, data, (size_t)bytes, type, mhandle);
}

struct anynet_net_v7 ncclNetPlugin_v7 = {
	ABI_SAME_ENTRIES,
	.init = init,
	.get_properties = get_properties,
	.listen = abi_v10_listen,
	.connect = abi_v9_connect,
	.accept = abi_v12_accept,
	.reg_mr = abi_v7_reg_mr,
	.reg_mr_dmabuf = abi_v12_reg_mr_dmabuf,
	.isend = abi_v8_isend,
	.irecv = abi_v8_irecv,
};

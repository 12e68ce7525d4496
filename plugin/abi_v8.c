/* SPDX-License-Identifier: Apache-2.0 */
/* Net API v8: message sizes are int; no virtual devices and no message limits in the properties. */
#include "abi.h"

#include <string.h>

#include <nccl_net/log.h>

#include "core.h"

static enum anynet_nccl_result init(anynet_nccl_logger logger)
{
	anynet_core_init(8, logger, NULL);
	return ANYNET_NCCL_SUCCESS;
}

static enum anynet_nccl_result get_properties(int dev, struct anynet_net_props_v8 *props)
{
	struct anynet_net_props_v9 wide;
	enum anynet_nccl_result ret = abi_v10_get_properties(dev, props ? &wide : NULL);

	if (ret != ANYNET_NCCL_SUCCESS)
		return ret;
	memset(props, 0, sizeof(*props));
	ANYNET_COPY_SHARED_PROPS(props, &wide);
	props->reg_is_global = wide.reg_is_global;
	props->device_type = wide.device_type;
	props->device_version = wide.device_version;
	return ANYNET_NCCL_SUCCESS;
}

enum anynet_nccl_result abi_v8_isend(void *scomm, void *data, int bytes, int tag, void *mhandle,
				     void **request)
{
	if (anynet_unlikely(bytes < 0)) {
		*request = NULL;
		anynet_warn("send of %d bytes, tag %d refused: net API v8 has no sizes above 2 "
			    "GiB; NCCL gets an error; report it with the version of NCCL",
			    bytes, tag);
		return ANYNET_NCCL_INVALID_USAGE;
	}
	return abi_v12_isend(scomm, data, (size_t)bytes, tag, mhandle, NULL, request);
}

enum anynet_nccl_result abi_v8_irecv(void *rcomm, int n, void **data, int *bytes, int *tags,
				     void **mhandles, void **request)
{
	size_t wide[ANYNET_RECVS_MAX] = { 0 };

	*request = NULL; /* its value on entry has a meaning only from v9 on */
	for (int i = 0; i < n && i < ANYNET_RECVS_MAX; i++) {
		if (anynet_unlikely(bytes[i] < 0)) {
			anynet_warn(
				"receive of %d bytes, tag %d refused: net API v8 has no "
				"sizes above 2 GiB; NCCL gets an error; report it with the version "
				"of NCCL",
				bytes[i], tags[i]);
			return ANYNET_NCCL_INVALID_USAGE;
		}
		wide[i] = (size_t)bytes[i];
	}
	return abi_v12_irecv(rcomm, n, data, wide, tags, mhandles, NULL, request);
}

struct anynet_net_v8 ncclNetPlugin_v8 = {
	ABI_SAME_ENTRIES,
	.init = init,
	.get_properties = get_properties,
	.listen = abi_v10_listen,
	.connect = abi_v9_connect,
	.accept = abi_v12_accept,
	.reg_mr = abi_v12_reg_mr,
	.reg_mr_dmabuf = abi_v12_reg_mr_dmabuf,
	.isend = abi_v8_isend,
	.irecv = abi_v8_irecv,
};

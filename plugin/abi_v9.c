/* SPDX-License-Identifier: Apache-2.0 */
/* Net API v9: v10 without profiler and traffic class. */
#include "abi.h"

#include <nccl_net/util.h>

#include "core.h"

static enum anynet_nccl_result init(anynet_nccl_logger logger)
{
	anynet_core_init(9, logger, NULL);
	return ANYNET_NCCL_SUCCESS;
}

enum anynet_nccl_result abi_v9_connect(int dev, void *handle, void **scomm,
				       struct anynet_net_device_handle **dev_handle)
{
	return abi_v12_connect(NULL, dev, handle, scomm, dev_handle);
}

static enum anynet_nccl_result isend(void *scomm, void *data, size_t bytes, int tag, void *mhandle,
				     void **request)
{
	return abi_v12_isend(scomm, data, bytes, tag, mhandle, NULL, request);
}

static enum anynet_nccl_result irecv(void *rcomm, int n, void **data, size_t *bytes, int *tags,
				     void **mhandles, void **request)
{
	return abi_v12_irecv(rcomm, n, data, bytes, tags, mhandles, NULL, request);
}

/* NCCL 2.24 and 2.25 end the communicator on invalid usage, and once there is one new device they use no others
 * (net-api.md §3.12). So NICs that stay separate become new devices of one each. */
static enum anynet_nccl_result make_vdevice(int *dev, struct anynet_net_vprops_v9 *vprops)
{
	enum anynet_nccl_result ret = abi_v11_make_vdevice(dev, vprops);
	int made;

	if (ret != ANYNET_NCCL_INVALID_USAGE || vprops->count > (int)ARRAY_SIZE(vprops->devs))
		return ret;
	for (int i = 0; i < vprops->count; i++) {
		if (abi_v12_fuse(&made, 1, &vprops->devs[i], 1))
			continue;
		*dev = made;
		ret = ANYNET_NCCL_SUCCESS;
	}
	return ret;
}

struct anynet_net_v9 ncclNetPlugin_v9 = {
	ABI_SAME_ENTRIES,
	.init = init,
	.get_properties = abi_v10_get_properties,
	.listen = abi_v10_listen,
	.connect = abi_v9_connect,
	.accept = abi_v12_accept,
	.reg_mr = abi_v12_reg_mr,
	.reg_mr_dmabuf = abi_v12_reg_mr_dmabuf,
	.isend = isend,
	.irecv = irecv,
	.make_vdevice = make_vdevice,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* Net API v5: v6 without DMA-BUF. */
#include "abi.h"

#include "core.h"

static enum anynet_nccl_result init(anynet_nccl_logger logger)
{
	anynet_core_init(5, logger, NULL);
	return ANYNET_NCCL_SUCCESS;
}

struct anynet_net_v5 ncclNetPlugin_v5 = {
	ABI_SAME_ENTRIES,
	.init = init,
	.get_properties = abi_v6_get_properties,
	.listen = abi_v10_listen,
	.connect = abi_v6_connect,
	.accept = abi_v6_accept,
	.reg_mr = abi_v7_reg_mr,
	.isend = abi_v8_isend,
	.irecv = abi_v8_irecv,
};

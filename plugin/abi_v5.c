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
	.name = "anynet",
	.init = init,
	.devices = abi_v12_devices,
	.get_properties = abi_v6_get_properties,
	.listen = abi_v10_listen,
	.connect = abi_v6_connect,
	.accept = abi_v6_accept,
	.reg_mr = abi_v7_reg_mr,
	.dereg_mr = abi_v12_dereg_mr,
	.isend = abi_v8_isend,
	.irecv = abi_v8_irecv,
	.iflush = abi_v12_iflush,
	.test = abi_v12_test,
	.close_send = abi_v12_close_send,
	.close_recv = abi_v12_close_recv,
	.close_listen = abi_v12_close_listen,
};

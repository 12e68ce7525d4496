/* SPDX-License-Identifier: Apache-2.0 */
/* A library with net tables v5, v8 and v10 that record their calls, for test_driver.c. Entries that it does not need
 * are NULL. */
#include "recorder_net.h"

#include <nccl_net/abi/net_v10.h>
#include <nccl_net/abi/net_v5.h>
#include <nccl_net/abi/net_v8.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED struct recorder recorder;

static void note(void)
{
	recorder.calls++;
}

static enum anynet_nccl_result init_v5(anynet_nccl_logger logger)
{
	note();
	(void)logger;
	return ANYNET_NCCL_SUCCESS;
}

static enum anynet_nccl_result init_v10(anynet_nccl_logger logger, anynet_nccl_profiler profiler)
{
	note();
	(void)logger;
	(void)profiler;
	return ANYNET_NCCL_SUCCESS;
}

static enum anynet_nccl_result get_properties_v5(int dev, struct anynet_net_props_v5 *props)
{
	(void)dev;
	*props = (struct anynet_net_props_v5){ .name = "five", .speed_mbps = 5, .max_recvs = 1 };
	return ANYNET_NCCL_SUCCESS;
}

static enum anynet_nccl_result get_properties_v8(int dev, struct anynet_net_props_v8 *props)
{
	(void)dev;
	*props = (struct anynet_net_props_v8){
		.name = "eight", .reg_is_global = 1, .speed_mbps = 8, .max_recvs = 8
	};
	return ANYNET_NCCL_SUCCESS;
}

/* Does not write the members after max_recvs. */
static enum anynet_nccl_result get_properties_v10(int dev, struct anynet_net_props_v9 *props)
{
	(void)dev;
	props->name = "ten";
	props->max_recvs = 10;
	return ANYNET_NCCL_SUCCESS;
}

static enum anynet_nccl_result connect_v10(int dev, struct anynet_net_config_v10 *config,
					   void *handle, void **scomm,
					   struct anynet_net_device_handle **dev_handle)
{
	(void)dev;
	(void)handle;
	(void)dev_handle;
	note();
	recorder.traffic_class = config->traffic_class;
	*scomm = &recorder;
	return ANYNET_NCCL_SUCCESS;
}

static enum anynet_nccl_result reg_mr_v5(void *comm, void *data, int bytes, int type,
					 void **mhandle)
{
	(void)comm;
	(void)data;
	(void)type;
	note();
	recorder.bytes = (size_t)bytes;
	*mhandle = &recorder;
	return ANYNET_NCCL_SUCCESS;
}

static enum anynet_nccl_result reg_mr_v8(void *comm, void *data, size_t bytes, int type,
					 void **mhandle)
{
	(void)comm;
	(void)data;
	(void)type;
	note();
	recorder.bytes = bytes;
	*mhandle = &recorder;
	return ANYNET_NCCL_SUCCESS;
}

static enum anynet_nccl_result isend_v5(void *scomm, void *data, int bytes, int tag, void *mhandle,
					void **request)
{
	(void)scomm;
	(void)data;
	(void)mhandle;
	note();
	recorder.bytes = (size_t)bytes;
	recorder.tag = tag;
	*request = NULL;
	return ANYNET_NCCL_SUCCESS;
}

static enum anynet_nccl_result isend_v10(void *scomm, void *data, size_t bytes, int tag,
					 void *mhandle, void *phandle, void **request)
{
	(void)scomm;
	(void)data;
	(void)mhandle;
	note();
	recorder.bytes = bytes;
	recorder.tag = tag;
	recorder.phandle = phandle;
	*request = NULL;
	return ANYNET_NCCL_SUCCESS;
}

static enum anynet_nccl_result irecv_v5(void *rcomm, int n, void **data, int *bytes, int *tags,
					void **mhandles, void **request)
{
	(void)rcomm;
	(void)data;
	(void)mhandles;
	note();
	recorder.n = n;
	recorder.bytes = (size_t)bytes[n - 1];
	recorder.tag = tags[n - 1];
	recorder.request_on_entry = *request;
	return ANYNET_NCCL_SUCCESS;
}

static enum anynet_nccl_result irecv_v10(void *rcomm, int n, void **data, size_t *bytes, int *tags,
					 void **mhandles, void **phandles, void **request)
{
	(void)rcomm;
	(void)data;
	(void)mhandles;
	note();
	recorder.n = n;
	recorder.bytes = bytes[n - 1];
	recorder.tag = tags[n - 1];
	recorder.phandle = phandles ? phandles[n - 1] : NULL;
	recorder.request_on_entry = *request;
	return ANYNET_NCCL_SUCCESS;
}

EXPORTED struct anynet_net_v5 ncclNetPlugin_v5 = {
	.name = "recorder",
	.init = init_v5,
	.get_properties = get_properties_v5,
	.reg_mr = reg_mr_v5,
	.isend = isend_v5,
	.irecv = irecv_v5,
};

EXPORTED struct anynet_net_v8 ncclNetPlugin_v8 = {
	.name = "recorder",
	.init = init_v5,
	.get_properties = get_properties_v8,
	.reg_mr = reg_mr_v8,
	.isend = isend_v5,
	.irecv = irecv_v5,
};

EXPORTED struct anynet_net_v10 ncclNetPlugin_v10 = {
	.name = "recorder",
	.init = init_v10,
	.get_properties = get_properties_v10,
	.connect = connect_v10,
	.reg_mr = reg_mr_v8,
	.isend = isend_v10,
	.irecv = irecv_v10,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* Net API v12, the newest. The older versions call its functions. */
#include "abi.h"

#include <errno.h>
#include <string.h>

#include <nccl_net/log.h>

#include "core.h"

/* Largest message that is offered to NCCL: NCCL's own limit for registered buffers (net-api.md §3.5). It also fits the
 * int in which test reports sizes. */
#define OFFERED_MESSAGE_BYTES ((size_t)1 << 30)
static_assert(ANYNET_MEMBERS_MAX == ARRAY_SIZE(((struct anynet_net_vprops_v12 *)NULL)->devs),
	      "v12");
static_assert(OFFERED_MESSAGE_BYTES <= ANYNET_MESSAGE_MAX, "offers no more than there is");
static_assert(OFFERED_MESSAGE_BYTES <= ANYNET_NCCL_MESSAGE_MAX, "net-api.md §1.5");

enum anynet_nccl_result abi_v12_init_context(int abi, void **ctx, uint64_t comm_id,
					     const struct anynet_net_config_v10 *config,
					     anynet_nccl_logger logger,
					     anynet_nccl_profiler profiler)
{
	anynet_core_init(abi, logger, profiler);
	if (ctx)
		*ctx = anynet_core_context_open(logger, comm_id,
						config ? config->traffic_class : ANYNET_NCCL_UNSET);
	return ANYNET_NCCL_SUCCESS;
}

static enum anynet_nccl_result init(void **ctx, uint64_t comm_id,
				    struct anynet_net_config_v10 *config, anynet_nccl_logger logger,
				    anynet_nccl_profiler profiler)
{
	return abi_v12_init_context(12, ctx, comm_id, config, logger, profiler);
}

enum anynet_nccl_result abi_v12_devices(int *count)
{
	if (!count)
		return ANYNET_NCCL_INVALID_ARGUMENT;
	*count = anynet_core_devices();
	return ANYNET_NCCL_SUCCESS;
}

enum anynet_nccl_result abi_v12_get_properties(int dev, struct anynet_net_props_v12 *props)
{
	const struct anynet_device *device = anynet_core_device(dev, "get properties");

	if (!device)
		return ANYNET_NCCL_INVALID_USAGE;
	if (!props)
		return ANYNET_NCCL_INVALID_ARGUMENT;
	memset(props, 0, sizeof(*props));
	props->name = device->name;
	props->pci_path = device->pci_path[0] ? device->pci_path : NULL;
	props->guid = device->guid;
	props->ptr_support = device->ptr_support;
	props->reg_is_global = device->reg_is_global;
	props->force_flush = device->force_flush;
	props->speed_mbps = device->speed_mbps;
	props->port = device->port;
	props->max_comms = device->max_comms;
	props->max_recvs = device->max_recvs;
	props->device_type = ANYNET_NCCL_DEVICE_HOST;
	props->device_version = 0;
	props->vprops.count = anynet_members(device);
	for (int i = 0; i < anynet_members(device); i++)
		props->vprops.devs[i] = anynet_member(device, i)->index;
	props->max_p2p_bytes = OFFERED_MESSAGE_BYTES;
	props->max_coll_bytes = OFFERED_MESSAGE_BYTES;
	props->max_multi_request = 1;
	props->rail_id = (int16_t)device->rail_id;
	props->plane_id = (int16_t)device->plane_id;
	return ANYNET_NCCL_SUCCESS;
}

enum anynet_nccl_result abi_v12_listen(void *ctx, int dev, void *handle, void **lcomm)
{
	const struct anynet_device *device = anynet_core_device(dev, "listen");
	struct anynet_listener *listener = NULL;
	int ret;

	*lcomm = NULL;
	if (!device)
		return ANYNET_NCCL_INVALID_USAGE;
	if (!anynet_core_may_open())
		return ANYNET_NCCL_SYSTEM_ERROR;
	ret = anynet_listen(device, ctx, handle, &listener);
	if (!ret)
		*lcomm = listener;
	return anynet_core_result(ret);
}

enum anynet_nccl_result abi_v12_connect_step(const struct anynet_connect_options *opts, int dev,
					     void *handle, void **scomm)
{
	const struct anynet_device *device = anynet_core_device(dev, "connect");
	struct anynet_comm *comm = NULL;
	int ret;

	*scomm = NULL;
	if (!device)
		return ANYNET_NCCL_INVALID_USAGE;
	if (!anynet_core_may_open())
		return ANYNET_NCCL_SYSTEM_ERROR;
	ret = anynet_connect(device, opts, handle, &comm);
	if (!ret)
		*scomm = comm;
	return anynet_core_result(ret);
}

enum anynet_nccl_result abi_v12_connect(void *ctx, int dev, void *handle, void **scomm,
					struct anynet_net_device_handle **dev_handle)
{
	struct anynet_connect_options opts = anynet_core_options(ctx);

	(void)dev_handle; /* for device offload; may be NULL (net-api.md §3.3) */
	return abi_v12_connect_step(&opts, dev, handle, scomm);
}

enum anynet_nccl_result abi_v12_accept(void *lcomm, void **rcomm,
				       struct anynet_net_device_handle **dev_handle)
{
	struct anynet_comm *comm = NULL;
	int ret;

	(void)dev_handle;
	*rcomm = NULL;
	if (!lcomm)
		return ANYNET_NCCL_INVALID_ARGUMENT;
	if (!anynet_core_may_open())
		return ANYNET_NCCL_SYSTEM_ERROR;
	ret = anynet_accept(lcomm, &comm);
	if (!ret)
		*rcomm = comm;
	return anynet_core_result(ret);
}

static enum anynet_nccl_result reg_mr(void *comm, void *data, size_t bytes, int type,
				      const struct anynet_dmabuf *dmabuf, void **mhandle)
{
	struct anynet_mr *mr = NULL;
	int ret;

	*mhandle = NULL;
	if (!comm)
		return ANYNET_NCCL_INVALID_ARGUMENT;
	ret = anynet_reg_mr(comm, data, bytes, type, dmabuf, &mr);
	if (!ret)
		*mhandle = mr;
	return anynet_core_result(ret);
}

enum anynet_nccl_result abi_v12_reg_mr(void *comm, void *data, size_t bytes, int type,
				       void **mhandle)
{
	return reg_mr(comm, data, bytes, type, NULL, mhandle);
}

enum anynet_nccl_result abi_v12_reg_mr_dmabuf(void *comm, void *data, size_t bytes, int type,
					      uint64_t offset, int fd, void **mhandle)
{
	return reg_mr(comm, data, bytes, type, &(struct anynet_dmabuf){ fd, offset }, mhandle);
}

enum anynet_nccl_result abi_v12_dereg_mr(void *comm, void *mhandle)
{
	if (comm && mhandle && !anynet_core_is_forked())
		anynet_dereg_mr(comm, mhandle);
	return ANYNET_NCCL_SUCCESS;
}

enum anynet_nccl_result abi_v12_isend(void *scomm, void *data, size_t bytes, int tag, void *mhandle,
				      void *phandle, void **request)
{
	const struct anynet_send send = { data, bytes, tag, mhandle, phandle };
	struct anynet_request *req = NULL;
	int ret = scomm ? anynet_isend(scomm, &send, &req) : -EINVAL;

	*request = req;
	return anynet_core_result(ret);
}

/* *request on entry may be ANYNET_NCCL_OPTIONAL_COMPLETION, for LL and LL128. Such a request, too, completes when its
 * data has arrived. */
enum anynet_nccl_result abi_v12_irecv(void *rcomm, int n, void **data, size_t *bytes, int *tags,
				      void **mhandles, void **phandles, void **request)
{
	const struct anynet_recv recv = {
		.n = n,
		.polled = *request == ANYNET_NCCL_OPTIONAL_COMPLETION,
		.data = data,
		.bytes = bytes,
		.tags = tags,
		.mrs = mhandles,
		.phandles = phandles,
	};
	struct anynet_request *req = NULL;
	int ret;

	*request = NULL;
	if (anynet_unlikely(!rcomm))
		return ANYNET_NCCL_INVALID_ARGUMENT;
	if (anynet_unlikely(n < 1 || n > ANYNET_RECVS_MAX)) {
		anynet_warn(
			"receive of %d buffers refused: a group has 1 to %d; NCCL gets an error", n,
			ANYNET_RECVS_MAX);
		return ANYNET_NCCL_INVALID_USAGE;
	}
	ret = anynet_irecv(rcomm, &recv, &req);
	*request = req;
	return anynet_core_result(ret);
}

enum anynet_nccl_result abi_v12_iflush(void *rcomm, int n, void **data, int *bytes, void **mhandles,
				       void **request)
{
	struct anynet_mr *mrs[ANYNET_RECVS_MAX];
	struct anynet_request *req = NULL;
	int ret;

	(void)bytes; /* NCCL may pass sizes of other buffers */
	*request = NULL;
	if (!rcomm || n < 0 || n > ANYNET_RECVS_MAX)
		return ANYNET_NCCL_INVALID_ARGUMENT;
	for (int i = 0; i < n; i++)
		mrs[i] = mhandles ? mhandles[i] : NULL;
	ret = anynet_iflush(rcomm, n, data, mrs, &req);
	if (!ret)
		*request = req;
	return anynet_core_result(ret);
}

enum anynet_nccl_result abi_v12_test(void *request, int *done, int *bytes)
{
	*done = 0;
	if (anynet_unlikely(!request))
		return ANYNET_NCCL_INVALID_ARGUMENT;
	return anynet_core_result(anynet_test(request, done, bytes));
}

/* Always succeeds: an error would make NCCL skip the rest of its teardown (net-api.md §3.9). */
enum anynet_nccl_result abi_v12_close(void *comm)
{
	if (comm && !anynet_core_is_forked())
		anynet_close(comm);
	return ANYNET_NCCL_SUCCESS;
}

enum anynet_nccl_result abi_v12_close_listen(void *lcomm)
{
	if (lcomm && !anynet_core_is_forked())
		anynet_close_listener(lcomm);
	return ANYNET_NCCL_SUCCESS;
}

enum anynet_nccl_result abi_v12_finalize(void *ctx)
{
	anynet_core_context_close(ctx);
	return ANYNET_NCCL_SUCCESS;
}

enum anynet_nccl_result abi_v12_fuse(int *dev, int count, const int *devs, int most)
{
	int ret = anynet_core_fuse(devs, count, most);

	*dev = ret < 0 ? -1 : ret;
	if (ret == -EINVAL)
		return ANYNET_NCCL_INVALID_USAGE;
	return ret < 0 ? anynet_core_result(ret) : ANYNET_NCCL_SUCCESS;
}

static enum anynet_nccl_result make_vdevice(int *dev, struct anynet_net_vprops_v12 *vprops)
{
	if (!dev || !vprops)
		return ANYNET_NCCL_INVALID_ARGUMENT;
	return abi_v12_fuse(dev, vprops->count, vprops->devs, ARRAY_SIZE(vprops->devs));
}

/* NCCL allows NULL for the entries of device offload (get_device_mr, irecv_consumed) and traffic hints
 * (set_net_attr). */
struct anynet_net_v12 ncclNetPlugin_v12 = {
	ABI_SAME_ENTRIES,
	.init = init,
	.get_properties = abi_v12_get_properties,
	.listen = abi_v12_listen,
	.connect = abi_v12_connect,
	.accept = abi_v12_accept,
	.reg_mr = abi_v12_reg_mr,
	.reg_mr_dmabuf = abi_v12_reg_mr_dmabuf,
	.isend = abi_v12_isend,
	.irecv = abi_v12_irecv,
	.make_vdevice = make_vdevice,
	.finalize = abi_v12_finalize,
};

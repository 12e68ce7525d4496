/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a function table of any version into driver_calls, and reads properties of any version as
 * NCCL's shims do (net-api.md §1.3, §1.4, §1.6). */
#include "driver_internal.h"

#include <string.h>

/* Values of NCCL's shims for versions without these fields (net-api.md §1.5). */
#define SHIM_MAX_P2P_BYTES  ((size_t)1 << 30)
#define SHIM_MAX_COLL_BYTES ((size_t)1 << 29)

/* Functions with the same signature in every version. */
#define BIND_COMMON(calls, net)                              \
	do {                                                 \
		(calls)->devices = (net)->devices;           \
		(calls)->dereg_mr = (net)->dereg_mr;         \
		(calls)->iflush = (net)->iflush;             \
		(calls)->test = (net)->test;                 \
		(calls)->close_send = (net)->close_send;     \
		(calls)->close_recv = (net)->close_recv;     \
		(calls)->close_listen = (net)->close_listen; \
	} while (0)

static void bind_v5(struct driver_calls *calls, const struct anynet_net_v5 *net)
{
	BIND_COMMON(calls, net);
	calls->init_v5 = net->init;
	calls->get_properties_v5 = net->get_properties;
	calls->listen_v5 = net->listen;
	calls->connect_v5 = net->connect;
	calls->accept_v5 = net->accept;
	calls->reg_mr_v5 = net->reg_mr;
	calls->isend_v5 = net->isend;
	calls->irecv_v5 = net->irecv;
}

static void bind_v6(struct driver_calls *calls, const struct anynet_net_v6 *net)
{
	BIND_COMMON(calls, net);
	calls->init_v5 = net->init;
	calls->get_properties_v5 = net->get_properties;
	calls->listen_v5 = net->listen;
	calls->connect_v5 = net->connect;
	calls->accept_v5 = net->accept;
	calls->reg_mr_v5 = net->reg_mr;
	calls->reg_mr_dmabuf = net->reg_mr_dmabuf;
	calls->isend_v5 = net->isend;
	calls->irecv_v5 = net->irecv;
}

static void bind_v7(struct driver_calls *calls, const struct anynet_net_v7 *net)
{
	BIND_COMMON(calls, net);
	calls->init_v5 = net->init;
	calls->get_properties_v7 = net->get_properties;
	calls->listen_v5 = net->listen;
	calls->connect_v7 = net->connect;
	calls->accept_v7 = net->accept;
	calls->reg_mr_v5 = net->reg_mr;
	calls->reg_mr_dmabuf = net->reg_mr_dmabuf;
	calls->isend_v5 = net->isend;
	calls->irecv_v5 = net->irecv;
}

static void bind_v8(struct driver_calls *calls, const struct anynet_net_v8 *net)
{
	BIND_COMMON(calls, net);
	calls->init_v5 = net->init;
	calls->get_properties_v8 = net->get_properties;
	calls->listen_v5 = net->listen;
	calls->connect_v7 = net->connect;
	calls->accept_v7 = net->accept;
	calls->reg_mr_v8 = net->reg_mr;
	calls->reg_mr_dmabuf = net->reg_mr_dmabuf;
	calls->isend_v5 = net->isend;
	calls->irecv_v5 = net->irecv;
}

static void bind_v9(struct driver_calls *calls, const struct anynet_net_v9 *net)
{
	BIND_COMMON(calls, net);
	calls->init_v5 = net->init;
	calls->get_properties_v9 = net->get_properties;
	calls->listen_v5 = net->listen;
	calls->connect_v7 = net->connect;
	calls->accept_v7 = net->accept;
	calls->reg_mr_v8 = net->reg_mr;
	calls->reg_mr_dmabuf = net->reg_mr_dmabuf;
	calls->isend_v9 = net->isend;
	calls->irecv_v9 = net->irecv;
	calls->make_vdevice_v9 = net->make_vdevice;
}

static void bind_v10(struct driver_calls *calls, const struct anynet_net_v10 *net)
{
	BIND_COMMON(calls, net);
	calls->init_v10 = net->init;
	calls->get_properties_v9 = net->get_properties;
	calls->listen_v5 = net->listen;
	calls->connect_v10 = net->connect;
	calls->accept_v7 = net->accept;
	calls->reg_mr_v8 = net->reg_mr;
	calls->reg_mr_dmabuf = net->reg_mr_dmabuf;
	calls->isend_v10 = net->isend;
	calls->irecv_v10 = net->irecv;
	calls->make_vdevice_v9 = net->make_vdevice;
}

static void bind_v11(struct driver_calls *calls, const struct anynet_net_v11 *net)
{
	BIND_COMMON(calls, net);
	calls->init_v11 = net->init;
	calls->get_properties_v11 = net->get_properties;
	calls->listen_v11 = net->listen;
	calls->connect_v11 = net->connect;
	calls->accept_v7 = net->accept;
	calls->reg_mr_v8 = net->reg_mr;
	calls->reg_mr_dmabuf = net->reg_mr_dmabuf;
	calls->isend_v10 = net->isend;
	calls->irecv_v10 = net->irecv;
	calls->make_vdevice_v9 = net->make_vdevice;
	calls->finalize = net->finalize;
}

static void bind_v12(struct driver_calls *calls, const struct anynet_net_v12 *net)
{
	BIND_COMMON(calls, net);
	calls->init_v11 = net->init;
	calls->get_properties_v12 = net->get_properties;
	calls->listen_v11 = net->listen;
	calls->connect_v11 = net->connect;
	calls->accept_v7 = net->accept;
	calls->reg_mr_v8 = net->reg_mr;
	calls->reg_mr_dmabuf = net->reg_mr_dmabuf;
	calls->isend_v10 = net->isend;
	calls->irecv_v10 = net->irecv;
	calls->make_vdevice_v12 = net->make_vdevice;
	calls->finalize = net->finalize;
}

void driver_bind(struct driver_calls *calls, const void *table, int abi)
{
	*calls = (struct driver_calls){ 0 };
	switch (abi) {
	case 5:
		bind_v5(calls, table);
		break;
	case 6:
		bind_v6(calls, table);
		break;
	case 7:
		bind_v7(calls, table);
		break;
	case 8:
		bind_v8(calls, table);
		break;
	case 9:
		bind_v9(calls, table);
		break;
	case 10:
		bind_v10(calls, table);
		break;
	case 11:
		bind_v11(calls, table);
		break;
	case 12:
		bind_v12(calls, table);
		break;
	}
}

/* Fields of every version. */
#define COPY_COMMON(to, from)                            \
	do {                                             \
		(to)->name = (from)->name;               \
		(to)->pci_path = (from)->pci_path;       \
		(to)->guid = (from)->guid;               \
		(to)->ptr_support = (from)->ptr_support; \
		(to)->speed_mbps = (from)->speed_mbps;   \
		(to)->port = (from)->port;               \
		(to)->latency_us = (from)->latency_us;   \
		(to)->max_comms = (from)->max_comms;     \
		(to)->max_recvs = (from)->max_recvs;     \
	} while (0)

#define COPY_DEVICE_TYPE(to, from)                                 \
	do {                                                       \
		(to)->net_device_type = (int)(from)->device_type;  \
		(to)->net_device_version = (from)->device_version; \
	} while (0)

/* Fields of v9 and later. */
#define COPY_VDEVICE(to, from)                                            \
	do {                                                              \
		(to)->reg_is_global = (from)->reg_is_global;              \
		(to)->force_flush = (from)->force_flush;                  \
		copy_vdevs(to, (from)->vprops.count, (from)->vprops.devs, \
			   sizeof((from)->vprops.devs) / sizeof(int));    \
		(to)->max_p2p_bytes = (from)->max_p2p_bytes;              \
		(to)->max_coll_bytes = (from)->max_coll_bytes;            \
	} while (0)

static void copy_vdevs(struct driver_props *props, int count, const int *devs, int most)
{
	props->vdev_count = count;
	for (int i = 0; i < most; i++)
		props->vdevs[i] = i < count ? devs[i] : -1;
}

/* NCCL passes uninitialised memory (net-api.md §1.4); the driver passes a recognisable pattern. */
#define POISON(object) memset(&(object), DRIVER_PROPS_POISON, sizeof(object))

static int read_v5(const struct driver_calls *calls, int dev, struct driver_props *props)
{
	struct anynet_net_props_v5 raw;
	POISON(raw);
	int ret = (int)calls->get_properties_v5(dev, &raw);
	if (!ret)
		COPY_COMMON(props, &raw);
	return ret;
}

static int read_v7(const struct driver_calls *calls, int dev, struct driver_props *props)
{
	struct anynet_net_props_v7 raw;
	POISON(raw);
	int ret = (int)calls->get_properties_v7(dev, &raw);
	if (ret)
		return ret;
	COPY_COMMON(props, &raw);
	COPY_DEVICE_TYPE(props, &raw);
	return 0;
}

static int read_v8(const struct driver_calls *calls, int dev, struct driver_props *props)
{
	struct anynet_net_props_v8 raw;
	POISON(raw);
	int ret = (int)calls->get_properties_v8(dev, &raw);
	if (ret)
		return ret;
	COPY_COMMON(props, &raw);
	COPY_DEVICE_TYPE(props, &raw);
	props->reg_is_global = raw.reg_is_global;
	return 0;
}

static int read_v9(const struct driver_calls *calls, int dev, struct driver_props *props)
{
	struct anynet_net_props_v9 raw;
	POISON(raw);
	int ret = (int)calls->get_properties_v9(dev, &raw);
	if (ret)
		return ret;
	COPY_COMMON(props, &raw);
	COPY_DEVICE_TYPE(props, &raw);
	COPY_VDEVICE(props, &raw);
	return 0;
}

static int read_v11(const struct driver_calls *calls, int dev, struct driver_props *props)
{
	struct anynet_net_props_v11 raw;
	POISON(raw);
	int ret = (int)calls->get_properties_v11(dev, &raw);
	if (ret)
		return ret;
	COPY_COMMON(props, &raw);
	COPY_DEVICE_TYPE(props, &raw);
	COPY_VDEVICE(props, &raw);
	props->max_multi_request = raw.max_multi_request;
	return 0;
}

static int read_v12(const struct driver_calls *calls, int dev, struct driver_props *props)
{
	struct anynet_net_props_v12 raw;
	POISON(raw);
	int ret = (int)calls->get_properties_v12(dev, &raw);
	if (ret)
		return ret;
	COPY_COMMON(props, &raw);
	COPY_DEVICE_TYPE(props, &raw);
	COPY_VDEVICE(props, &raw);
	props->max_multi_request = raw.max_multi_request;
	props->rail_id = raw.rail_id;
	props->plane_id = raw.plane_id;
	return 0;
}

int driver_read_properties(const struct driver_calls *calls, int dev, struct driver_props *props)
{
	*props = (struct driver_props){
		.net_device_type = ANYNET_NCCL_DEVICE_HOST,
		.vdev_count = 1,
		.vdevs = { dev, -1, -1, -1, -1, -1, -1, -1 },
		.max_p2p_bytes = SHIM_MAX_P2P_BYTES,
		.max_coll_bytes = SHIM_MAX_COLL_BYTES,
		.max_multi_request = 1,
		.rail_id = ANYNET_NCCL_UNSET,
		.plane_id = ANYNET_NCCL_UNSET,
	};
	if (calls->get_properties_v5)
		return read_v5(calls, dev, props);
	if (calls->get_properties_v7)
		return read_v7(calls, dev, props);
	if (calls->get_properties_v8)
		return read_v8(calls, dev, props);
	if (calls->get_properties_v9)
		return read_v9(calls, dev, props);
	if (calls->get_properties_v11)
		return read_v11(calls, dev, props);
	return read_v12(calls, dev, props);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copies a function table of any version into driver_calls, and reads properties of any version as
 * NCCL's shims do (net-api.md §1.3, §1.4, §1.6). */
#include "driver_internal.h"

#include <string.h>

/* Values of NCCL's shims for versions without these fields (net-api.md §1.5). */
#define SHIM_MAX_P2P_BYTES  ((size_t)1 << 30)
#define SHIM_MAX_COLL_BYTES ((size_t)1 << 29)

/* Each version is a row: the versions whose signatures its functions have. */
#define BIND(version, init_of, properties_of, listen_of, connect_of, accept_of, reg_of, send_of, \
	     ...)                                                                                \
	case version: {                                                                          \
		const struct anynet_net_v##version *net = table;                                 \
                                                                                                 \
		calls->init_v##init_of = net->init;                                              \
		calls->devices = net->devices;                                                   \
		calls->get_properties_v##properties_of = net->get_properties;                    \
		calls->listen_v##listen_of = net->listen;                                        \
		calls->connect_v##connect_of = net->connect;                                     \
		calls->accept_v##accept_of = net->accept;                                        \
		calls->reg_mr_v##reg_of = net->reg_mr;                                           \
		calls->dereg_mr = net->dereg_mr;                                                 \
		calls->isend_v##send_of = net->isend;                                            \
		calls->irecv_v##send_of = net->irecv;                                            \
		calls->iflush = net->iflush;                                                     \
		calls->test = net->test;                                                         \
		calls->close_send = net->close_send;                                             \
		calls->close_recv = net->close_recv;                                             \
		calls->close_listen = net->close_listen;                                         \
		__VA_ARGS__;                                                                     \
		break;                                                                           \
	}

/* Functions that the first versions lack. */
#define DMABUF           calls->reg_mr_dmabuf = net->reg_mr_dmabuf
#define VDEVICE(version) calls->make_vdevice_v##version = net->make_vdevice
#define FINALIZE         calls->finalize = net->finalize

void driver_bind(struct driver_calls *calls, const void *table, int abi)
{
	*calls = (struct driver_calls){ 0 };
	switch (abi) {
		/* clang-format off */
		/*   version init properties listen connect accept reg send */
		BIND(     5,   5,         5,     5,      5,     5,  5,   5, )
		BIND(     6,   5,         5,     5,      5,     5,  5,   5, DMABUF)
		BIND(     7,   5,         7,     5,      7,     7,  5,   5, DMABUF)
		BIND(     8,   5,         8,     5,      7,     7,  8,   5, DMABUF)
		BIND(     9,   5,         9,     5,      7,     7,  8,   9, DMABUF; VDEVICE(9))
		BIND(    10,  10,         9,     5,     10,     7,  8,  10, DMABUF; VDEVICE(9))
		BIND(    11,  11,        11,    11,     11,     7,  8,  10, DMABUF; VDEVICE(9); FINALIZE)
		BIND(    12,  11,        12,    11,     11,     7,  8,  10, DMABUF; VDEVICE(12); FINALIZE)
		/* clang-format on */
	}
}

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

/* Reads the properties of a version, and copies the fields that it has. */
#define READ(version, ...)                                              \
	do {                                                            \
		struct anynet_net_props_v##version raw;                 \
		int ret;                                                \
                                                                        \
		if (!calls->get_properties_v##version)                  \
			break;                                          \
		POISON(raw);                                            \
		ret = (int)calls->get_properties_v##version(dev, &raw); \
		if (!ret) {                                             \
			ANYNET_COPY_SHARED_PROPS(props, &raw);                       \
			__VA_ARGS__;                                    \
		}                                                       \
		return ret;                                             \
	} while (0)

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
	READ(5, );
	READ(7, COPY_DEVICE_TYPE(props, &raw));
	READ(8, COPY_DEVICE_TYPE(props, &raw); props->reg_is_global = raw.reg_is_global);
	READ(9, COPY_DEVICE_TYPE(props, &raw); COPY_VDEVICE(props, &raw));
	READ(11, COPY_DEVICE_TYPE(props, &raw); COPY_VDEVICE(props, &raw);
	     props->max_multi_request = raw.max_multi_request);
	READ(12, COPY_DEVICE_TYPE(props, &raw); COPY_VDEVICE(props, &raw);
	     props->max_multi_request = raw.max_multi_request; props->rail_id = raw.rail_id;
	     props->plane_id = raw.plane_id);
	return ANYNET_NCCL_INTERNAL_ERROR;
}

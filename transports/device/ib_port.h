/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a verbs port, and whether it can carry data. No state; any thread. */
#ifndef ANYNET_IB_PORT_H
#define ANYNET_IB_PORT_H

#include <stddef.h>

#include <nccl_net/config.h>

#include "device/gid.h"
#include "device/verbs.h"

struct ib_port {
	struct ibv_port_attr attr;
	int speed_mbps;
	struct gid_table gids;
	struct gid gid;    /* the choice of gid_choose while no peer is known */
	bool takes_inline; /* result of the loopback */
};

/*
 * Reads the port's state, LID, MTU and GIDs. `sysfs` as for gid_table_read. 0: the port can carry data; -ENETDOWN: it
 * is not ACTIVE; -EPROTONOSUPPORT: its link layer is neither InfiniBand nor Ethernet; -EADDRNOTAVAIL: it has no LID or
 * no usable GID. With these *state has what was read. -EIO: something cannot be read, *state is undefined. On an error `why`,
 * of `why_bytes`, gets the reason.
 */
int ib_port_read(const struct anynet_config *cfg, const struct verbs_port *port, const char *sysfs,
		 struct ib_port *state, char *why, size_t why_bytes);

/*
 * Speed in Mb/s: from ibv_query_port_speed; else the larger of the port's rate in sysfs (`sysfs` as for gid_table_read)
 * and lane speed x width of *attr. The 8 bits of active_speed end with NDR, 100 Gb/s a lane. For a faster port Linux
 * reports NDR (drivers/infiniband/core/uverbs_std_types_device.c, copy_port_attr_to_resp).
 */
int ib_port_speed(const struct verbs_port *port, const char *sysfs,
		  const struct ibv_port_attr *attr);

/* The active MTU in bytes. */
int ib_port_mtu(const struct ibv_port_attr *attr);

/* "InfiniBand" or "RoCE", of a port that can carry data. */
const char *ib_port_kind(const struct ibv_port_attr *attr);

/* RLIMIT_MEMLOCK as text: "64 KiB", "unlimited". Returns buf. */
const char *ib_memlock_text(char *buf, size_t bytes);

#endif

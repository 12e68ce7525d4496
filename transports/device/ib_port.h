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
	struct gid gid; /* that gid_choose takes while no peer is known */
	bool takes_inline; /* as the loopback has found */
};

/*
 * Read the port's state, LID, MTU and GIDs. `sysfs` as for gid_table_read. 0: it can carry data.
 * -ENETDOWN: it is not ACTIVE; -EPROTONOSUPPORT: its link layer is not for us; -EADDRNOTAVAIL: it has
 * no LID or no GID; what was read is in *state then. -EIO: it could not be read, and *state is as it was.
 * `why` tells, in `why_bytes`.
 */
int ib_port_read(const struct anynet_config *cfg, const struct verbs_port *port, const char *sysfs,
		 struct ib_port *state, char *why, size_t why_bytes);

/*
 * In Mb/s: what libibverbs says if it can; else the kernel's rate of the port (`sysfs` as for gid_table_read); else
 * lane speed times width of *attr, which has no lanes faster than NDR's 100 Gb/s: its 8 bits hold none, and
 * Linux tells the fastest that they hold (drivers/infiniband/core/uverbs_std_types_device.c, copy_port_attr_to_resp).
 */
int ib_port_speed(const struct verbs_port *port, const char *sysfs,
		  const struct ibv_port_attr *attr);

/* The active MTU in bytes. */
int ib_port_mtu(const struct ibv_port_attr *attr);

/* "InfiniBand" or "RoCE", of a port that can carry data. */
const char *ib_port_kind(const struct ibv_port_attr *attr);

/* "64 KiB", "unlimited": what RLIMIT_MEMLOCK lets this process pin. Returns buf. */
const char *ib_memlock_text(char *buf, size_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The part of TCP's probe that works on any table of interfaces, so that tests can have their own. */
#ifndef ANYNET_TCP_PROBE_H
#define ANYNET_TCP_PROBE_H

#include <nccl_net/device.h>

#include "device/netif.h"

/* As anynet_tcp_transport.probe, from `table`. `sysfs` is where sysfs is mounted. */
void tcp_probe_table(const struct anynet_config *cfg, const struct netif_table *table,
		     const char *sysfs, struct anynet_probe *probe);

#endif

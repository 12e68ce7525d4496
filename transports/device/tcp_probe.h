/* SPDX-License-Identifier: Apache-2.0 */
/* TCP's probe on a given table of interfaces, so that tests can use tables of their own. */
#ifndef ANYNET_TCP_PROBE_H
#define ANYNET_TCP_PROBE_H

#include <nccl_net/device.h>

#include "device/netif.h"

/* As anynet_tcp_probe, but for `table`. `sysfs` is where sysfs is mounted. */
void tcp_probe_table(const struct anynet_config *cfg, const struct netif_table *table,
		     const char *sysfs, struct anynet_probe *probe);

#endif

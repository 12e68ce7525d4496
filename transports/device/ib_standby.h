/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP devices that stand by while IB devices are offered: for control connections, and for data when
 * no queue pair is left. NCCL does not see them.
 */
#ifndef ANYNET_IB_STANDBY_H
#define ANYNET_IB_STANDBY_H

#include <nccl_net/device.h>

#include "device/gid.h"
#include "device/netif.h"

#define IB_STANDBY_MAX 8

/* In the order of TCP's own list; their indices follow those of the NICs that NCCL has. *count is 0
 * when no IB device was offered. Read-only once the probe is over; any thread. */
const struct anynet_device *const *ib_standby(int *count);

/* --- for the probe, under the core's init lock --- */

/* Run TCP's probe for them. Its verdicts go to *probe, where devices "stand by". 0 or -ENOMEM; finding
 * none is no error. */
int ib_standby_find(const struct anynet_config *cfg, struct anynet_probe *probe);

/* Number them from `first` on. */
void ib_standby_number(int first);

/* Forget them. */
void ib_standby_drop(void);

/*
 * Where the control connections of an IB device are bound: at the address of its GID, or else at
 * another one of the GID's network interface, if the settings for interfaces allow it; else where the
 * first standby device is. Fills addr, ifindex, ifname and copies_in_kernel of *dev. False: there is no
 * address at all.
 */
bool ib_standby_bind(const struct anynet_config *cfg, const struct netif_table *table,
		     const struct gid *gid, struct anynet_device *dev);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standby devices: TCP devices beside the IB devices, for control connections, and for data when no queue pair is left.
 * NCCL does not see them.
 */
#ifndef ANYNET_IB_STANDBY_H
#define ANYNET_IB_STANDBY_H

#include <nccl_net/device.h>

#include "device/gid.h"
#include "device/netif.h"

/* Standby device `i`, from 0, in the order of TCP's probe; NULL = there are no more, or no IB device was offered. Their
 * indices follow those of NCCL's devices and are below ANYNET_DEVICES_MAX. Read-only after the probe; any thread. */
const struct anynet_device *ib_standby_at(int i);

/* --- for the probe, under the core's init lock --- */

/* Runs TCP's probe on the table and keeps its devices. Its verdicts go to *probe, usable ones as "standby: ". 0 or -ENOMEM; to find
 * none is no error. */
int ib_standby_find(const struct anynet_config *cfg, const struct netif_table *table,
		    struct anynet_probe *probe);

/* Sets their indices, from `first` on. */
void ib_standby_number(int first);

/* Drops all standby devices. */
void ib_standby_drop(void);

/*
 * Chooses the address for the control connections of an IB device: that of its GID, or else another one of the GID's
 * network interface, if the settings allow that interface; else the address of the first standby device, also if the
 * interface has only one of 169.254/16 and the standby device a better one. Fills addr, ifindex, ifname and
 * copies_in_kernel of *dev. False = there is no address.
 */
bool ib_standby_bind(const struct anynet_config *cfg, const struct netif_table *table,
		     const struct gid *gid, struct anynet_device *dev);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of this process, NCCL's and the standby ones, and which of them a comm uses. Any thread. */
#ifndef ANYNET_NICS_H
#define ANYNET_NICS_H

#include <nccl_net/device.h>

#include "base/net.h"

/* Device number `index`: NCCL's devices, then the standby ones. NULL = there are no more. */
const struct anynet_device *nic_at(int index);

/* The device with this IP address; NULL = none. */
const struct anynet_device *nic_with_addr(const struct sockaddr_storage *addr);

/* Lists the NICs that a comm of `dev` may use. First come its members (a plain device is its own member). Then come, for when
 * a path fails, the other TCP devices, the equally fast ones first; or, of an IB device, the other ports, beginning with the next
 * one, and the standby devices. Returns the count, at most `max`. */
int nic_list(const struct anynet_device *dev, const struct anynet_device **set, int max);

/* Is it a TCP device beside others, and all of them are of another speed? */
bool nic_is_odd(const struct anynet_device *dev);

/* How many of the NICs that nic_list gives, from the first on, a comm of a TCP device spreads over: its members, and the equally
 * fast ones unless striping is off. */
int nic_spread(const struct anynet_device *dev);

/* Is it an error if a new comm of this device gets no queue pair? */
bool nic_needs_qp(const struct anynet_device *dev);

/* Streams that a comm of this device wants: on each pair of NICs, or for an IB device over all its ports. */
int nic_streams_wanted(const struct anynet_device *dev);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of this process, NCCL's and those that stand by, and which of them a comm uses. */
#ifndef ANYNET_NICS_H
#define ANYNET_NICS_H

#include <nccl_net/device.h>

#include "base/net.h"

/* Device number `index`: NCCL's, and behind them those that stand by. NULL: there are no more. */
const struct anynet_device *nic_at(int index);

/* Our device with this IP address, NULL = none. */
const struct anynet_device *nic_with_addr(const struct sockaddr_storage *addr);

/* The NICs that one comm of `dev` may use: its members (a NIC is its own) first, then, if striping is on,
 * those as fast and of the same kind; of an IB device, for want of its own ports, the other ports, from
 * the first one on, and the TCP devices that stand by. Returns the count, at most `max`. */
int nic_stripe(const struct anynet_device *dev, const struct anynet_device **set, int max);

/* Over how many of these `count` a comm of a TCP device spreads, the first ones; to the others it goes when a path
 * breaks. */
int nic_spread(const struct anynet_device *dev, int count);

/* Is it an error if a comm of this device has to go over TCP from its beginning? */
bool nic_needs_qp(const struct anynet_device *dev);

/* Streams that comms of this device want on each pair of NICs; of an IB device in all, over its ports. */
int nic_streams_wanted(const struct anynet_device *dev);

#endif

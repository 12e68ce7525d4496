/* SPDX-License-Identifier: Apache-2.0 */
/* Which NICs have lost their link, by the kernel's events (rtnetlink, and async events of verbs ports). No other sign
 * of a broken path comes without delay. Functions without a note are for the background thread. */
#ifndef ANYNET_CARRIER_H
#define ANYNET_CARRIER_H

#include <stdbool.h>

#include <nccl_net/device.h>

int carrier_events_open(void); /* a descriptor to poll, or -errno; not while it is open */
void carrier_events_close(void);

/* Reads the events that have come. True = the link of some NIC went down or came up. */
bool carrier_events_read(void);

/* Is the device's network interface down? False if not known. Any thread. */
bool carrier_interface_is_down(const struct anynet_device *dev);

/* State of an IB device's verbs port, which is not that of its network interface. Set by ib_events.c. Any thread. */
void carrier_set_port(const struct anynet_device *dev, bool lost);
bool carrier_port_is_down(const struct anynet_device *dev);

/* Is the interface or the port down? Any thread. */
bool carrier_is_lost(const struct anynet_device *dev);

/* How often interface or port have gone down so far. A connection made after the last time works without them. Any
 * thread. */
unsigned carrier_losses(const struct anynet_device *dev);

#endif

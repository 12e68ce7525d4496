/* SPDX-License-Identifier: Apache-2.0 */
/* Which NICs have lost their link, as the kernel tells (rtnetlink; async events of verbs ports): the
 * only sign of a broken path that does not take time. */
#ifndef ANYNET_CARRIER_H
#define ANYNET_CARRIER_H

#include <stdbool.h>

#include <nccl_net/device.h>

int carrier_events_open(void); /* a descriptor to poll, or -errno; once at a time */
void carrier_events_close(void);

/* Take in what the kernel has told. True: some NIC's link went or came. */
bool carrier_events_read(void);

/* The network interface. Any thread. False if nothing is known. */
bool carrier_is_down(const struct anynet_device *dev);

/* The verbs port of an IB device, which may be another one: as ib_events.c was told. Any thread. */
void carrier_set_port(const struct anynet_device *dev, bool lost);
bool carrier_port_is_down(const struct anynet_device *dev);

/* How often one of the two has gone so far: what was connected since does without it. Any thread. */
unsigned carrier_losses(const struct anynet_device *dev);

#endif

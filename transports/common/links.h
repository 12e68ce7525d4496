/* SPDX-License-Identifier: Apache-2.0 */
/* Which NICs have lost their link, as the kernel tells (rtnetlink): the only sign of a broken path
 * that does not take time. */
#ifndef ANYNET_LINKS_H
#define ANYNET_LINKS_H

#include <stdbool.h>

#include <nccl_net/device.h>

int links_open(void); /* a descriptor to poll, or -errno; once at a time */
void links_close(void);

/* Take in what the kernel has told. True: some NIC's link went or came. */
bool links_read(void);

/* Any thread. False if nothing is known. */
bool link_is_down(const struct anynet_device *dev);

#endif

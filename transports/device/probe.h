/* SPDX-License-Identifier: Apache-2.0 */
/* What every transport's probe does with its findings; anynet_probe_verdict is in device.h. */
#ifndef ANYNET_PROBE_H
#define ANYNET_PROBE_H

#include <nccl_net/device.h>

/* Append a device: link, index and name are filled in, the rest is zero. NULL when the list is
 * full; a usable verdict without a device then tells the selector. */
struct anynet_device *probe_add_device(struct anynet_probe *probe, enum anynet_link link,
				       const char *name);

#endif

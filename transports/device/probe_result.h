/* SPDX-License-Identifier: Apache-2.0 */
/* Results of a transport's probe; anynet_probe_verdict is in device.h. */
#ifndef ANYNET_PROBE_RESULT_H
#define ANYNET_PROBE_RESULT_H

#include <nccl_net/device.h>

/* Devices of a probe. */
#define PROBE_IB_MAX  31
#define PROBE_TCP_MAX 16

/* Appends a device with transport, index, name, and no rail or plane; the rest is zero. NULL = the list is full. The
 * selector then sees a usable verdict without a device. */
struct anynet_device *probe_add_device(struct anynet_probe *probe,
				       enum anynet_transport_kind transport,
				       const char *name);

#endif

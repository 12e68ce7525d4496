/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugin's selector has found (plugin/selector.h), in JSON. */
#ifndef SHARED_PROBE_H
#define SHARED_PROBE_H

#include <jansson.h>

#include <nccl_net/device.h>

const char *probe_transport(enum anynet_transport_kind transport);

/* { name, transport, speed_mbps, interface, address } */
json_t *probe_device(const struct anynet_device *dev);

/* [ { transport, name, usable, reason } ] */
json_t *probe_candidates(const struct anynet_probe *probe);

#endif

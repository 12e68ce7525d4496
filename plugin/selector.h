/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the networks and devices that NCCL gets, and logs why others are not used (docs/nccl.md, "Selection").
 */
#ifndef ANYNET_SELECTOR_H
#define ANYNET_SELECTOR_H

#include <nccl_net/config.h>
#include <nccl_net/device.h>

/*
 * The name for the exported symbols (net-api.md §2.5): the value of NCCL_NET if it is "IB", "Socket" or "anynet" in any
 * case, or empty; otherwise "anynet".
 *
 * For an ELF constructor: it neither allocates nor logs. The first call reads NCCL_NET; later calls return the same
 * static string. Not thread-safe.
 */
const char *anynet_selector_name(void);

/* The same for a given value of NCCL_NET (NULL = not set). Returns `nccl_net` or a constant. */
const char *anynet_selector_name_for(const char *nccl_net);

/*
 * Fill *probe: run the probes that `name` (anynet_selector_name) and the settings ask for. Logs an INFO line for each
 * candidate and each device, and a WARN if the network that the user asked for cannot be used. Finding no device is not
 * an error; NCCL then gets 0 devices. One thread at a time; in the plugin under the core's init lock.
 */
void anynet_selector_run(const char *name, const struct anynet_config *cfg,
			 struct anynet_probe *probe);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What networks there are, which of them NCCL gets, and why not the others: docs/nccl.md,
 * "Selection".
 */
#ifndef ANYNET_SELECTOR_H
#define ANYNET_SELECTOR_H

#include <stddef.h>

#include <nccl_net/config.h>
#include <nccl_net/device.h>

/*
 * The name to put into every exported table (net-api.md §2.5): the spelling in NCCL_NET if it is
 * one we serve ("IB", "Socket", "anynet" in any case, or empty), else "anynet".
 *
 * Made for an ELF constructor: allocates and prints nothing. The first call reads NCCL_NET; later
 * ones return the same string, which lives in static storage. Not for several threads at once.
 */
const char *anynet_selector_name(void);

/* The same for a given value of NCCL_NET; NULL = not set. Returns `nccl_net` or a constant. */
const char *anynet_selector_name_for(const char *nccl_net);

/*
 * Fill *probe: run the probes that NCCL_NET and the settings ask for, log one INFO line per
 * candidate and one per device, and a WARN where the user asked for something that cannot be had.
 * Finding nothing is no error; NCCL is then told of zero devices. Once per process, under the
 * core's init lock.
 */
void anynet_selector_run(const struct anynet_config *cfg, struct anynet_probe *probe);

/* The same with a given name instead of the process's; for tests. */
void anynet_selector_run_as(const char *name, const struct anynet_config *cfg,
			    struct anynet_probe *probe);

#endif

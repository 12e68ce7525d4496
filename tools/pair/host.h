/* SPDX-License-Identifier: Apache-2.0 */
/* What both commands know about this host before they talk to the other. */
#ifndef PAIR_HOST_H
#define PAIR_HOST_H

#include <jansson.h>

#include <nccl_net/config.h>
#include <nccl_net/device.h>

struct pair_host {
	struct anynet_config cfg;
	struct anynet_probe probe;
	const char *plugin; /* for driver_open */
	json_t *facts;      /* facts_gather */
};

/* Reads the settings and probes. One per process; no thread may run yet. */
void pair_host_read(struct pair_host *host, const char *plugin);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What both commands know about this host before they contact the other. */
#ifndef PAIR_HOST_H
#define PAIR_HOST_H

#include <jansson.h>

#include <nccl_net/config.h>
#include <nccl_net/device.h>

struct pair_host {
	struct anynet_config cfg;
	struct anynet_probe probe;
	const char *plugin; /* for driver_open */
	json_t *facts;      /* from facts_gather; owned */
};

/* Reads the settings, probes devices and gathers facts. Once per process, before any thread is started. */
void pair_host_read(struct pair_host *host, const char *plugin);

#endif

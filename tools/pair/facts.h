/* SPDX-License-Identifier: Apache-2.0 */
/* Facts that a host reports about itself to the other. */
#ifndef PAIR_FACTS_H
#define PAIR_FACTS_H

#include <jansson.h>
#include <stdbool.h>

#include <nccl_net/config.h>
#include <nccl_net/device.h>

#define FACTS_ENV_MAX   256  /* maximum number of variables */
#define FACTS_VALUE_MAX 512  /* maximum bytes of a value */
#define FACTS_TEXT_MAX  8192 /* maximum bytes of any text: paths, reasons */
#define FACTS_ASK_MS    5000 /* timeout for loading and asking a library */

/* True if no text, at any depth, exceeds FACTS_TEXT_MAX. */
bool facts_are_short(const json_t *facts);

/* Checks facts from another host: short texts, and no more devices, candidates and variables than
 * pair_host_read reports. */
bool facts_within_bounds(const json_t *facts);

/*
 * Adds "nccl" (version of the libnccl.so.2 on the library search path, or ""), "nccl_file", "gpus" ("8 x NVIDIA H200",
 * or "") and "driver" (version, or ""); null = not known, because a library did not answer within FACTS_ASK_MS. Forks
 * processes that load libraries, so no other thread may run.
 */
void facts_ask_libraries(json_t *facts);

/* Returns "local" and "peer" (addresses of the socket) with "local_port" and "peer_port", and
 * "interface", "mtu" and "virtual" of the local address. */
json_t *facts_way(int fd);

/* What both commands know about this host before they contact the other. */
struct pair_host {
	struct anynet_config cfg;
	struct anynet_probe probe;
	struct anynet_probe
		standby; /* beside verbs devices, the TCP devices that the plugin may use as well */
	const char *plugin; /* for driver_open */
	json_t *facts;      /* owned */
};

/*
 * Reads the settings, probes devices and gathers facts: "version", "wire", "host", "kernel", "env" (all NCCL_* and
 * ANYNET_* variables; values of secrets are hidden), "devices" (with "name", "transport", "speed_mbps",
 * "interface", "address", "mtu"), "standby" (addresses), "candidates" (with "transport", "name", "usable", "reason"),
 * "port_min" and "port_max". Once per process, before any thread is started.
 */
void pair_host_read(struct pair_host *host, const char *plugin);

#endif

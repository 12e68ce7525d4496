/* SPDX-License-Identifier: Apache-2.0 */
/* What a host tells the other about itself. */
#ifndef PAIR_FACTS_H
#define PAIR_FACTS_H

#include <jansson.h>
#include <stdbool.h>

#include <nccl_net/config.h>
#include <nccl_net/device.h>

#define FACTS_ENV_MAX   256  /* variables */
#define FACTS_VALUE_MAX 512  /* bytes of a value */
#define FACTS_TEXT_MAX  8192 /* bytes of any text: paths, reasons */

/*
 * "version", "wire", "host", "kernel", "nccl" (version of the libnccl.so.2 that the loader finds, as
 * text, or ""), "nccl_file", "gpus" ("8 x NVIDIA H200", or ""), "driver" (its version, or ""), "env" (all of NCCL_* and ANYNET_*; of ANYNET_SECRET_FILE only that it is
 * set), "devices" (with "name", "transport", "speed_mbps", "interface", "address", "mtu"),
 * "candidates" (with "transport", "name", "usable", "reason"), "port_min", "port_max". Starts processes
 * for what libraries tell, so no thread may run. The caller releases it.
 */
json_t *facts_gather(const struct anynet_config *cfg, const struct anynet_probe *probe);

/* No text in there, at any depth, is longer than facts_gather makes them. */
bool facts_are_short(const json_t *facts);

/* Another host's: a short object, with no more devices, candidates and variables than facts_gather tells. */
bool facts_within_bounds(const json_t *facts);

/* Adds those of them that only other libraries know. */
void facts_ask_libraries(json_t *facts);

/* "local", "peer" (addresses of the socket), "interface", "mtu" of the local address. */
json_t *facts_way(int fd);

#endif

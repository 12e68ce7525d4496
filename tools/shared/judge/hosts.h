/* SPDX-License-Identifier: Apache-2.0 */
/* Compares what two or more hosts report about themselves (facts.h of tools/pair). */
#ifndef JUDGE_HOSTS_H
#define JUDGE_HOSTS_H

#include <jansson.h>
#include <stdbool.h>

/*
 * Adds findings for hosts that differ in versions, settings or devices, and for hosts that NCCL
 * cannot reach. `hosts` have "name", "facts" and, if they are two, "way" (facts_way).
 */
void judge_hosts(json_t *findings, const json_t *hosts);

/* Returns the text of a fact for output: `none` if the host has no such thing, or "not known". */
const char *host_fact(const json_t *facts, const char *key, const char *none);

/* True if no device of the plugin on that host leads to another host. `way` is that host's end, or NULL. */
bool host_is_cut_off(const json_t *facts, const json_t *way);

#endif

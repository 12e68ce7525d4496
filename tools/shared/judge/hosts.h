/* SPDX-License-Identifier: Apache-2.0 */
/* What two or more hosts tell of themselves (facts.h of tools/pair), compared. */
#ifndef JUDGE_HOSTS_H
#define JUDGE_HOSTS_H

#include <jansson.h>
#include <stdbool.h>

/*
 * Adds who differs in versions, settings and devices, and who is cut off. `hosts` have "name", "facts" and,
 * if they are two, "way" (facts_way).
 */
void judge_hosts(json_t *findings, const json_t *hosts);

/* The plugin is given no device there that leads to another host; `way` is that end's, or NULL. */
bool host_is_cut_off(const json_t *facts, const json_t *way);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the rank or path that delays a running job, from the facts of all hosts (live_facts.h). No network access. */
#ifndef CLUSTER_LIVE_JUDGE_H
#define CLUSTER_LIVE_JUDGE_H

#include <jansson.h>

struct live;

struct live *live_new(void);

/*
 * Judges one look: `hosts` has an object for each host with "name" and "facts" (null if it does not answer). Returns
 * the findings, errors first; the caller releases them. "hosts" of a finding are the names concerned.
 */
json_t *live_judge(struct live *live, const json_t *hosts);

#endif

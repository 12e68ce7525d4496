/* SPDX-License-Identifier: Apache-2.0 */
/* Who is to blame while a job runs, from what the workers of all hosts tell (live_facts.h). No network. */
#ifndef CLUSTER_LIVE_JUDGE_H
#define CLUSTER_LIVE_JUDGE_H

#include <jansson.h>
#include <stddef.h>

#define LIVE_LOOKS \
	3 /* a finding that may be a moment's is made when so many looks in a row have it */

struct live;

/* NULL: out of memory. */
struct live *live_new(void);
void live_free(struct live *live);

/*
 * One look: for each host an object with "name" and "facts" (null: it does not answer). Returns findings, errors first;
 * the caller releases them. "hosts" of each are the names concerned.
 */
json_t *live_judge(struct live *live, const json_t *hosts);

#endif

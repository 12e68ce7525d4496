/* SPDX-License-Identifier: Apache-2.0 */
/* What launchers tell the processes that they start, as far as hosts can be compared by it. */
#ifndef CLUSTER_LAUNCHER_H
#define CLUSTER_LAUNCHER_H

#include <jansson.h>
#include <stddef.h>

struct launcher_variable {
	const char *name;
	enum launcher_kind {
		LAUNCHER_SAME, /* everywhere */
		LAUNCHER_OWN,  /* of this process or host alone */
		LAUNCHER_MOST, /* the same on most hosts; others are odd, but may be meant so */
	} kind;
};
extern const struct launcher_variable launcher_variables[];
extern const size_t launcher_variable_count;

/* Those that are set here. */
json_t *launcher_gather(void);

/* The number of this process on its host by the launcher, 0 if it sets none: one of each host is enough. */
int launcher_local_rank(void);

/* The number of hosts by the launcher; 0 = it sets none. */
int launcher_hosts(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The environment variables of launchers that can be compared between hosts. */
#ifndef HOSTS_LAUNCHER_H
#define HOSTS_LAUNCHER_H

#include <jansson.h>
#include <stddef.h>

struct launcher_variable {
	const char *name;
	enum launcher_kind {
		LAUNCHER_SAME, /* the same on all hosts */
		LAUNCHER_OWN,  /* different on each host */
		LAUNCHER_MOST, /* usually the same on all hosts; a difference is a warning */
	} kind;
};
extern const struct launcher_variable launcher_variables[];
extern const size_t launcher_variable_count;

/* Returns the variables that are set, as an object; the caller releases it. */
json_t *launcher_gather(void);

/* Returns the local rank that the launcher has set, or 0 if it sets none. */
int launcher_local_rank(void);

/* Returns the number of hosts that the launcher has set, or 0 if it sets none. */
int launcher_hosts(void);

#endif

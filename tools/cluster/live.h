/* SPDX-License-Identifier: Apache-2.0 */
/* anynet cluster --live: watches the running jobs of all hosts and reports which rank or path delays them. */
#ifndef CLUSTER_LIVE_H
#define CLUSTER_LIVE_H

#include <stddef.h>

#include "tools/hosts/node.h"

struct live_options {
	int every;  /* seconds between looks */
	int during; /* seconds; 0 = until interrupted */
};

/* Runs until `during` has passed, then ends the workers. With --json prints one JSON object per line for each look.
 * Returns the exit status of the last look. */
int live_run(struct node *nodes, size_t count, const struct live_options *options);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* anynet cluster --live: looks at the running jobs of all hosts, and says who is to blame. */
#ifndef CLUSTER_LIVE_H
#define CLUSTER_LIVE_H

#include <stdbool.h>
#include <stddef.h>

#include "node.h"

struct live_options {
	double every;  /* s */
	double during; /* s; 0 = until it is interrupted */
	bool json;     /* one object in a line, for each look */
};

/* The exit status: that of the last look. The workers are sent home. */
int live_run(struct node *nodes, size_t count, const struct live_options *options);

#endif

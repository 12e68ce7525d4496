/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator: lets the workers measure all pairs of hosts in rounds. */
#ifndef CLUSTER_COORDINATOR_H
#define CLUSTER_COORDINATOR_H

#include <jansson.h>
#include <stdbool.h>

#include "tools/hosts/node.h"

#include "tools/pair/measure.h"

struct coordinator_options {
	struct measure measure;
	bool terminal;        /* stderr is a terminal: overwrite the progress line */
	json_t *before;       /* an earlier run, or NULL; pairs that became worse are repeated */
};

/* Returns the document (matrix.h) without findings; the caller releases it. Ends the workers. */
json_t *coordinate(struct node *nodes, size_t count, const struct coordinator_options *options);

#endif

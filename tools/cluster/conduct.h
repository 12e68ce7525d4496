/* SPDX-License-Identifier: Apache-2.0 */
/* The conductor: lets the workers measure all pairs of hosts in rounds. */
#ifndef CLUSTER_CONDUCT_H
#define CLUSTER_CONDUCT_H

#include <jansson.h>
#include <stdbool.h>

#include "tools/hosts/node.h"

#include "tools/pair/measure.h"

struct conduct_options {
	struct measure measure;
	bool terminal;        /* stderr is a terminal: overwrite the progress line */
	const json_t *before; /* an earlier run, or NULL; pairs that became worse are repeated */
};

/* Returns the document (matrix.h) without findings; the caller releases it. Ends the workers. */
json_t *conduct(struct node *nodes, size_t count, const struct conduct_options *options);

#endif

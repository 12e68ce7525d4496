/* SPDX-License-Identifier: Apache-2.0 */
/* Has workers measure all pairs, round by round. */
#ifndef CLUSTER_CONDUCT_H
#define CLUSTER_CONDUCT_H

#include <jansson.h>
#include <stdbool.h>

#include "node.h"

#include "tools/pair/measure.h"

struct conduct_options {
	struct measure measure;
	bool terminal; /* progress on stderr in place */
	const json_t
		*before; /* an earlier run, or NULL: what is worse than there is looked at again */
};

/* The document (matrix.h) without findings; the caller releases it. The workers are sent home. */
json_t *conduct(struct node *nodes, size_t count, const struct conduct_options *options);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A run against an earlier one, by the names of the hosts. */
#ifndef CLUSTER_BASELINE_H
#define CLUSTER_BASELINE_H

#include "blame.h"
#include "matrix.h"

/* Blames pairs that have become slower, and those whose round trips have. */
void compare_links(struct blame *slower, struct blame *later, const struct matrix *m,
		   const struct matrix *before);

/* Adds notes of hosts that are in one of the two only. */
void compare_names(json_t *findings, const struct matrix *m, const struct matrix *before);

#endif

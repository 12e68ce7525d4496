/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a run with an earlier one. Hosts are matched by name. */
#ifndef CLUSTER_BASELINE_H
#define CLUSTER_BASELINE_H

#include "blame.h"
#include "matrix.h"

/* Adds the pairs whose bandwidth fell to `slower`, and those whose minimum round trip rose to `later`. */
void compare_links(struct blame *slower, struct blame *later, const struct matrix *m,
		   const struct matrix *before);

/* Adds a note for each host that is in only one of the two runs. */
void compare_names(json_t *findings, const struct matrix *m, const struct matrix *before);

#endif

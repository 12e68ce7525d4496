/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes faults to hosts. Collects the pairs with one fault. If two thirds of a host's pairs have it, the host
 * is reported instead of the pairs. If all pairs have it, that is reported once.
 */
#ifndef CLUSTER_BLAME_H
#define CLUSTER_BLAME_H

#include <jansson.h>
#include <stdbool.h>

#include "matrix.h"
#include "tools/shared/judge/finding.h"

struct blame;

/*
 * `kind` is the id of the findings, `label` describes such a pair ("slow"). Neither is copied. Returns NULL if out
 * of memory; the functions below do nothing with NULL.
 */
struct blame *blame_new(const struct matrix *m, const char *kind, const char *label);

/*
 * Records a bad pair. Only the first call for a pair counts. `what` is copied; the texts of `advice`, which has no
 * id, must live until blame_settle.
 */
void blame_pair(struct blame *b, size_t one, size_t other, const struct advice *advice,
		const char *what);
bool blame_has(const struct blame *b, size_t one, size_t other);

/* Adds the findings to `findings`, if not NULL, and frees b. */
void blame_settle(struct blame *b, json_t *findings);

#endif

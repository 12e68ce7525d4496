/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose fault it is. Pairs that are bad in the same way are gathered; a host with which (nearly) all is
 * bad is named once instead of its pairs, and if all pairs are bad that is said.
 */
#ifndef CLUSTER_BLAME_H
#define CLUSTER_BLAME_H

#include <jansson.h>
#include <stdbool.h>

#include "matrix.h"
#include "tools/shared/judge/finding.h"

struct blame;

/* `label` is how such a pair is called: "slow". All texts but `what` are kept as they are, not copied. NULL:
 * out of memory, which the functions below take as nothing to do. */
struct blame *blame_new(const struct matrix *m, const char *kind, const char *label);

/* A pair that is bad; the first one of it counts. `what` is copied, the advice has no id. */
void blame_pair(struct blame *b, size_t one, size_t other, const struct advice *advice,
		const char *what);
bool blame_has(const struct blame *b, size_t one, size_t other);

/* Adds the findings (NULL: nobody wants them); releases b. */
void blame_settle(struct blame *b, json_t *findings);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes faults to hosts. Collects the pairs with one fault. If two thirds of a host's pairs have it, the host
 * is reported instead of the pairs. If all pairs have it, that is reported once.
 */
#ifndef CLUSTER_BLAME_H
#define CLUSTER_BLAME_H

#include <jansson.h>
#include <stdbool.h>

#include <nccl_net/util.h>

#include "matrix.h"
#include "tools/shared/judge/finding.h"

struct blame;

/* `kind` is the id of the findings, `label` describes such a pair ("slow"). Neither is copied. */
struct blame *blame_new(const struct matrix *m, const char *kind, const char *label);

/* Records a bad pair. Only the first call for a pair counts. The texts of `advice`, which has no id, are not copied. */
void blame_pair(struct blame *b, size_t one, size_t other, const struct advice *advice,
		const char *fmt, ...) ANYNET_PRINTF(5, 6);
bool blame_has(const struct blame *b, size_t one, size_t other);

void blame_tell(const struct blame *b, json_t *findings);

#endif

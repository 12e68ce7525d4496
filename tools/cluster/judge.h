/* SPDX-License-Identifier: Apache-2.0 */
/* Derives findings from the document of a run (matrix.h). No network access. */
#ifndef CLUSTER_JUDGE_H
#define CLUSTER_JUDGE_H

#include "matrix.h"

/* Returns the findings, errors first; the caller releases them. `before` is an earlier run, or NULL. */
json_t *judge(const json_t *doc, const json_t *before);

/* Adds findings about the launchers' variables and the numbers of ranks (layout.c). */
void judge_ranks(json_t *findings, const json_t *hosts);

/* Returns the pairs to measure again, as lists of two host indices; the caller releases them. */
json_t *judge_unclear(const json_t *doc, const json_t *before);

#endif

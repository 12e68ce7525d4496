/* SPDX-License-Identifier: Apache-2.0 */
/* What a run over all pairs means: whose fault what is (blame.h). They know documents (matrix.h), no network. */
#ifndef CLUSTER_JUDGE_H
#define CLUSTER_JUDGE_H

#include "matrix.h"

/* Findings, errors first; the caller releases them. `before` is an earlier run, or NULL. */
json_t *judge(const json_t *doc, const json_t *before);

/* Adds what is wrong with the launchers' variables and the numbers of ranks. */
void judge_ranks(json_t *findings, const json_t *hosts);

/* The pairs, as lists of two numbers of hosts, whose figures are worth another look. */
json_t *judge_unclear(const json_t *doc, const json_t *before);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Explores every reachable state, nearest first. */
#ifndef TESTS_MODEL_SEARCH_H
#define TESTS_MODEL_SEARCH_H

#include "model.h"

struct search_result {
	uint64_t states, steps, ends; /* states seen; steps taken; states without a mandatory step */
	unsigned depth;               /* distance of the farthest state */
	uint32_t taken;               /* bit set of the kinds of steps */
	const char *fault;            /* the violated invariant; NULL: none */
};

/* Explores all states of `cfg`. With `trace` prints the shortest path to a fault. A search that reaches `limit` states
 * is incomplete: that is a fault, too. */
struct search_result search(const struct model_config *cfg, uint64_t limit, bool trace);

#endif

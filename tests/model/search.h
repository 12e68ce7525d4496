/* SPDX-License-Identifier: Apache-2.0 */
/* Every state that can be reached, nearest first. */
#ifndef TESTS_MODEL_SEARCH_H
#define TESTS_MODEL_SEARCH_H

#include "model.h"

struct search_result {
	uint64_t states, steps, ends; /* seen; taken; states without a step that has to come */
	unsigned depth;               /* of the farthest state */
	uint32_t taken;               /* kinds of steps, a bit each */
	const char *fault;            /* what does not hold somewhere; NULL: all holds everywhere */
};

/* Looks at all states of `cfg`. With `trace` the shortest way to a fault is printed. A search that
 * meets `limit` states has not seen all: that is a fault too. */
struct search_result search(const struct model_config *cfg, uint64_t limit, bool trace);

#endif

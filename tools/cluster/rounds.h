/* SPDX-License-Identifier: Apache-2.0 */
/* All pairs of hosts in rounds in which each host is in one pair at most: a round-robin tournament. */
#ifndef CLUSTER_ROUNDS_H
#define CLUSTER_ROUNDS_H

#include <stdbool.h>
#include <stddef.h>

/* How many rounds so many hosts need. */
size_t rounds_count(size_t hosts);

/* The pairs of a round that there may be. */
size_t rounds_pairs(size_t hosts);

/* Pair number `pair` of the round; false where one of the two does not exist (an odd number of hosts). */
bool rounds_pair(size_t hosts, size_t round, size_t pair, size_t *a, size_t *b);

#endif

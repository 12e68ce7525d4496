/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules all pairs of hosts in rounds. A host is in at most one pair of a round (round-robin tournament). */
#ifndef CLUSTER_ROUNDS_H
#define CLUSTER_ROUNDS_H

#include <stdbool.h>
#include <stddef.h>

/* Number of rounds. */
size_t rounds_count(size_t hosts);

/* Maximum number of pairs in a round. */
size_t rounds_pairs(size_t hosts);

/* Stores pair number `pair` of the round. Returns false if one of the two does not exist (odd number of hosts). */
bool rounds_pair(size_t hosts, size_t round, size_t pair, size_t *a, size_t *b);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The typo guard of the settings: variables that look like one of ours or NCCL's but are none. */
#ifndef ANYNET_CONFIG_NAMES_H
#define ANYNET_CONFIG_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* WARN about every ANYNET_* variable in the environment that is no setting, and about every NCCL_*
 * one that is nearly, but not quite, one of NCCL's networking variables. */
void anynet_config_check_names(void);

/* Letters to insert, drop, replace, or swap with their neighbour to turn `a` into `b`, ignoring
 * case. More than any distance that counts if either is too long to be compared. */
size_t anynet_name_distance(const char *a, const char *b);

/* How far a name, without its prefix, may be from another to be taken for a typo of that. */
size_t anynet_name_typo_distance(const char *name);

/* The variable of ours that is nearest to `typed`, and its distance from it. */
const char *anynet_config_nearest_own(const char *typed, size_t *distance);
bool anynet_config_own_is_near(const char *typed, size_t distance);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The typo guard: finds environment variables that look like a setting or a variable of NCCL but are not one. */
#ifndef ANYNET_CONFIG_NAMES_H
#define ANYNET_CONFIG_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* WARN about every ANYNET_* variable in the environment that is not a setting, and about every NCCL_* variable that
 * NCCL does not have but whose name is close to one of its network variables. */
void anynet_config_check_names(void);

/* The edit distance, ignoring case: letters to insert, delete, replace, or swap with their neighbour. Returns a value
 * above any limit for typos if a name is too long to compare. */
size_t anynet_name_distance(const char *a, const char *b);

/* The largest distance at which `name`, without its prefix, counts as a typo of another name. */
size_t anynet_name_typo_distance(const char *name);

/* The plugin's variable that is closest to `typed`, and their distance; and whether such a distance is a likely
 * typo. */
const char *anynet_config_nearest_own(const char *typed, size_t *distance);
bool anynet_config_own_is_near(const char *typed, size_t distance);

#endif

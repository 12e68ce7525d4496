/* SPDX-License-Identifier: Apache-2.0 */
/* The typo guard of the settings: variables that look like one of ours or NCCL's but are none. */
#ifndef ANYNET_CONFIG_NAMES_H
#define ANYNET_CONFIG_NAMES_H

/* WARN about every ANYNET_* variable in the environment that is no setting, and about every NCCL_*
 * one that is nearly, but not quite, one of NCCL's networking variables. */
void anynet_config_check_names(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of statistics files; see stats_dir.h. */
#include "stats_dir.h"

#include <nccl_net/config.h>
#include <nccl_net/stats.h>

const char *stats_dir(void)
{
	static struct anynet_config cfg;

	anynet_config_load(&cfg, NULL);
	return *cfg.stats == '/' ? cfg.stats : ANYNET_STATS_DIR;
}

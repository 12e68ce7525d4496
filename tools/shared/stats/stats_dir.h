/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_STATS_DIR_H
#define TOOLS_STATS_DIR_H

#include <argp.h>

/* Of the commands that read there. */
#define STATS_DIR_OPTION                                                                    \
	{                                                                                   \
		"dir", 'D', "DIR", 0,                                                       \
			"where the jobs write, if their ANYNET_STATS differs from yours", 0 \
	}

/* Where the jobs' settings would put their stats pages, if they are as here. */
const char *stats_dir(void);

#endif

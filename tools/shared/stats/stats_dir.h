/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of statistics files, and its command-line option. */
#ifndef TOOLS_STATS_DIR_H
#define TOOLS_STATS_DIR_H

#include <argp.h>

/* argp option of the commands that read statistics files. */
#define STATS_DIR_OPTION                                                                    \
	{                                                                                   \
		"dir", 'D', "DIR", 0,                                                       \
			"where the jobs write, if their ANYNET_STATS differs from yours", 0 \
	}

/* Returns the directory of statistics files, from ANYNET_STATS of this process; jobs may have other
 * settings. */
const char *stats_dir(void);

#endif

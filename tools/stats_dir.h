/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_STATS_DIR_H
#define TOOLS_STATS_DIR_H

/* Where the jobs' settings would put their stats pages, if they are as here. */
const char *stats_dir(void);

#endif

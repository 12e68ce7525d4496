/* SPDX-License-Identifier: Apache-2.0 */
/* A pair of registered comms, and a directory for the statistics files of the test. */
#ifndef TESTS_UNIT_SERVICE_STATS_PAIR_H
#define TESTS_UNIT_SERVICE_STATS_PAIR_H

#include "unit/pair.h"

extern struct pair pair;
extern char dir[64]; /* local_cfg.stats */

/* For each test, which fails if it leaves a file in the directory. */
int stats_pair_setup(void **state);
int stats_pair_teardown(void **state);

void open_pair(unsigned streams);
void close_pair(void);

#endif

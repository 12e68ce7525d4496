/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The statistics of this process, written to its stats page (nccl_net/stats.h) ten times a second. On the data path
 * they add only a count of the bytes received. A separate thread writes the file, and holds no lock while it writes,
 * because the file system may not respond.
 */
#ifndef ANYNET_STATS_COLLECT_H
#define ANYNET_STATS_COLLECT_H

#include <stdbool.h>
#include <stdint.h>

/* Start the thread, or let it end: it runs while there are comms, unless the settings want no page. Any thread; does not
 * block. */
void stats_want(bool wanted);

/* At exit: let the thread end, and wait for it for up to `ms`. False: it still runs. */
bool stats_leave(uint64_t ms);

/* --- what it does. One thread at a time. --- */

/* Do the settings want a page? */
bool stats_are_on(void);

/* Create the page, if the settings want one. Removes an older one. */
void stats_begin(void);

/* Write the state of the comms in the registry. A comm whose lock cannot be taken keeps its previous record. False: there is
 * no page, before the next stats_begin. */
bool stats_look(void);

/* Remove the page: the last comm is gone. */
void stats_end(void);

#endif

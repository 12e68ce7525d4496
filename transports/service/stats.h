/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process tells on its stats page (nccl_net/stats.h), ten times a second. Nothing is counted for it on the
 * data path that is not counted anyway, but the bytes received. A thread of its own writes the file, and holds
 * nothing meanwhile: the file system may not answer.
 */
#ifndef ANYNET_STATS_COLLECT_H
#define ANYNET_STATS_COLLECT_H

#include <stdbool.h>
#include <stdint.h>

/* While there are comms the thread runs. Any thread; returns at once. */
void stats_want(bool wanted);

/* When the process exits: end it, and wait at most so long for that. False: it still runs. */
bool stats_leave(uint64_t ms);

/* --- what it does. One thread at a time. --- */

/* Make the page, if the settings want one. */
void stats_begin(void);

/* Tell how the comms in the registry are doing, on a page that is made now if there was no stats_begin. One that
 * somebody is at work on all the time keeps what was told of it last. */
void stats_look(void);

/* The last comm is gone: so is the page. */
void stats_end(void);

#endif

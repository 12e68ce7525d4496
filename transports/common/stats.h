/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process tells on its stats page (nccl_net/stats.h). By the background thread, ten times a second:
 * nothing is counted for it on the data path that is not counted anyway, but the bytes received.
 */
#ifndef ANYNET_STATS_COLLECT_H
#define ANYNET_STATS_COLLECT_H

/* Make the page, if the settings want one. */
void stats_begin(void);

/* Tell how the comms in the registry are doing, on a page that is made now if there was no stats_begin. One that somebody is at work on all the time keeps what was
 * told of it last. */
void stats_look(void);

/* The last comm is gone: so is the page. Not while the others are called. */
void stats_end(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The file of the stats page (nccl_net/stats.h): made, written to, removed. One thread at a time. */
#ifndef ANYNET_STATS_PAGE_H
#define ANYNET_STATS_PAGE_H

#include <stdbool.h>
#include <stddef.h>

struct stats_page {
	int fd;         /* -1 = there is none */
	unsigned forks; /* fd_forks when it was made: a forked child has no page */
	char path[320];
};

/* Make the page of this process in `dir`, and remove those that processes of this user have left there.
 * 0 or -errno. */
int stats_page_open(struct stats_page *page, const char *dir);

/* Write a record, whose sum comes first, at this place. Without a page nothing. 0 or -errno. */
int stats_page_put(struct stats_page *page, size_t at, void *record, size_t bytes);

/* Remove it, if this process has made it. Also twice. */
void stats_page_close(struct stats_page *page);

#endif

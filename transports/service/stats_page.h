/* SPDX-License-Identifier: Apache-2.0 */
/* Creates, writes and removes the file of the stats page (nccl_net/stats.h). One thread at a time. */
#ifndef ANYNET_STATS_PAGE_H
#define ANYNET_STATS_PAGE_H

#include <stdbool.h>
#include <stddef.h>

struct stats_page {
	int fd;         /* -1 = no page */
	unsigned forks; /* fd_forks when it was created: a forked child has no page */
	char path[320];
};

/* Create the page of this process in `dir`, and remove stale pages of this user there. 0 or -errno. */
int stats_page_open(struct stats_page *page, const char *dir);

/* Write a record at offset `at`, and set its first field to its checksum. Does nothing without a page. 0 or -errno. */
int stats_page_put(struct stats_page *page, size_t at, void *record, size_t bytes);

/* Close the page, and remove the file if this process created it. May be called again. */
void stats_page_close(struct stats_page *page);

#endif

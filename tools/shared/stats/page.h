/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads shared-memory statistics files (nccl_net/stats.h). A page is the file of one process, which
 * may belong to another user and is not trusted: pages read here have terminated, printable texts,
 * and numbers in range.
 */
#ifndef STATS_PAGE_H
#define STATS_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <nccl_net/stats.h>

struct page {
	struct anynet_stats_process process;
	struct anynet_stats_comm *comms;    /* freed by page_free */
	struct anynet_stats_events *events; /* of comms[i] at index i; NULL = not requested */
	size_t count;
	uint64_t read_ms; /* time of reading, CLOCK_MONOTONIC */
	uid_t uid;        /* owner of the file */
	dev_t dev;
	ino_t ino;
	bool ended; /* the process has ended without closing its comms */
};

/* Which pages to read, and which parts. */
struct page_wish {
	uint32_t pid; /* only this process; 0 = all */
	bool events;
	bool ended; /* also pages of processes that have ended */
};

struct page_list {
	struct page *pages; /* sorted by pid */
	size_t count;
	size_t left_out; /* pages and comms beyond the limits */
};

/* Limits that remain while reading. */
struct page_bounds {
	size_t comms;
	unsigned pauses; /* waits for half-written records */
	size_t left_out; /* comms skipped for lack of room; output */
};

/* Reads a page with events from a file's bytes. Returns 0, or -EINVAL if they are not a page. */
int page_parse(struct page *page, const void *bytes, size_t count);

/* Reads the page `name` in `dir` if `wish` selects it and its owner is this user; root reads pages
 * of all users. */
bool page_read(struct page *page, int dir, const char *name, struct page_bounds *bounds,
	       const struct page_wish *wish);

/*
 * Returns the largest share of `all` such that the sum of min(wants[i], share) fits: nobody gets
 * less because another wants more.
 */
size_t page_share(const size_t *wants, size_t count, size_t all);

/* Reads all pages in `dir` that `wish` selects, of this user, or of all users for root. Returns 0,
 * or -errno if the directory cannot be read. */
int page_read_all(struct page_list *list, const char *dir, const struct page_wish *wish);

void page_free(struct page *page);
void page_free_all(struct page_list *list);

/* Milliseconds from since_ms to the time the page was read; 0 if since_ms is 0. */
uint64_t page_age(const struct page *page, uint64_t since_ms);

#endif

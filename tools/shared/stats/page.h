/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stats pages (nccl_net/stats.h) as a reader gets them. A page comes from another process, perhaps of
 * another user: what leaves this file has texts that end and are printable, and numbers that are in
 * their range.
 */
#ifndef STATS_PAGE_H
#define STATS_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <nccl_net/stats.h>

struct page {
	struct anynet_stats_process process;
	struct anynet_stats_comm *comms;    /* page_free gives them back */
	struct anynet_stats_events *events; /* of each of them; NULL = nobody wanted them */
	size_t count;
	uint64_t read_ms; /* CLOCK_MONOTONIC */
	uid_t uid;        /* whose file it is */
	bool ended;       /* its process is gone, without having closed its comms */
};

/* Which pages, and what of them. */
struct page_wish {
	uint32_t pid; /* of this process only; 0 = of all */
	bool events;
	bool ended; /* also of processes that are gone */
};

struct page_list {
	struct page *pages; /* by pid */
	size_t count;
	size_t left_out; /* pages and comms beyond the bounds */
};

/* What may still be read. */
struct page_bounds {
	size_t comms;
	unsigned pauses; /* for records that are half written */
	size_t left_out; /* comms that there was no room for; counted */
};

/* Check a record and make it printable. False: it is half written, or none. */
bool page_check_process(struct anynet_stats_process *process);
bool page_check_comm(struct anynet_stats_comm *comm);
bool page_check_events(struct anynet_stats_events *events);

/* A page out of bytes that were read from its file, with events. 0, or -EINVAL: it is none. */
int page_parse(struct page *page, const void *bytes, size_t count);

/* One of them, if it is wished for and this user's, or anyone's for root. */
bool page_read(struct page *page, int dir, const char *name, struct page_bounds *bounds,
	       const struct page_wish *wish);

/*
 * The most that each of those who want `wants` may get of `all`, so that none gets less because another
 * wants more.
 */
size_t page_share(const size_t *wants, size_t count, size_t all);

/* All pages in `dir` that are wished for, of this user, or of all users for root. 0, or -errno: the
 * directory cannot be read. */
int page_read_all(struct page_list *list, const char *dir, const struct page_wish *wish);

void page_free(struct page *page);
void page_free_all(struct page_list *list);

uint64_t page_clock_ms(void);

/* Age of what began then, by the time at which the page was read; 0 = never. */
uint64_t page_age(const struct page *page, uint64_t since_ms);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data that `anynet top` shows: pages read twice, and sorted. Trouble comes first: jobs,
 * processes of a job, connections of a process.
 */
#ifndef STATS_VIEW_H
#define STATS_VIEW_H

#include "page.h"

/* In ascending order of severity. */
enum trouble {
	TROUBLE_NONE,
	TROUBLE_FLAPS,  /* connections broke and recovered; no trouble now */
	TROUBLE_PATH,   /* a stream is down or suspect; others carry the data */
	TROUBLE_STALL,  /* requests wait and nothing moves */
	TROUBLE_CUT,    /* all streams are down */
	TROUBLE_SILENT, /* the process no longer updates its page: stopped, or without CPU time */
	TROUBLE_ERROR,  /* the connection has failed */
};

struct connection {
	const struct anynet_stats_comm *comm;
	enum trouble trouble;
	double rate; /* payload bytes per s between the two reads; -1 = unknown */
	double stream_rates[ANYNET_STATS_STREAMS]; /* of a sender; -1 = unknown */
	uint64_t oldest_ms, stalled_ms;            /* ages; 0 = none */
};

struct process {
	const struct page *page;
	enum trouble trouble, job_trouble; /* its own worst, and the worst of its job */
	struct connection *connections;
	size_t count;
	double sent, received; /* bytes per s; -1 = unknown */
	uint64_t silent_ms;    /* time since the last update of its page, if too long; else 0 */
};

/* A process that waits for a peer. */
struct wait {
	const struct process *process, *peer; /* peer: NULL = no page on this host */
	const struct anynet_stats_comm *comm; /* the connection that has waited longest */
	uint64_t ms;                          /* how long `comm` has waited */
	unsigned connections;                 /* number of connections to this peer that wait */
	bool peer_waits;                      /* the peer waits for another process as well */
};

struct view {
	struct process *processes;
	size_t count, connections;
	struct wait *waits; /* longest first */
	size_t wait_count;
	double sent, received;
	enum trouble trouble;
	uint64_t mark; /* its memory (memory.h) is what has been got since */
};

/* Makes a view of `now`, with rates since `before`, which may be empty. Both must outlive the view. */
void view_make(struct view *view, const struct page_list *before, const struct page_list *now);
/* Also releases all other memory of memory.h that has been got since view_make. */
void view_free(struct view *view);

/* Returns the comm `id` of the same process as that of `page` in another list; NULL = it is not there. */
const struct anynet_stats_comm *view_find(const struct page_list *list, const struct page *page,
					  uint64_t id);

/* One word for messages: "stalled". */
const char *view_trouble_name(enum trouble trouble);

#endif

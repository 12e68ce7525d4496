/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `anynet top` shows: stats pages read twice, put in order. What is wrong comes first: of jobs, of
 * processes in a job, of connections of a process.
 */
#ifndef STATS_VIEW_H
#define STATS_VIEW_H

#include "page.h"

/* From none to the worst. */
enum trouble {
	TROUBLE_NONE,
	TROUBLE_FLAPS,  /* connections have been replaced; all is well now */
	TROUBLE_PATH,   /* a stream has no connection, or its path is suspect; others carry on */
	TROUBLE_STALL,  /* requests wait and nothing moves */
	TROUBLE_CUT,    /* no stream has a connection */
	TROUBLE_SILENT, /* the process writes its page no more: it is stopped, or gets no time */
	TROUBLE_ERROR,  /* the connection has failed */
};

struct connection {
	const struct anynet_stats_comm *comm;
	enum trouble trouble;
	double rate; /* payload, bytes per s between the two looks; -1 = not known, so for streams */
	double stream_rates[ANYNET_STATS_STREAMS]; /* of a sender */
	uint64_t oldest_ms, stalled_ms;        /* ages; 0 = there is none */
};

struct process {
	const struct page *page;
	enum trouble trouble, job_trouble; /* its own worst, the worst in its job */
	struct connection *connections;
	size_t count;
	double sent, received; /* bytes per s; -1 = not known */
	uint64_t silent_ms;    /* since it wrote its page, if that is too long; else 0 */
};

/* A process that waits for another one. */
struct wait {
	const struct process *process, *peer; /* peer NULL: it has no page here */
	const struct anynet_stats_comm *comm; /* the connection that has waited longest … */
	uint64_t ms;                          /* … for so long */
	unsigned connections;                 /* to this peer that wait */
	bool peer_waits;                      /* for somebody, too */
};

struct view {
	struct process *processes;
	size_t count, connections;
	struct wait *waits; /* longest first */
	size_t wait_count;
	double sent, received;
	enum trouble trouble;
};

/* `before` may be empty; both must outlive the view. 0 or -ENOMEM. */
int view_make(struct view *view, const struct page_list *before, const struct page_list *now);
void view_free(struct view *view);

/* A word for it: "stalled". */
const char *view_trouble_name(enum trouble trouble);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group: rank processes of one host, forked before anything is loaded, that share one piece of
 * memory. `anynet perf` and bench/ run on it. When a member fails, or stands still, all the others
 * end as well and the parent says which one it was: a group never hangs.
 */
#ifndef TOOLS_GROUP_H
#define TOOLS_GROUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GROUP_MAX 64

struct group_shared; /* the group's own part of the shared memory */

struct group {
	const char *who; /* program name that starts every message */
	int size;
	int rank;             /* -1 in the parent */
	uint64_t deadline_ns; /* how long a member may wait without progress */
	bool yields;          /* give the core away when idle, as NCCL's proxy thread does */

	void *area; /* zeroed memory all members and the parent see; the caller's to lay out */
	struct group_shared *shared;
	size_t map_bytes;

	/* Progress watch of this member. */
	bool fed;
	unsigned idle_passes;
	uint64_t last_fed_ns;
};

/* Exit codes of members and of group_run, the tool's as well. */
enum {
	GROUP_OK = 0,
	GROUP_ERROR = 1,
	GROUP_WRONG = 2
};

/* Sets up *g and its area of `area_bytes`. 0 or -errno. */
int group_create(struct group *g, const char *who, int size, size_t area_bytes);
void group_destroy(struct group *g);

/* Forks the members; each calls body(g, arg), whose value is its exit code. Returns the worst. */
int group_run(struct group *g, int (*body)(struct group *g, void *arg), void *arg);

/* All members meet. 0, or -ECANCELED / -ETIMEDOUT after saying why. */
int group_barrier(struct group *g);

/*
 * Every wait of a member is a loop of passes: group_fed when a pass got something done, group_idle
 * when it did not. group_idle returns 0, -ECANCELED when another member has failed (said by that
 * member), or -ETIMEDOUT, once, after saying so.
 */
int group_idle(struct group *g);

static inline void group_fed(struct group *g)
{
	g->fed = true;
}

/* "who: rank 3: text" on stderr. */
void group_say(const struct group *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "who: text", only the first time that any member calls it: for what all of them run into. */
void group_say_once(const struct group *g, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

uint64_t now_ns(void); /* CLOCK_MONOTONIC */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group of rank processes on one host, forked before any library is loaded, that share one memory
 * area. `anynet perf` and bench/ use it. When a member fails or hangs, the others end as well and
 * the parent names it, so that a group never hangs.
 */
#ifndef TOOLS_GROUP_H
#define TOOLS_GROUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/shared/now.h"

#define GROUP_MAX 64

struct group_shared; /* internal part of the shared memory */

struct group {
	const char *who;      /* program name, printed before every message */
	int size;             /* ranks of the job; more than `here` if others run on other hosts */
	int first, here;      /* the members on this host are ranks first, first + 1, … */
	int rank;             /* of this member; -1 in the parent */
	uint64_t deadline_ns; /* maximum time a member may wait without progress */
	bool yields;          /* yield the core when idle, as NCCL's proxy thread does */

	void *area; /* zeroed memory shared by all members and the parent; the caller defines its layout */
	struct group_shared *shared;
	size_t map_bytes;

	/* In a process that has no others (`shared` is NULL): takes messages; NULL = they are printed. */
	void (*say)(struct group *g, const char *text);

	/* Progress watch of this member, for group_idle. */
	bool fed;
	unsigned idle_passes;
	uint64_t last_fed_ns;
};

/* Exit codes of members and group_run. */
enum {
	GROUP_OK = 0,
	GROUP_ERROR = 1,
	GROUP_WRONG = 2
};

/* Initialises *g, a job of `size` members, and its area of `area_bytes`. Returns 0 or -errno. */
int group_create(struct group *g, const char *who, int size, size_t area_bytes);
void group_destroy(struct group *g);

/* Forks the members. Each calls body(g, arg) and exits with its result. Returns the worst exit code. */
int group_run(struct group *g, int (*body)(struct group *g, void *arg), void *arg);

/* Returns the worse of two exit codes. GROUP_ERROR outranks GROUP_WRONG: after an error the run has proved nothing. */
int group_worse(int a, int b);

/* Waits until all members on this host have called it. Returns 0, or the error of group_idle. */
int group_barrier(struct group *g);

/*
 * Every wait of a member is a loop: it calls group_fed after a pass that made progress, else
 * group_idle. group_idle returns 0, -ECANCELED if another member failed (that member prints the
 * reason), or -ETIMEDOUT after printing a message; without one if there is `say`.
 */
int group_idle(struct group *g);

static inline void group_fed(struct group *g)
{
	g->fed = true;
}

/* Prints "who: rank 3: text" on stderr. */
void group_say(struct group *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Prints "who: text" on stderr, only at the first call by any member: for errors that all members meet. */
void group_say_once(struct group *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif

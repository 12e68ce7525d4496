/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of live_judge.c: the paths and ranks of running jobs over several looks. A look collects the facts of
 * all hosts once.
 */
#ifndef CLUSTER_LIVE_WINDOW_H
#define CLUSTER_LIVE_WINDOW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "live_judge.h"

#define NAME   64
#define WINDOW 6 /* looks over which packets and processor times are summed */

enum fault {
	PATH_DOWN,
	PATH_LOSES,
	PATH_SLOW,
	FAULTS
};

struct speed { /* of a path */
	double acked, busy_us, rtt_us;
};

/* A path between two hosts, as one end reports it. */
struct end {
	char host[NAME], other[NAME], device[NAME], address[NAME];
	size_t pair;              /* its index in `pairs` in this look */
	bool seen;                /* reported in this look */
	unsigned down, up, broke; /* connections in this look */
	unsigned known;           /* looks that have reported it */
	unsigned missing;         /* consecutive looks without a connection */
	unsigned up_of[WINDOW];   /* `up` of each look in the window */
	unsigned had, away;       /* connections before a break; looks left for their return */
	double evidence[FAULTS];  /* CUSUM, 0 to 2 */
	double all;               /* sum of `evidence`; the path is bad from 1 on */
	double gained;            /* growth of `all` since it last did not grow */
	unsigned grew;            /* looks in which `all` grew */
	bool bad;
	enum fault worst; /* the fault with the most evidence */
	/* Packets of each look in the window, and their sums. */
	unsigned packets_of[WINDOW], resent_of[WINDOW], packets, resent;
	struct speed now, window, speed_of[WINDOW]; /* of this look; sums, and looks of the window */
	double rate; /* bytes acknowledged per second in flight, in the last look with enough data */
};

/* All paths of the same two hosts, as one of them reports them in this look. */
struct pair {
	bool seen;    /* some are reported */
	bool carries; /* some carry data */
};

struct rank {
	char host[NAME], rank[16];
	long long pid, silent_ms;
	long long ran_of[WINDOW], waited_of[WINDOW]; /* ms on a processor; ms runnable without one */
	unsigned looks;                              /* looks in the window that have data */
	double cpu;                                  /* ran / (ran + waited); -1 = not known */
	unsigned starved;                            /* consecutive looks */
	bool seen, wants_cpu; /* reported in this look; was runnable in it, so it is not stopped */
};

struct live {
	struct end *ends;
	struct rank *ranks;
	size_t end_count, rank_count;
	struct pair *pairs;
	json_t *end_index, *rank_index;
	json_t *names;   /* index: the processes of this look, and which of its hosts reports them */
	json_t *awaited; /* index: processes of the last look for which others wait, and which wait for none */
	unsigned look;
};

/* Adds the facts of all hosts, and decides which paths are bad and which ranks are starved. */
void live_look(struct live *live, const json_t *hosts);

/* Returns the name of that one of the hosts of this look that reports the process `pid` of `host`, or `host` if none
 * does. */
const char *live_name(const struct live *live, const json_t *hosts, const char *host,
		      long long pid);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of the paths and ranks of running jobs, look after look; the state of live_judge.c. */
#ifndef CLUSTER_LIVE_WINDOW_H
#define CLUSTER_LIVE_WINDOW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "live_judge.h"

#define ENDS_MAX 2048 /* paths, as one end sees each */
#define NAME     64
#define WINDOW   6 /* looks that count for figures, and for the share of a processor */

enum fault {
	PATH_DOWN,
	PATH_LOSES,
	PATH_SLOW,
	FAULTS
};

/* A path between two hosts, from one end. */
struct end {
	char host[NAME], other[NAME], device[NAME], address[NAME];
	bool seen, gone;
	unsigned down, up, broke; /* connections */
	unsigned missing;         /* looks in a row without a connection */
	double evidence[FAULTS];  /* sums over the looks; 1 is enough */
	double all;               /* of it together */
	double gained;            /* of that in the last looks, if it grew in each */
	unsigned grew;            /* looks in which it grew */
	bool bad;
	enum fault worst;
	/* Of the last looks; their sums; of this look. */
	unsigned packets_of[WINDOW], resent_of[WINDOW], packets, resent;
	double acked, busy_us, rtt_us;
	double rate; /* bytes acknowledged per s with data in flight, in the last look with enough of it */
};

struct rank {
	char host[NAME], rank[16];
	long long pid, silent_ms;
	long long ran_of[WINDOW], waited_of[WINDOW]; /* ms of processor time; waited for a processor */
	unsigned looks;                              /* of the window that are known */
	double cpu;                                  /* the share that it gets of what it wants; -1 = not known */
	unsigned starved;                            /* looks in a row */
	bool seen, wants_cpu;                        /* in the last look it waited for a processor: it is not stopped */
};

struct live {
	struct end ends[ENDS_MAX];
	struct rank ranks[ENDS_MAX];
	size_t end_count, rank_count;
	unsigned look;
};

/* Takes in what all hosts report, and decides which paths and ranks are odd. */
void live_look(struct live *live, const json_t *hosts);

/* The name of the host on which that process is. */
const char *live_name(const json_t *hosts, const char *host, long long pid);

#endif

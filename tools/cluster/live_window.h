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
#define WINDOW   6 /* looks that count for rates and losses */

enum fault {
	PATH_DOWN,
	PATH_LOSES,
	PATH_SLOW,
	FAULTS
};

/* A path between two hosts, from one end. */
struct end {
	char host[NAME], other[NAME], device[NAME], address[NAME];
	unsigned looks[FAULTS]; /* in a row */
	bool now[FAULTS], seen, gone;
	unsigned down, up, missing; /* connections, and looks in a row without any */
	/* Of the last looks, and together: the sum, the best. */
	unsigned packets_of[WINDOW], resent_of[WINDOW], packets, resent;
	double rates[WINDOW], rate, rtts[WINDOW], rtt;
};

struct rank {
	char host[NAME], rank[16];
	long long pid, silent_ms;
	double cpu;
	unsigned starved; /* looks in a row */
	bool seen;
};

struct live {
	struct end ends[ENDS_MAX];
	struct rank ranks[ENDS_MAX];
	size_t end_count, rank_count;
	unsigned look;
};

/* Takes in what all hosts tell, and counts for how many looks in a row what is odd. */
void live_look(struct live *live, const json_t *hosts);

/* The name of the host on which that process is. */
const char *live_name(const json_t *hosts, const char *host, long long pid);

#endif

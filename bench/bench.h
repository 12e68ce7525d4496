/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The benchmark of nets. A figure (latency, bandwidth …) is measured for every net in turn, round by
 * round, by fresh processes: two ends, each on its own core, alike for all nets. What is printed is
 * the median over the rounds and the ratio to the first net; the CSV has every round.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "group.h"
#include "net_link.h"
#include "share.h"

#define BENCH_NETS_MAX    4
#define BENCH_LIST_MAX    32  /* sizes or numbers of comms on the command line */
#define BENCH_CASES_MAX   256 /* rows of a figure */
#define BENCH_METRICS_MAX 7
#define BENCH_COMMS_MAX   16384
#define BENCH_ROUNDS_MAX  101

/* "VAR=VALUE … spec": the environment is set in the processes of this net only. */
struct bench_net {
	const char *text; /* as given */
	const char *spec; /* the last word */
};

struct bench_options {
	struct bench_net nets[BENCH_NETS_MAX];
	int net_count;
	int abi;
	int devs[2];          /* of the ends */
	const char *ifname;   /* NCCL_SOCKET_IFNAME of every process; "" = as it is */
	int cpus[2];          /* -1 = not pinned */
	const char *netns[2]; /* of the ends, under /run/netns; NULL = here */
	int rounds;
	bool quick;
	int window_ms; /* of bandwidth figures */
	long sizes[BENCH_LIST_MAX], comms[BENCH_LIST_MAX];
	int size_count, comms_count; /* 0 = the figure's own */
	int ways;                    /* 1, 2 or 0 = both */
	FILE *csv;
};

/* One row: what is measured. */
struct bench_case {
	size_t bytes;
	int comms;
	int ways; /* 1: end 0 sends; 2: both send */
};

/* Shared by the ends and the parent; zero at the start of every pair. */
struct bench_area {
	char label[200]; /* of the net, from end 0 */
	double values[BENCH_METRICS_MAX];
	struct link_slot slots[2][BENCH_COMMS_MAX]; /* [receiving end][comm] */

	_Atomic uint64_t totals[2][BENCH_COMMS_MAX]; /* [sending end][comm], 0 = not yet */
	_Atomic int windows_done;                    /* ends that have measured */
	double side[2][BENCH_METRICS_MAX];           /* what each end found */

	/* Unauthenticated connections. */
	_Atomic int stage, ports_count;
	_Atomic uint64_t begin_ns;
	uint16_t ports[BENCH_LIST_MAX];
};

/* One end, in its own process, with its net open. */
struct bench_end {
	struct group *group;
	struct endpoint ep;
	struct bench_area *area;
	const struct bench_options *opts;
};

struct bench_figure {
	const char *name;
	const char *title;
	const char *metrics[BENCH_METRICS_MAX]; /* names with unit; the first ones get a ratio */
	int ratios;
	int members;    /* processes: the two ends, and a third one without a net */
	int rounds_max; /* 0 = as many as asked for */
	bool has_size, has_comms, has_ways; /* columns */
	int (*cases)(const struct bench_options *opts, struct bench_case *cases);
	/* In every member. End 0 fills in area->values. GROUP_OK or GROUP_ERROR. */
	int (*run)(struct bench_end *end, const struct bench_case *c);
};

extern const struct bench_figure bench_lat, bench_bw, bench_rate, bench_connect, bench_unauthenticated;

/* Measures and prints a figure. GROUP_OK, or GROUP_ERROR when a net failed. */
int bench_run(const struct bench_figure *figure, const struct bench_options *opts);

/* Measures one case with one net by fresh processes. The area is the caller's to read until
 * group_destroy(g). */
int pair_run(struct group *g, const struct bench_figure *figure, const struct bench_options *opts,
	     const struct bench_net *net, const struct bench_case *c);

/* Fills links[0 … ] for the case, in area order: `comms` sends, then `comms` receives, as far as
 * this end has them. Returns how many; *sends says how many of them send. */
int end_links(struct bench_end *end, const struct bench_case *c, struct link *links, int *sends);

/* Buffers start on lines of their own. */
static inline size_t round_up_slot(size_t bytes)
{
	return (bytes + 127) / 128 * 128;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Benchmark of nets. A figure (latency, bandwidth …) is measured for each net in turn, round by
 * round, by new processes: two ends, each on its own core, in the same way for all nets. The output
 * shows the median over the rounds and the ratio to the first net; the CSV contains every round.
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
#define BENCH_LIST_MAX    32  /* maximum sizes or numbers of comms on the command line */
#define BENCH_CASES_MAX   256 /* maximum rows of a figure */
#define BENCH_METRICS_MAX 7
#define BENCH_COMMS_MAX   16384
#define BENCH_ROUNDS_MAX  101

/* "VAR=VALUE … spec": the variables are set in the processes of this net only. */
struct bench_net {
	const char *text; /* as on the command line */
	const char *spec; /* last word of text */
};

struct bench_options {
	struct bench_net nets[BENCH_NETS_MAX];
	int net_count;
	int abi;
	int devs[2];          /* of the ends */
	const char *ifname;   /* NCCL_SOCKET_IFNAME of all processes; "" = unchanged */
	int cpus[2];          /* -1 = not pinned */
	const char *netns[2]; /* of the ends, under /run/netns; NULL = the current one */
	int rounds;
	bool quick;
	int window_ms; /* duration of bandwidth measurements */
	long sizes[BENCH_LIST_MAX], comms[BENCH_LIST_MAX];
	int size_count, comms_count; /* 0 = defaults of the figure */
	int ways;                    /* 1, 2 or 0 = both */
	FILE *csv;
};

/* A row: one set of parameters. */
struct bench_case {
	size_t bytes;
	int comms;
	int ways; /* 1 = end 0 sends; 2 = both send */
};

/* Shared by the ends and the parent; zero at the start of every measurement. */
struct bench_area {
	char label[200]; /* description of the net, written by end 0 */
	double values[BENCH_METRICS_MAX];
	struct link_slot slots[2][BENCH_COMMS_MAX]; /* [receiving end][comm] */

	_Atomic uint64_t totals[2][BENCH_COMMS_MAX]; /* [sending end][comm]: messages; 0 = unknown */
	_Atomic int windows_done;                    /* number of ends that have finished measuring */
	double side[2][BENCH_METRICS_MAX];           /* results of each end */

	/* For the figure `unauthenticated`. */
	_Atomic int stage, ports_count;
	_Atomic uint64_t begin_ns;
	uint16_t ports[BENCH_LIST_MAX];
};

/* One end of a measurement, in its own process, with its net open. */
struct bench_end {
	struct group *group;
	struct endpoint ep;
	struct bench_area *area;
	const struct bench_options *opts;
};

struct bench_figure {
	const char *name;
	const char *title;
	const char *metrics[BENCH_METRICS_MAX]; /* names with unit; the first `ratios` of them have a ratio */
	int ratios;
	int members;    /* processes: the two ends, and optionally a third without a net; 0 = 2 */
	int rounds_max; /* 0 = no limit */
	bool has_size, has_comms, has_ways; /* columns to print */
	int (*cases)(const struct bench_options *opts, struct bench_case *cases);
	/* Runs in every member. End 0 fills in area->values. Returns GROUP_OK or GROUP_ERROR. */
	int (*run)(struct bench_end *end, const struct bench_case *c);
};

extern const struct bench_figure bench_lat, bench_bw, bench_rate, bench_connect, bench_unauthenticated;

/* Measures and prints a figure. Returns GROUP_OK, or GROUP_ERROR if a net failed. */
int bench_run(const struct bench_figure *figure, const struct bench_options *opts);

/* Measures one case with one net in new processes. The caller may read the area until group_destroy(g). */
int pair_run(struct group *g, const struct bench_figure *figure, const struct bench_options *opts,
	     const struct bench_net *net, const struct bench_case *c);

/* Fills links[] for the case in area order: first the sends of this end, then its receives, `comms`
 * each. Returns their number, and the number of sends in *sends. */
int end_links(struct bench_end *end, const struct bench_case *c, struct link *links, int *sends);

/* Aligns buffers to cache-line pairs. */
static inline size_t round_up_slot(size_t bytes)
{
	return (bytes + 127) / 128 * 128;
}

#endif

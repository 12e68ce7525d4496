/* SPDX-License-Identifier: Apache-2.0 */
/*
 * anynet perf, internal: a rank, its options, and the communication patterns. Data consists of
 * 4-byte elements with small integer values, so that sums are exact in any order and type.
 */
#ifndef TOOLS_PERF_H
#define TOOLS_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/hosts/join.h"
#include "tools/shared/net/group.h"
#include "tools/shared/net/net_link.h"

#define PERF_RANKS_MAX    256 /* on all hosts */
#define PERF_CHANNELS_MAX 32
#define PERF_ELEMENT      4
#define PERF_RING_STEP    (512 * 1024) /* NCCL's 4 MiB buffer in 8 steps */
#define PERF_P2P_STEP     (128 * 1024) /* NCCL's p2p chunk over a network */

struct perf_pattern;

enum perf_type {
	PERF_FLOAT,
	PERF_INT32
};
enum perf_format {
	PERF_TABLE,
	PERF_JSON,
	PERF_CSV
};

struct perf_options {
	const struct perf_pattern *pattern;
	const char *spec; /* of the net; see driver.h */
	int abi, dev;
	int here;  /* ranks on each host */
	int ranks; /* on all hosts */
	int channels;
	size_t min_bytes, max_bytes, step_bytes; /* step_bytes 0 = multiply by `factor` */
	int factor;
	int iterations, warmups;
	int check; /* 0 = results are not checked */
	enum perf_type type;
	enum perf_format format;
	int deadline_s;
};

/* One line of output. */
struct perf_row {
	size_t bytes, count;
	double time_us, algbw, busbw;
	uint64_t wrong;
};

struct perf_place { /* of a rank */
	int pid, speed_mbps;
	char host[HOST_NAME], device[64];
};

/* What is printed. */
struct perf_report {
	char net[64], path[512]; /* the plugin of rank 0, and its file */
	int abi;
	struct perf_place places[PERF_RANKS_MAX];
	double time_us[PERF_RANKS_MAX];
	uint64_t wrong[PERF_RANKS_MAX];
};

/* Memory shared by the ranks of a host. */
struct perf_area {
	struct link_slot slots[PERF_RANKS_MAX][PERF_RANKS_MAX]; /* [receiver][channel or sender] */
	struct perf_report report;
};

struct perf_ring;
struct perf_stream;

struct perf_rank {
	struct group *group;
	const struct perf_options *opts;
	struct perf_area *area;
	int conductor; /* socket to it, for the first rank of a host; -1 = all ranks are on this host */
	struct endpoint ep;

	struct link *links;
	int link_count;
	struct perf_ring *rings;     /* patterns with sums: one for each channel */
	struct perf_stream *streams; /* point-to-point patterns: one for each link */

	void *input, *output; /* size of count(max_bytes) elements each */
};

struct perf_pattern {
	const char *name, *title, *redop;
	bool has_channels; /* --channels counts its rings */
	bool is_of_two;    /* the number of ranks has to be a power of two */
	size_t link_step_bytes;
	/* Returns the number of elements for a size of `bytes`. */
	size_t (*count)(const struct perf_options *opts, size_t bytes);
	/* Fills r->links as links_connect requires, and the pattern's part of *r. Returns 0 or
	 * -GROUP_ERROR. */
	int (*open)(struct perf_rank *r);
	/* Runs one operation over `count` elements, from input to output. Returns 0 or -GROUP_ERROR. */
	int (*run)(struct perf_rank *r, size_t count);
	/* Returns the correct value of this rank's output[i]. */
	uint32_t (*expected)(const struct perf_rank *r, size_t count, size_t i, uint32_t seed);
	/* Returns the number of output elements to check on this rank; NULL = all. */
	size_t (*checked)(const struct perf_rank *r, size_t count);
	double (*bus_factor)(int ranks); /* busbw / algbw, as in nccl-tests */
};

extern const struct perf_pattern perf_allgather, perf_allreduce, perf_alltoall, perf_broadcast,
	perf_gather, perf_hypercube, perf_reduce, perf_reduce_scatter, perf_scatter, perf_sendrecv;

/* perf_data.c: for patterns that divide the data into one part per rank, and for those in which each rank has all. */
size_t perf_parts_count(const struct perf_options *opts, size_t bytes);
double perf_parts_bus_factor(int ranks);
size_t perf_whole_count(const struct perf_options *opts, size_t bytes);
double perf_whole_bus_factor(int ranks);

/* Each rank's part, in the order of the ranks: what a gather leaves. */
uint32_t perf_gathered(const struct perf_rank *r, size_t count, size_t i, uint32_t seed);

/* Value of input[i] on a rank: 0 … 255, different at any distance by which an error could shift data. */
static inline uint32_t perf_value(int rank, size_t i, uint32_t seed)
{
	return (((uint32_t)i + (uint32_t)rank * 7919 + seed * 104729) * 2654435761u) >> 24;
}

#define PERF_DONE 2

/* perf_drive.c: calls step() for each of `count` parts in turn until all return PERF_DONE. A step
 * returns 1 = progress, 0 = none, or -GROUP_ERROR. Returns 0 or -GROUP_ERROR. */
int perf_drive(struct perf_rank *r, int count, int (*step)(struct perf_rank *r, int part));

/* perf_data.c */
void perf_fill(struct perf_rank *r, size_t count, uint32_t seed);
uint64_t perf_check(struct perf_rank *r, size_t count, uint32_t seed);
/* out[i] = a[i] + b[i] */
void perf_sum(enum perf_type type, void *out, const void *a, const void *b, size_t count);

/* perf.c: runs ranks first, first + 1, … of this host. `conductor`: as in perf_rank. Returns a GROUP_ code. */
int perf_run(const struct perf_options *o, int first, int conductor);
/* The sizes from line to line. */
size_t perf_next_size(const struct perf_options *o, size_t bytes);
/* The line for `count` elements, after all ranks have reported. */
struct perf_row perf_row(const struct perf_options *o, const struct perf_report *report,
			 size_t count);

/* perf_print.c: for rank 0, or for the conductor. */
void perf_print_head(const struct perf_options *o, const struct perf_report *report);
void perf_print_row(const struct perf_options *o, const struct perf_row *row);
void perf_print_end(const struct perf_options *o, const struct perf_report *report);

#endif

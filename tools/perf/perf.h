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
	int coordinator; /* socket to it, for the first rank of a host; -1 = all ranks are on this host */
	struct endpoint ep;

	struct link *links;
	int link_count;
	struct perf_ring *rings;     /* patterns with sums: one for each channel */
	struct perf_stream *streams; /* point-to-point patterns: one for each link */

	void *input, *output; /* size of count(max_bytes) elements each */
};

struct perf_pattern {
	const char *name, *title;
	bool has_sums; /* on rings (perf_ring.c), whose number is --channels; else on streams (perf_stream.h) */
	bool has_parts; /* the data has a part for each rank; else each rank has all of it */
	bool is_of_two; /* the number of ranks has to be a power of two */
	int bus_factor; /* busbw is algbw times this times (n - 1) / n, as in nccl-tests; 0 = the same as algbw */
	/* Streams: which part of the input goes to a peer, and where in the output what comes from it is put. */
	bool sends_parts; /* the peer's part; else the beginning of the input */
	bool keeps_parts; /* at the place of the peer's part; else at the beginning */
	enum perf_shape {
		PERF_TO_ALL,
		PERF_TO_ROOT,
		PERF_FROM_ROOT,
		PERF_TO_NEXT,
	} shape;
	enum perf_result { /* what a rank has afterwards */
		PERF_ALL,
		PERF_AT_ROOT, /* all at the root, nothing elsewhere */
		PERF_PART,    /* the rank's part */
	} result;
	/* Fills r->links as links_connect requires, and the pattern's part of *r. */
	void (*open)(struct perf_rank *r);
	/* Runs one operation over `count` elements, from input to output. Returns 0 or -GROUP_ERROR. */
	int (*run)(struct perf_rank *r, size_t count);
	/* Returns element i of the correct result, of which this rank's part may be its result; `part`: elements of a
	 * part. Slow if the pattern has sums. */
	uint32_t (*expected)(const struct perf_rank *r, size_t part, size_t i, uint32_t seed);
};

#define PERF_ROOT 0

/* Returns the pattern of that name, or NULL. */
const struct perf_pattern *perf_pattern_of(const char *name);

/* perf_ring.c: `open` and `run` of patterns with sums. */
void perf_ring_open(struct perf_rank *r);
int perf_ring_run(struct perf_rank *r, size_t count);

#define PERF_STRIDE 7919 /* a rank's input i is the next rank's input i - PERF_STRIDE */

/* Value of input[i] on a rank: 0 … 255, different at any distance by which an error could shift data. */
static inline uint32_t perf_value(int rank, size_t i, uint32_t seed)
{
	return (((uint32_t)i + (uint32_t)rank * PERF_STRIDE + seed * 104729) * 2654435761u) >> 24;
}

#define PERF_DONE 2

/* perf_data.c */
/* Returns the number of elements for a size of `bytes`: at least one, or one for each rank. */
size_t perf_count(const struct perf_options *o, size_t bytes);
void perf_fill(struct perf_rank *r, size_t count, uint32_t seed);
uint64_t perf_check(struct perf_rank *r, size_t count, uint32_t seed);
/* out[i] = a[i] + b[i] */
void perf_sum(enum perf_type type, void *out, const void *a, const void *b, size_t count);

/* perf.c: runs ranks first, first + 1, … of this host. `coordinator`: as in perf_rank. Returns a GROUP_ code. */
int perf_run(const struct perf_options *o, int first, int coordinator);
/* Calls step() for each of `count` parts in turn until all return PERF_DONE. A step
 * returns 1 = progress, 0 = none, or -GROUP_ERROR. Returns 0 or -GROUP_ERROR. */
int perf_drive(struct perf_rank *r, int count, int (*step)(struct perf_rank *r, int part));
/* The sizes from line to line. */
size_t perf_next_size(const struct perf_options *o, size_t bytes);
/* The line for `count` elements, after all ranks have reported. */
struct perf_row perf_row(const struct perf_options *o, const struct perf_report *report,
			 size_t count);

/* perf_print.c: for rank 0, or for the coordinator. */
void perf_print_head(const struct perf_options *o, const struct perf_report *report);
void perf_print_row(const struct perf_options *o, const struct perf_row *row);
void perf_print_end(const struct perf_options *o, const struct perf_report *report);

#endif

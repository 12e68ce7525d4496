/* SPDX-License-Identifier: Apache-2.0 */
/*
 * anynet perf, inside: a rank, its options, and the patterns it can run. Data is made of 4-byte
 * elements whose values are small integers, so that a sum is exact in any order and type.
 */
#ifndef TOOLS_PERF_H
#define TOOLS_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/shared/net/group.h"
#include "tools/shared/net/net_link.h"

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
	const char *spec; /* of the net, driver.h */
	int abi, dev;
	int ranks, channels;
	size_t min_bytes, max_bytes, step_bytes; /* step_bytes 0: by factor */
	int factor;
	int iterations, warmups;
	bool check;
	enum perf_type type;
	enum perf_format format;
	int deadline_s;
};

/* One printed line. */
struct perf_row {
	size_t bytes, count;
	double time_us, algbw, busbw;
	uint64_t wrong;
};

/* What the ranks share. */
struct perf_area {
	struct link_slot slots[GROUP_MAX][GROUP_MAX]; /* [receiver][channel or sender] */
	double time_us[GROUP_MAX];
	uint64_t wrong[GROUP_MAX];
	int pid[GROUP_MAX];
};

struct perf_ring;
struct perf_stream;

struct perf_rank {
	struct group *group;
	const struct perf_options *opts;
	struct perf_area *area;
	struct endpoint ep;

	struct link *links;
	int link_count;
	struct perf_ring *rings;     /* patterns with sums: one per channel */
	struct perf_stream *streams; /* p2p patterns: one per link */

	void *input, *output; /* opts->max_bytes each, or a little more */
};

struct perf_pattern {
	const char *name, *title, *redop;
	size_t link_step_bytes;
	/* Elements that are moved when `bytes` are asked for. */
	size_t (*count)(const struct perf_options *opts, size_t bytes);
	/* Fill in r->links, as links_connect wants them, and the pattern's own part of *r. 0 or
	 * -GROUP_ERROR. */
	int (*open)(struct perf_rank *r);
	/* One operation over `count` elements, input to output. 0 or -GROUP_ERROR. */
	int (*run)(struct perf_rank *r, size_t count);
	/* What must be in this rank's output[i]. */
	uint32_t (*expected)(const struct perf_rank *r, size_t count, size_t i, uint32_t seed);
	/* How many elements of this rank's output there are to be checked; NULL = all. */
	size_t (*checked)(const struct perf_rank *r, size_t count);
	double (*bus_factor)(int ranks); /* busbw / algbw, as in nccl-tests */
};

extern const struct perf_pattern perf_allgather, perf_allreduce, perf_alltoall, perf_broadcast,
	perf_gather, perf_reduce, perf_reduce_scatter, perf_scatter, perf_sendrecv;

/* Of patterns that cut the data into a part for each rank. */
size_t perf_parts_count(const struct perf_options *opts, size_t bytes);
double perf_parts_bus_factor(int ranks);

/* What rank `rank` has in input[i]: 0 … 255, different at every distance that an error could shift
 * data by. */
static inline uint32_t perf_value(int rank, size_t i, uint32_t seed)
{
	return (((uint32_t)i + (uint32_t)rank * 7919 + seed * 104729) * 2654435761u) >> 24;
}

#define PERF_DONE 2

/* perf_drive.c: gives each of `count` parts one step after another until all return PERF_DONE; a step returns 1 if it moved
 * something, 0 if not, or -GROUP_ERROR. 0 or -GROUP_ERROR. */
int perf_drive(struct perf_rank *r, int count, int (*step)(struct perf_rank *r, int part));

/* perf_data.c */
void perf_fill(struct perf_rank *r, size_t count, uint32_t seed);
uint64_t perf_check(struct perf_rank *r, size_t count, uint32_t seed);
/* out[i] = a[i] + b[i] */
void perf_sum(enum perf_type type, void *out, const void *a, const void *b, size_t count);

/* perf_print.c: called in rank 0 only. */
void perf_print_head(const struct perf_rank *r);
void perf_print_row(const struct perf_rank *r, const struct perf_row *row);
void perf_print_end(const struct perf_rank *r);

#endif

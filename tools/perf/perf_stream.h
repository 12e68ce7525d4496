/* SPDX-License-Identifier: Apache-2.0 */
/* anynet perf: a stream carries the data of one rank for another over a link, in steps. */
#ifndef PERF_STREAM_H
#define PERF_STREAM_H

#include "perf.h"

struct perf_stream {
	struct link *link;
	bool relays;   /* sends from the output: what it has received */
	size_t offset; /* in input or output, in bytes; of the current run */
	size_t bytes;
	uint64_t first; /* link->posted and link->done at the start of the run */
};

/* Allocates links and streams to and from `peers` peers. */
void streams_allocate(struct perf_rank *r, int peers);
void stream_add(struct perf_rank *r, int peer, bool is_send);

/* Sets the data of this run: `bytes` from input, or into output, at `offset`. */
void stream_start(struct perf_stream *s, size_t offset, size_t bytes);
/* Runs all streams to completion. Returns 0 or -GROUP_ERROR. */
int streams_run(struct perf_rank *r);

/* `run` of a pattern that is described by its shape and the places of parts: what all streams carry at the same time, and
 * what a rank has for itself. */
int streams_exchange(struct perf_rank *r, size_t count);

#endif

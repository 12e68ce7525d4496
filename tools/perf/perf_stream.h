/* SPDX-License-Identifier: Apache-2.0 */
/* anynet perf: a stream carries one rank's data for another over a connection, step by step. */
#ifndef PERF_STREAM_H
#define PERF_STREAM_H

#include "perf.h"

struct perf_stream {
	struct link *link;
	size_t offset; /* in input or output, in bytes; of this run */
	size_t bytes;
	uint64_t first; /* link->posted and link->done when the run began */
	uint64_t steps; /* messages of this run: at least one, so that nothing is news, too */
};

/* Room for links and streams, to and from so many peers. 0 or -GROUP_ERROR. */
int streams_allocate(struct perf_rank *r, int peers);
void stream_add(struct perf_rank *r, int peer, bool is_send);

/* What this run is to carry: from input, or into output, at `offset`. */
void stream_start(struct perf_stream *s, size_t offset, size_t bytes);
/* Until all of them have. 0 or -GROUP_ERROR. */
int streams_run(struct perf_rank *r);

#endif

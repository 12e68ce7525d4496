/* SPDX-License-Identifier: Apache-2.0 */
/* How long messages took, how long each fault stalled them, and the time that a job lost by this. */
#ifndef TESTS_SIM_LATENCY_H
#define TESTS_SIM_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#define LATENCY_STEPS   8 /* buckets per doubling */
#define LATENCY_BUCKETS (36 * LATENCY_STEPS)

struct latencies {
	uint64_t count[LATENCY_BUCKETS];
	uint64_t most_ns;
};

/* Counted from when both sides had posted a message. */
struct latency_times {
	struct latencies all;
	struct latencies after;  /* of messages that arrived while no fault was active, from the end of the last one */
	struct latencies stalls; /* of each fault: the longest time from its beginning, or the posting, to a completion */
	uint64_t lost_ns;        /* by each block of messages: the time of its slowest one, summed */
};

void latency_add(struct latencies *latencies, uint64_t ns);
void latency_sum(struct latency_times *sum, const struct latency_times *more);
uint64_t latency_count(const struct latencies *latencies);

/* The time in ms within which this many of a thousand were over: the upper end of its bucket. */
double latency_quantile(const struct latencies *latencies, unsigned per_mille);

/* A fault begins: the stalls from now on are its own. */
void latency_fault(struct latency_times *times);

/* A message of this block that both sides had posted at since_ns is complete. */
void latency_message(struct latency_times *times, unsigned block, uint64_t since_ns);

/* The run ends. */
void latency_end(struct latency_times *times);

/* Prints the quantiles of messages or of stalls. */
void latency_print(const struct latencies *latencies);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* See latency.h. */
#include "sim/latency.h"
#include "sim/sched.h"

#include <stdio.h>

#define BLOCKS_MAX 4096 /* only the first ones count as lost time */

static struct {
	uint64_t began_ns, most_ns; /* of the latest fault; 0 = there was none */
	uint64_t blocks_ns[BLOCKS_MAX];
} current;

/* Bucket i ends at this many microseconds: doublings, in steps of equal length. */
static uint64_t end_us(unsigned bucket)
{
	uint64_t whole = UINT64_C(1) << bucket / LATENCY_STEPS;

	return whole + whole * (bucket % LATENCY_STEPS) / LATENCY_STEPS;
}

void latency_add(struct latencies *latencies, uint64_t ns)
{
	unsigned bucket = 0;

	while (ns > end_us(bucket) * SIM_US && bucket < LATENCY_BUCKETS - 1)
		bucket++;
	latencies->count[bucket]++;
	if (ns > latencies->most_ns)
		latencies->most_ns = ns;
}

static void add_all(struct latencies *sum, const struct latencies *more)
{
	for (int i = 0; i < LATENCY_BUCKETS; i++)
		sum->count[i] += more->count[i];
	if (more->most_ns > sum->most_ns)
		sum->most_ns = more->most_ns;
}

void latency_sum(struct latency_times *sum, const struct latency_times *more)
{
	add_all(&sum->all, &more->all);
	add_all(&sum->after, &more->after);
	add_all(&sum->stalls, &more->stalls);
	sum->lost_ns += more->lost_ns;
}

uint64_t latency_count(const struct latencies *latencies)
{
	uint64_t count = 0;

	for (int i = 0; i < LATENCY_BUCKETS; i++)
		count += latencies->count[i];
	return count;
}

double latency_quantile(const struct latencies *latencies, unsigned per_mille)
{
	uint64_t all = latency_count(latencies), seen = 0;
	unsigned i = 0;

	while (i < LATENCY_BUCKETS - 1 && (seen + latencies->count[i]) * 1000 < all * per_mille)
		seen += latencies->count[i++];
	return (double)end_us(i) / 1000;
}

void latency_fault(struct latency_times *times)
{
	latency_end(times);
	current.began_ns = sim_now;
	current.most_ns = 0;
}

void latency_message(struct latency_times *times, unsigned block, uint64_t since_ns)
{
	uint64_t ns = sim_now - since_ns, from_ns = since_ns > current.began_ns ? since_ns : current.began_ns;

	latency_add(&times->all, ns);
	if (sim_now - from_ns > current.most_ns)
		current.most_ns = sim_now - from_ns;
	if (block < BLOCKS_MAX && ns > current.blocks_ns[block]) {
		times->lost_ns += ns - current.blocks_ns[block];
		current.blocks_ns[block] = ns;
	}
}

void latency_end(struct latency_times *times)
{
	if (current.began_ns)
		latency_add(&times->stalls, current.most_ns);
	current.began_ns = 0;
}

void latency_print(const struct latencies *latencies)
{
	printf(" %9.3f %9.3f %9.3f %9.1f", latency_quantile(latencies, 500), latency_quantile(latencies, 990),
	       latency_quantile(latencies, 999), (double)latencies->most_ns / 1e6);
}

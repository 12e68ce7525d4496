/* SPDX-License-Identifier: Apache-2.0 */
/* anynet perf: generates, adds, counts and checks data. */
#include "perf.h"

#include <string.h>

#define POISON \
	0xa5 /* byte that fills the output before a checked run; no correct result has this pattern */

void perf_fill(struct perf_rank *r, size_t count, uint32_t seed)
{
	int rank = r->group->rank;
	int32_t *as_int = r->input;
	float *as_float = r->input;

	if (r->opts->type == PERF_INT32) {
		for (size_t i = 0; i < count; i++)
			as_int[i] = (int32_t)perf_value(rank, i, seed);
	} else {
		for (size_t i = 0; i < count; i++)
			as_float[i] = (float)perf_value(rank, i, seed);
	}
	memset(r->output, POISON, count * PERF_ELEMENT);
}

/* Number of the elements that this rank has afterwards. */
static size_t result_count(const struct perf_rank *r, size_t count)
{
	switch (r->opts->pattern->result) {
	case PERF_AT_ROOT:
		return r->group->rank == PERF_ROOT ? count : 0;
	case PERF_PART:
		return count / (size_t)r->group->size;
	default:
		return count;
	}
}

/* Returns the sum of all ranks' inputs i, from that of the inputs i - PERF_STRIDE: all terms but two are the same. */
static uint32_t next_sum(const struct perf_rank *r, uint32_t sum, size_t i, uint32_t seed)
{
	return sum - perf_value(0, i - PERF_STRIDE, seed) + perf_value(r->group->size - 1, i, seed);
}

uint64_t perf_check(struct perf_rank *r, size_t count, uint32_t seed)
{
	const int32_t *as_int = r->output;
	const float *as_float = r->output;
	const struct perf_pattern *pattern = r->opts->pattern;
	size_t checked = result_count(r, count), part = count / (size_t)r->group->size;
	size_t at = pattern->result == PERF_PART ? (size_t)r->group->rank * part : 0;
	static uint32_t recent[PERF_STRIDE]; /* the last correct elements */
	uint64_t wrong = 0;

	for (size_t i = 0; i < checked; i++) {
		uint32_t *sum = &recent[i % PERF_STRIDE];
		uint32_t want = pattern->has_sums && i >= PERF_STRIDE
					? next_sum(r, *sum, at + i, seed)
					: pattern->expected(r, part, at + i, seed);

		*sum = want;
		if (r->opts->type == PERF_INT32)
			wrong += as_int[i] != (int32_t)want;
		else
			wrong += as_float[i] != (float)want;
	}
	return wrong;
}

void perf_sum(enum perf_type type, void *out, const void *a, const void *b, size_t count)
{
	if (type == PERF_INT32) {
		const int32_t *x = a, *y = b;
		int32_t *sum = out;

		for (size_t i = 0; i < count; i++)
			sum[i] = x[i] + y[i];
	} else {
		const float *x = a, *y = b;
		float *sum = out;

		for (size_t i = 0; i < count; i++)
			sum[i] = x[i] + y[i];
	}
}

size_t perf_count(const struct perf_options *o, size_t bytes)
{
	size_t parts = o->pattern->has_parts ? (size_t)o->ranks : 1;
	size_t part = bytes / PERF_ELEMENT / parts;

	return (part ? part : 1) * parts;
}

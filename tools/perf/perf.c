/* SPDX-License-Identifier: Apache-2.0 */
/* anynet perf: the life of a rank, from opening the net to the last row. */
#include "perf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "perf_args.h"
#include "tools/shared/commands.h"

#define FAILED 2 /* exit status: an error, or wrong results */

static int open_links(struct perf_rank *r)
{
	if (r->opts->pattern->open(r)) {
		group_say(r->group, "no memory");
		return -GROUP_ERROR;
	}
	if (links_connect(r->links, r->link_count))
		return -GROUP_ERROR;
	return links_register(r->links, r->link_count, r->opts->pattern->link_step_bytes);
}

static int open_buffers(struct perf_rank *r)
{
	size_t bytes = r->opts->pattern->count(r->opts, r->opts->max_bytes) * PERF_ELEMENT;

	r->input = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (r->input == MAP_FAILED) {
		r->input = NULL;
		group_say(r->group, "no memory for buffers of %zu bytes", 2 * bytes);
		return -GROUP_ERROR;
	}
	r->output = (char *)r->input + bytes;
	return 0;
}

static void rank_close(struct perf_rank *r)
{
	links_close(r->links, r->link_count);
	free(r->links);
	free(r->rings);
	free(r->streams);
	endpoint_close(&r->ep);
}

/* Returns the time per operation on this rank, in microseconds; < 0 = failed. */
static double timed_runs(struct perf_rank *r, size_t count)
{
	uint64_t t0;

	for (int i = 0; i < r->opts->warmups; i++) {
		if (r->opts->pattern->run(r, count))
			return -1;
	}
	if (group_barrier(r->group))
		return -1;
	t0 = now_ns();
	for (int i = 0; i < r->opts->iterations; i++) {
		if (r->opts->pattern->run(r, count))
			return -1;
	}
	return (double)(now_ns() - t0) / 1e3 / r->opts->iterations;
}

/* Runs one more operation with new data and checks every element. */
static int checked_run(struct perf_rank *r, size_t count, uint32_t seed)
{
	r->area->wrong[r->group->rank] = 0;
	if (!r->opts->check)
		return 0;
	perf_fill(r, count, seed);
	if (group_barrier(r->group) || r->opts->pattern->run(r, count))
		return -GROUP_ERROR;
	r->area->wrong[r->group->rank] = perf_check(r, count, seed);
	return 0;
}

static struct perf_row make_row(const struct perf_rank *r, size_t count)
{
	struct perf_row row = { .bytes = count * PERF_ELEMENT, .count = count };

	for (int i = 0; i < r->opts->ranks; i++) {
		if (r->area->time_us[i] > row.time_us)
			row.time_us = r->area->time_us[i];
		row.wrong += r->area->wrong[i];
	}
	row.algbw = (double)row.bytes / row.time_us / 1e3;
	row.busbw = row.algbw * r->opts->pattern->bus_factor(r->opts->ranks);
	return row;
}

/* Measures one size. All ranks compute the same row; rank 0 prints it. */
static int measure(struct perf_rank *r, size_t bytes, uint32_t seed, uint64_t *wrong)
{
	size_t count = r->opts->pattern->count(r->opts, bytes);
	struct perf_row row;
	double time_us = timed_runs(r, count);

	if (time_us < 0 || checked_run(r, count, seed))
		return -GROUP_ERROR;
	r->area->time_us[r->group->rank] = time_us;
	if (group_barrier(r->group))
		return -GROUP_ERROR;
	row = make_row(r, count);
	if (r->group->rank == 0)
		perf_print_row(r, &row);
	*wrong += row.wrong;
	return group_barrier(r->group) ? -GROUP_ERROR : 0;
}

static size_t next_size(const struct perf_options *o, size_t bytes)
{
	return o->step_bytes ? bytes + o->step_bytes : bytes * (size_t)o->factor;
}

static int measure_all(struct perf_rank *r, uint64_t *wrong)
{
	const struct perf_options *o = r->opts;
	uint32_t seed = 0;

	if (r->group->rank == 0)
		perf_print_head(r);
	perf_fill(r, o->pattern->count(o, o->max_bytes), seed);
	for (size_t bytes = o->min_bytes; bytes <= o->max_bytes; bytes = next_size(o, bytes)) {
		if (measure(r, bytes, ++seed, wrong))
			return -GROUP_ERROR;
	}
	if (r->group->rank == 0)
		perf_print_end(r);
	return 0;
}

static int rank_main(struct group *g, void *arg)
{
	const struct perf_options *opts = arg;
	struct perf_rank r = { .group = g, .opts = opts, .area = g->area };
	uint64_t wrong = 0;
	int ret;

	r.area->pid[g->rank] = (int)getpid();
	if (endpoint_open(&r.ep, g, opts->spec, opts->abi, opts->dev))
		return GROUP_ERROR;
	ret = open_buffers(&r);
	if (!ret)
		ret = open_links(&r);
	if (!ret)
		ret = group_barrier(g);
	if (!ret)
		ret = measure_all(&r, &wrong);
	/* A rank must not close while another still needs its connections. */
	if (!ret)
		ret = group_barrier(g);
	rank_close(&r);
	if (ret)
		return GROUP_ERROR;
	return wrong ? GROUP_WRONG : GROUP_OK;
}

int cmd_perf(int argc, char **argv)
{
	struct perf_options opts;
	struct group g;
	int result;

	perf_parse(argc, argv, &opts);
	if (group_create(&g, "anynet perf", opts.ranks, sizeof(struct perf_area))) {
		fprintf(stderr, "anynet perf: no shared memory\n");
		return FAILED;
	}
	g.deadline_ns = (uint64_t)opts.deadline_s * 1000000000u;
	result = group_run(&g, rank_main, &opts);
	if (result == GROUP_WRONG)
		fprintf(stderr, "anynet perf: WRONG RESULTS\n");
	group_destroy(&g);
	return result == GROUP_OK ? 0 : FAILED;
}

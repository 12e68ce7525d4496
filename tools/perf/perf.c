/* SPDX-License-Identifier: Apache-2.0 */
/* anynet perf: the life of a rank, from opening the net to the last row. */
#include "perf.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "perf_meet.h"

int perf_drive(struct perf_rank *r, int count, int (*step)(struct perf_rank *r, int part))
{
	int open;

	do {
		bool moved = false;

		open = 0;
		for (int i = 0; i < count; i++) {
			int ret = step(r, i);

			if (ret < 0)
				return ret;
			open += ret != PERF_DONE;
			moved |= ret == 1;
		}
		if (moved)
			group_fed(r->group);
		else if (open && group_idle(r->group))
			return -GROUP_ERROR;
	} while (open);
	return 0;
}

static int open_links(struct perf_rank *r)
{
	r->opts->pattern->open(r);
	if (links_listen(r->links, r->link_count) || perf_meet(r, PERF_READY) ||
	    links_connect(r->links, r->link_count))
		return -GROUP_ERROR;
	return links_register(r->links, r->link_count,
			      r->opts->pattern->has_sums ? PERF_RING_STEP : PERF_P2P_STEP);
}

static int open_buffers(struct perf_rank *r)
{
	size_t bytes = perf_count(r->opts, r->opts->max_bytes) * PERF_ELEMENT;

	r->input = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (r->input == MAP_FAILED) {
		r->input = NULL;
		group_say(r->group, "out of memory: buffers of %zu bytes", 2 * bytes);
		return -GROUP_ERROR;
	}
	r->output = (char *)r->input + bytes;
	return 0;
}

static void rank_close(struct perf_rank *r)
{
	links_close(r->links, r->link_count);
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
	if (perf_meet(r, PERF_GO))
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
	uint64_t *wrong = &r->area->report.wrong[r->group->rank];

	*wrong = 0;
	if (!r->opts->check)
		return 0;
	perf_fill(r, count, seed);
	if (perf_meet(r, PERF_GO) || r->opts->pattern->run(r, count))
		return -GROUP_ERROR;
	*wrong = perf_check(r, count, seed);
	return 0;
}

struct perf_row perf_row(const struct perf_options *o, const struct perf_report *report,
			 size_t count)
{
	struct perf_row row = { .bytes = count * PERF_ELEMENT, .count = count };

	for (int i = 0; i < o->ranks; i++) {
		if (report->time_us[i] > row.time_us)
			row.time_us = report->time_us[i];
		row.wrong += report->wrong[i];
	}
	row.algbw = (double)row.bytes / row.time_us / 1e3;
	row.busbw = row.algbw;
	if (o->pattern->bus_factor)
		row.busbw *= (double)o->pattern->bus_factor * (o->ranks - 1) / o->ranks;
	return row;
}

/* Without a coordinator, rank 0 prints. */
static bool prints(const struct perf_rank *r)
{
	return r->coordinator < 0 && r->group->rank == 0;
}

/* Measures one size. The next one changes the report only after all ranks have met again. */
static int measure(struct perf_rank *r, size_t bytes, uint32_t seed, uint64_t *wrong)
{
	size_t count = perf_count(r->opts, bytes);
	struct perf_row row;
	double time_us = timed_runs(r, count);

	if (time_us < 0 || checked_run(r, count, seed))
		return -GROUP_ERROR;
	r->area->report.time_us[r->group->rank] = time_us;
	if (perf_meet(r, PERF_ROW))
		return -GROUP_ERROR;
	row = perf_row(r->opts, &r->area->report, count);
	if (prints(r))
		perf_print_row(r->opts, &row);
	*wrong += row.wrong;
	return 0;
}

size_t perf_next_size(const struct perf_options *o, size_t bytes)
{
	return o->step_bytes ? bytes + o->step_bytes : bytes * (size_t)o->factor;
}

static int measure_all(struct perf_rank *r, uint64_t *wrong)
{
	const struct perf_options *o = r->opts;
	uint32_t seed = 0;

	if (prints(r))
		perf_print_head(o, &r->area->report);
	perf_fill(r, perf_count(o, o->max_bytes), seed);
	for (size_t bytes = o->min_bytes; bytes <= o->max_bytes; bytes = perf_next_size(o, bytes)) {
		if (measure(r, bytes, ++seed, wrong))
			return -GROUP_ERROR;
	}
	if (prints(r))
		perf_print_end(o, &r->area->report);
	return 0;
}

/* What the head of the output says of this rank. */
static void describe(struct perf_rank *r)
{
	struct perf_report *report = &r->area->report;
	struct perf_place *place = &report->places[r->group->rank];
	struct utsname host = { 0 };

	uname(&host);
	snprintf(place->host, sizeof(place->host), "%.63s", host.nodename);
	snprintf(place->device, sizeof(place->device), "%s", r->ep.props.name);
	place->pid = (int)getpid();
	place->speed_mbps = r->ep.props.speed_mbps;
	if (r->group->rank > r->group->first)
		return;
	snprintf(report->net, sizeof(report->net), "%s", driver_name(r->ep.net));
	snprintf(report->path, sizeof(report->path), "%s", driver_path(r->ep.net));
	report->abi = driver_abi(r->ep.net);
}

static int rank_main(struct group *g, void *arg)
{
	struct perf_rank r = *(const struct perf_rank *)arg;
	uint64_t wrong = 0;
	int ret;

	r.group = g;
	r.area = g->area;
	if (endpoint_open(&r.ep, g, r.opts->spec, r.opts->abi, r.opts->dev))
		return GROUP_ERROR;
	describe(&r);
	ret = open_buffers(&r);
	if (!ret)
		ret = open_links(&r);
	if (!ret)
		ret = perf_meet(&r, PERF_GO);
	if (!ret)
		ret = measure_all(&r, &wrong);
	/* A rank must not close while another still needs its connections. */
	if (!ret)
		ret = perf_meet(&r, PERF_GO);
	rank_close(&r);
	if (ret)
		return GROUP_ERROR;
	return wrong ? GROUP_WRONG : GROUP_OK;
}

int perf_run(const struct perf_options *o, int first, int coordinator)
{
	struct perf_rank rank = { .opts = o, .coordinator = coordinator };
	struct group g;
	int result;

	result = group_create(&g, "anynet perf", o->here, sizeof(struct perf_area));
	if (result) {
		fprintf(stderr, "anynet perf: shared memory: %s\n", strerror(-result));
		return GROUP_ERROR;
	}
	g.first = first;
	g.size = o->ranks;
	g.deadline_ns = (uint64_t)o->deadline_s * 1000000000u;
	result = group_run(&g, rank_main, &rank);
	group_destroy(&g);
	return result;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bandwidth, CPU time per byte and message rate: every comm has up to 8 messages in flight, each in
 * its own buffer. One loop per end gives each comm a step in turn, as in NCCL's progress thread.
 * Received bytes are counted during a time window. Afterwards the senders announce their totals, so
 * that nothing is in flight at the end.
 */
#include "bench.h"

#include <stdlib.h>
#include <sys/resource.h>

#define WARM_MS    60
#define LOOK_EVERY 4 /* passes between two checks of the clock */
#define RUN_OUT    (2 * LINK_STEPS)

static const long bw_sizes[] = { 4096, 65536, 524288, 1048576 };
static const long bw_comms[] = { 1, 16, 64 };
static const long bw_comms_4k[] = { 1, 8, 16, 64 };
static const long rate_sizes[] = { 8, 512 };
static const long rate_comms[] = { 1, 8, 64 };

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static int add_cases(const struct bench_options *opts, struct bench_case *cases, int count,
		     size_t bytes, const long *comms, int comms_count)
{
	for (int ways = 1; ways <= 2; ways++) {
		if (opts->ways && opts->ways != ways)
			continue;
		for (int i = 0; i < comms_count && count < BENCH_CASES_MAX; i++)
			cases[count++] = (struct bench_case){
				.bytes = bytes,
				.comms = (int)comms[i],
				.ways = ways,
			};
	}
	return count;
}

static int bw_cases(const struct bench_options *opts, struct bench_case *cases)
{
	const long *from = opts->size_count ? opts->sizes : bw_sizes;
	int sizes = opts->size_count ? opts->size_count : COUNT(bw_sizes), count = 0;

	for (int i = 0; i < sizes; i++) {
		if (opts->comms_count)
			count = add_cases(opts, cases, count, (size_t)from[i], opts->comms,
					  opts->comms_count);
		else if (from[i] == 4096)
			count = add_cases(opts, cases, count, (size_t)from[i], bw_comms_4k,
					  COUNT(bw_comms_4k));
		else
			count = add_cases(opts, cases, count, (size_t)from[i], bw_comms,
					  COUNT(bw_comms));
	}
	return count;
}

static int rate_cases(const struct bench_options *opts, struct bench_case *cases)
{
	const long *from = opts->size_count ? opts->sizes : rate_sizes;
	int sizes = opts->size_count ? opts->size_count : COUNT(rate_sizes), count = 0;

	for (int i = 0; i < sizes; i++)
		count = add_cases(opts, cases, count, (size_t)from[i],
				  opts->comms_count ? opts->comms : rate_comms,
				  opts->comms_count ? opts->comms_count : COUNT(rate_comms));
	return count;
}

/* Counters of an end at one time. */
struct reading {
	uint64_t ns, messages;
	double cpu_s, sys_s;
};

static struct reading read_now(const struct link *links, int sends, int count)
{
	struct reading r = { .ns = now_ns() };
	struct rusage usage;

	for (int i = sends; i < count; i++)
		r.messages += links[i].done;
	getrusage(RUSAGE_SELF, &usage);
	r.sys_s = (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6;
	r.cpu_s = r.sys_s + (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6;
	return r;
}

enum {
	SIDE_GBPS,
	SIDE_GB,
	SIDE_CPU,
	SIDE_SYS,
	SIDE_MMPS
};

static void report_side(struct bench_end *end, size_t bytes, const struct reading *from,
			const struct reading *to)
{
	double *side = end->area->side[end->group->rank];
	double seconds = (double)(to->ns - from->ns) / 1e9;
	double messages = (double)(to->messages - from->messages);

	side[SIDE_GB] = messages * (double)bytes / 1e9;
	side[SIDE_GBPS] = side[SIDE_GB] / seconds;
	side[SIDE_MMPS] = messages / seconds / 1e6;
	side[SIDE_CPU] = to->cpu_s - from->cpu_s;
	side[SIDE_SYS] = to->sys_s - from->sys_s;
}

/* Gives every comm one step. Returns 1 = progress, 0 = none, < 0 = failed. */
static int pass(struct bench_end *end, struct link *links, int sends, int count, size_t bytes)
{
	_Atomic uint64_t *totals = end->area->totals[!end->group->rank];
	int moved = 0;

	for (int i = 0; i < count; i++) {
		int ret;

		if (i >= sends && links[i].total == UINT64_MAX) {
			uint64_t total =
				atomic_load_explicit(&totals[i - sends], memory_order_acquire);
			if (total)
				links[i].total = total;
		}
		ret = link_step(&links[i], bytes);
		if (ret < 0)
			return ret;
		moved |= ret;
	}
	return moved;
}

static void announce_totals(struct bench_end *end, struct link *links, int sends)
{
	for (int i = 0; i < sends; i++) {
		/* The receiver may have posted up to LINK_STEPS more than were sent. The margin
		 * ensures that it sees this total before it posts too many. */
		links[i].total = links[i].posted + RUN_OUT;
		atomic_store_explicit(&end->area->totals[end->group->rank][i], links[i].total,
				      memory_order_release);
	}
}

static bool all_done(const struct link *links, int count)
{
	for (int i = 0; i < count; i++) {
		if (links[i].done != links[i].total)
			return false;
	}
	return true;
}

/* Each end has its own window, since one may be late on a busy machine. Both send until both
 * windows have ended. */
static int measure(struct bench_end *end, struct link *links, int sends, int count, size_t bytes)
{
	uint64_t window_ns = (uint64_t)end->opts->window_ms * 1000000u;
	uint64_t begin = now_ns() + WARM_MS * 1000000u;
	struct reading from = { 0 }, to = { 0 };
	bool announced = false;

	for (unsigned passes = 1; !announced || !all_done(links, count); passes++) {
		int moved = pass(end, links, sends, count, bytes);

		if (moved < 0)
			return moved;
		if (moved)
			group_fed(end->group);
		else if (group_idle(end->group))
			return -GROUP_ERROR;
		if (passes % LOOK_EVERY || announced)
			continue;
		if (to.ns) {
			announced = atomic_load(&end->area->windows_done) == 2;
			if (announced)
				announce_totals(end, links, sends);
		} else if (from.ns && now_ns() - from.ns >= window_ns) {
			to = read_now(links, sends, count);
			atomic_fetch_add(&end->area->windows_done, 1);
		} else if (!from.ns && now_ns() >= begin) {
			from = read_now(links, sends, count);
		}
	}
	report_side(end, bytes, &from, &to);
	return 0;
}

static void combine(struct bench_end *end, const struct bench_case *c)
{
	double(*side)[BENCH_METRICS_MAX] = end->area->side, *values = end->area->values;
	double gb = side[0][SIDE_GB] + side[1][SIDE_GB];

	values[0] = (side[0][SIDE_GBPS] + side[1][SIDE_GBPS]) / c->ways;
	values[1] = (side[0][SIDE_CPU] + side[1][SIDE_CPU]) / gb;
	values[2] = (side[0][SIDE_SYS] + side[1][SIDE_SYS]) / gb;
	values[3] = (side[0][SIDE_MMPS] + side[1][SIDE_MMPS]) / c->ways;
}

static int bw_run(struct bench_end *end, const struct bench_case *c)
{
	struct link *links = calloc(2 * (size_t)c->comms, sizeof(*links));
	int sends, count, ret;

	if (!links)
		return GROUP_ERROR;
	count = end_links(end, c, links, &sends);
	ret = links_connect(links, count);
	if (!ret)
		ret = links_register(links, count, round_up_slot(c->bytes));
	if (!ret)
		ret = group_barrier(end->group);
	if (!ret)
		ret = measure(end, links, sends, count, c->bytes);
	if (!ret)
		ret = group_barrier(end->group);
	if (!ret && end->group->rank == 0)
		combine(end, c);
	links_close(links, count);
	free(links);
	return ret ? GROUP_ERROR : GROUP_OK;
}

const struct bench_figure bench_bw = {
	.name = "bw",
	.title = "8 messages in flight on every comm; GB/s each way, CPU of both ends",
	.metrics = { "GB/s", "cpu_s/GB", "sys_s/GB", "Mmsg/s" },
	.ratios = 2,
	.has_size = true,
	.has_comms = true,
	.has_ways = true,
	.cases = bw_cases,
	.run = bw_run,
};

static int rate_run(struct bench_end *end, const struct bench_case *c)
{
	int ret = bw_run(end, c);

	if (!ret && end->group->rank == 0)
		end->area->values[0] = end->area->values[3];
	return ret;
}

const struct bench_figure bench_rate = {
	.name = "rate",
	.title = "8 messages in flight on every comm; million messages/s each way",
	.metrics = { "Mmsg/s" },
	.ratios = 1,
	.has_size = true,
	.has_comms = true,
	.has_ways = true,
	.cases = rate_cases,
	.run = rate_run,
};

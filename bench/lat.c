/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latency: one message travels back and forth, over one comm in each direction. Receives are posted ahead,
 * as in NCCL. Half of the round trip is reported. Each pass tests the oldest request of both comms.
 */
#include "bench.h"

#include <stdlib.h>

#include "tools/shared/doubles.h"

#define WARMUP 10 /* measured iterations per warm-up iteration */

static const long sizes[] = { 1,    8,     128,   129,   512,    1024,   4096,
			      8192, 16384, 32768, 65536, 262144, 1048576 };

static int lat_cases(const struct bench_options *opts, struct bench_case *cases)
{
	const long *from = opts->size_count ? opts->sizes : sizes;
	int count = opts->size_count ? opts->size_count : (int)(sizeof(sizes) / sizeof(sizes[0]));

	for (int i = 0; i < count; i++)
		cases[i] = (struct bench_case){ .bytes = (size_t)from[i], .comms = 1, .ways = 2 };
	return count;
}

static uint64_t iterations(const struct bench_options *opts, size_t bytes)
{
	uint64_t n = bytes <= 8192 ? 10000 : bytes <= 65536 ? 4000 : 1000;

	return opts->quick ? n / 4 : n;
}

/* Runs the progress loop until `done` receives are complete: posts receives, tests the oldest requests. */
static int wait_for(struct group *g, struct link *send, struct link *recv, size_t bytes,
		    uint64_t done)
{
	while (recv->done < done) {
		int moved = 0, ret;

		if (link_has_room(recv)) {
			moved = link_post(recv, bytes);
			if (moved < 0)
				return moved;
		}
		if (send->done < send->posted) {
			ret = link_test(send);
			if (ret < 0)
				return ret;
			moved |= ret;
		}
		if (recv->done < recv->posted) {
			ret = link_test(recv);
			if (ret < 0)
				return ret;
			moved |= ret;
		}
		if (moved)
			group_fed(g);
		else if (group_idle(g))
			return -GROUP_ERROR;
	}
	return 0;
}

static int send_one(struct group *g, struct link *send, size_t bytes)
{
	for (;;) {
		int ret = link_has_room(send) ? link_post(send, bytes) : 0;

		if (ret)
			return ret < 0 ? ret : 0;
		ret = send->done < send->posted ? link_test(send) : 0;
		if (ret < 0)
			return ret;
		if (!ret && group_idle(g))
			return -GROUP_ERROR;
	}
}

static int ping(struct bench_end *end, struct link *send, struct link *recv, size_t bytes,
		uint64_t count, double *half_us)
{
	struct group *g = end->group;
	uint64_t first = recv->done;
	int ret;

	recv->total = first + count;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t t0 = now_ns();

		ret = send_one(g, send, bytes);
		if (!ret)
			ret = wait_for(g, send, recv, bytes, first + i + 1);
		if (ret)
			return ret;
		if (half_us)
			half_us[i] = (double)(now_ns() - t0) / 2e3;
	}
	return 0;
}

static int pong(struct bench_end *end, struct link *send, struct link *recv, size_t bytes,
		uint64_t count)
{
	struct group *g = end->group;
	uint64_t first = recv->done;
	int ret;

	recv->total = first + count;
	for (uint64_t i = 0; i < count; i++) {
		ret = wait_for(g, send, recv, bytes, first + i + 1);
		if (!ret)
			ret = send_one(g, send, bytes);
		if (ret)
			return ret;
	}
	return 0;
}

static int drain(struct group *g, struct link *send)
{
	while (send->done < send->posted) {
		int ret = link_test(send);

		if (ret < 0 || (!ret && group_idle(g)))
			return -GROUP_ERROR;
	}
	return 0;
}

static int lat_measure(struct bench_end *end, struct link *links, size_t bytes, double *values)
{
	uint64_t count = iterations(end->opts, bytes);
	struct link *send = &links[0], *recv = &links[1];
	double *half_us = calloc(count, sizeof(*half_us));
	int ret = half_us ? group_barrier(end->group) : -GROUP_ERROR;

	for (int measured = 0; !ret && measured < 2; measured++) {
		uint64_t n = measured ? count : count / WARMUP;

		if (end->group->rank == 0)
			ret = ping(end, send, recv, bytes, n, measured ? half_us : NULL);
		else
			ret = pong(end, send, recv, bytes, n);
		if (!ret)
			ret = drain(end->group, send);
	}
	if (!ret && end->group->rank == 0) {
		doubles_sort(half_us, count);
		values[0] = half_us[count / 2];
		values[1] = half_us[count * 99 / 100];
	}
	free(half_us);
	return ret;
}

static int lat_run(struct bench_end *end, const struct bench_case *c)
{
	struct link links[2];
	int sends, count, ret;

	count = end_links(end, c, links, &sends);
	ret = links_connect(links, count);
	if (!ret)
		ret = links_register(links, count, round_up_slot(c->bytes));
	if (!ret)
		ret = lat_measure(end, links, c->bytes, end->area->values);
	if (!ret)
		ret = group_barrier(end->group);
	links_close(links, count);
	return ret ? GROUP_ERROR : GROUP_OK;
}

const struct bench_figure bench_lat = {
	.name = "lat",
	.title = "half of a round trip, one message in flight",
	.metrics = { "p50_us", "p99_us" },
	.ratios = 2,
	.has_size = true,
	.cases = lat_cases,
	.run = lat_run,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Set-up: one thread per end listens for, connects and accepts all comms at once, then sends one
 * small message over each. Measures the time, the process's threads, descriptors and memory, and
 * its CPU time while idle.
 */
#include "bench.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MESSAGE_BYTES 128

static const long comms[] = { 1, 100, 500 };

static int connect_cases(const struct bench_options *opts, struct bench_case *cases)
{
	const long *from = opts->comms_count ? opts->comms : comms;
	int count = opts->comms_count ? opts->comms_count : (int)(sizeof(comms) / sizeof(comms[0]));

	for (int i = 0; i < count; i++)
		cases[i] = (struct bench_case){
			.bytes = MESSAGE_BYTES,
			.comms = (int)from[i],
			.ways = 1,
		};
	return count;
}

struct holdings {
	int threads, fds;
	double kib; /* anonymous resident memory */
};

/* Returns a number in /proc/self/status. */
static double status_number(const char *key)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[200];
	double value = 0;

	while (file && fgets(line, sizeof(line), file)) {
		if (!strncmp(line, key, strlen(key)))
			value = strtod(line + strlen(key), NULL);
	}
	if (file)
		fclose(file);
	return value;
}

static int count_entries(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

static struct holdings holdings_now(void)
{
	return (struct holdings){
		.threads = (int)status_number("Threads:"),
		.fds = count_entries("/proc/self/fd"),
		.kib = status_number("RssAnon:"),
	};
}

/* Transfers one message over every comm. */
static int exchange(struct bench_end *end, struct link *links, int count)
{
	int missing = count;

	for (int i = 0; i < count; i++)
		links[i].total = 1;
	while (missing) {
		int moved = 0;

		for (int i = 0; i < count; i++) {
			bool open = links[i].done < 1;
			int ret = open ? link_step(&links[i], MESSAGE_BYTES) : 0;

			if (ret < 0)
				return ret;
			moved |= ret;
			missing -= open && links[i].done == 1;
		}
		if (moved)
			group_fed(end->group);
		else if (group_idle(end->group))
			return -GROUP_ERROR;
	}
	return 0;
}

enum {
	SIDE_MS,
	SIDE_CPU_MS, /* the same in processor time, to which other programs do less */
	SIDE_CLOSE_MS,
	SIDE_THREADS,
	SIDE_FDS,
	SIDE_KIB,
	SIDE_IDLE
};

static double cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* Returns the CPU load of the process during a second of sleep, in thousandths of a core. */
static double idle_load(void)
{
	struct timespec second = { .tv_sec = 1 };
	double cpu0 = cpu_ns();
	uint64_t t0 = now_ns();

	nanosleep(&second, NULL);
	return (cpu_ns() - cpu0) * 1000 / (double)(now_ns() - t0);
}

static int set_up(struct bench_end *end, const struct bench_case *c, struct link *links, int count)
{
	double *side = end->area->side[end->group->rank];
	/* Memory of the links' own buffers, which does not belong to the net. */
	double ours_kib = (double)count * LINK_STEPS * MESSAGE_BYTES / 1024;
	struct holdings before = holdings_now(), after;
	double cpu0;
	uint64_t t0;
	int ret;

	ret = group_barrier(end->group);
	t0 = now_ns();
	cpu0 = cpu_ns();
	if (!ret)
		ret = links_connect(links, count);
	side[SIDE_MS] = (double)(now_ns() - t0) / 1e6;
	side[SIDE_CPU_MS] = (cpu_ns() - cpu0) / 1e6;
	if (!ret)
		ret = links_register(links, count, MESSAGE_BYTES);
	if (!ret)
		ret = exchange(end, links, count);
	if (!ret)
		ret = group_barrier(end->group);
	after = holdings_now();
	side[SIDE_THREADS] = after.threads;
	side[SIDE_FDS] = (double)(after.fds - before.fds) / c->comms;
	side[SIDE_KIB] = (after.kib - before.kib - ours_kib) / c->comms;
	side[SIDE_IDLE] = idle_load();
	return ret;
}

static double larger(struct bench_end *end, int which)
{
	double a = end->area->side[0][which], b = end->area->side[1][which];

	return a > b ? a : b;
}

static int connect_run(struct bench_end *end, const struct bench_case *c)
{
	struct link *links = calloc((size_t)c->comms, sizeof(*links));
	int sends, count, ret;
	uint64_t t0;

	if (!links)
		return GROUP_ERROR;
	count = end_links(end, c, links, &sends);
	ret = set_up(end, c, links, count);
	if (!ret)
		ret = group_barrier(end->group);
	t0 = now_ns();
	links_close(links, count);
	end->area->side[end->group->rank][SIDE_CLOSE_MS] = (double)(now_ns() - t0) / 1e6;
	if (!ret)
		ret = group_barrier(end->group);
	for (int m = 0; !ret && end->group->rank == 0 && m <= SIDE_IDLE; m++)
		end->area->values[m] = larger(end, m);
	free(links);
	return ret ? GROUP_ERROR : GROUP_OK;
}

const struct bench_figure bench_connect = {
	.name = "connect",
	.title = "comms set up at once, and what they hold; the larger of both ends",
	.metrics = { "open_ms", "cpu_ms", "close_ms", "threads", "fds/comm", "KiB/comm",
		     "idle_mcpu" },
	.ratios = 2,
	.has_comms = true,
	.cases = connect_cases,
	.run = connect_run,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* The two ends of a measurement: their cores, namespaces and nets. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#define DEADLINE_NS 30000000000ull

struct job {
	const struct bench_figure *figure;
	const struct bench_options *opts;
	const struct bench_net *net;
	const struct bench_case *which;
};

static int pin(struct group *g, int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		return 0;
	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (!sched_setaffinity(0, sizeof(set), &set))
		return 0;
	group_say(g, "cannot run on core %d: %s", cpu, strerror(errno));
	return -GROUP_ERROR;
}

/* As `ip netns exec`. Also mounts the namespace's /sys, where nets look for interfaces. */
static int enter_netns(struct group *g, const char *name)
{
	char path[300];
	int fd;

	if (!name)
		return 0;
	snprintf(path, sizeof(path), "/run/netns/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET) || unshare(CLONE_NEWNS) ||
	    mount("", "/", "none", MS_SLAVE | MS_REC, NULL) || umount2("/sys", MNT_DETACH) ||
	    mount(name, "/sys", "sysfs", 0, NULL)) {
		group_say(g, "cannot enter network namespace %s: %s", name, strerror(errno));
		return -GROUP_ERROR;
	}
	close(fd);
	return 0;
}

static void raise_file_limit(void)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static void *pause_for_ever(void *arg)
{
	while (true)
		pause();
	return arg;
}

/* NCCL's process always has several threads. For the kernel this makes a difference: only then does growing the table
 * of descriptors wait for RCU. */
static int start_second_thread(struct group *g)
{
	pthread_t thread;
	int err = pthread_create(&thread, NULL, pause_for_ever, NULL);

	if (!err)
		return 0;
	group_say(g, "cannot start a thread: %s", strerror(err));
	return -GROUP_ERROR;
}

static int end_main(struct group *g, void *arg)
{
	const struct job *job = arg;
	struct bench_end end = { .group = g, .area = g->area, .opts = job->opts };
	int ret;

	if (g->rank < 2 &&
	    (enter_netns(g, job->opts->netns[g->rank]) || pin(g, job->opts->cpus[g->rank])))
		return GROUP_ERROR;
	raise_file_limit();
	if (g->rank >= 2)
		return job->figure->run(&end, job->which);
	if (start_second_thread(g))
		return GROUP_ERROR;

	if (job->opts->ifname[0])
		setenv("NCCL_SOCKET_IFNAME", job->opts->ifname, 1);
	net_set_environment(job->net->text);
	if (endpoint_open(&end.ep, g, job->net->spec, job->opts->abi, job->opts->devs[g->rank]))
		return GROUP_ERROR;
	if (g->rank == 0)
		snprintf(end.area->label, sizeof(end.area->label), "%s on %s, net API v%d",
			 driver_name(end.ep.net), end.ep.props.name, driver_abi(end.ep.net));
	ret = job->figure->run(&end, job->which);
	endpoint_close(&end.ep);
	return ret;
}

int pair_run(struct group *g, const struct bench_figure *figure, const struct bench_options *opts,
	     const struct bench_net *net, const struct bench_case *c)
{
	struct job job = {
		.figure = figure,
		.opts = opts,
		.net = net,
		.which = c,
	};
	int members = figure->members ? figure->members : 2;

	if (group_create(g, "net_bench", members, sizeof(struct bench_area))) {
		fprintf(stderr, "net_bench: no shared memory: %s\n", strerror(errno));
		return GROUP_ERROR;
	}
	g->yields = false;
	g->deadline_ns = DEADLINE_NS;
	return group_run(g, end_main, &job);
}

int end_links(struct bench_end *end, const struct bench_case *c, struct link *links, int *sends)
{
	int me = end->group->rank, count = 0;

	for (int dir = 0; dir < 2; dir++) {
		bool is_send = dir == 0;

		/* With one way, end 0 sends and end 1 receives. */
		if (c->ways == 1 && is_send != (me == 0))
			continue;
		for (int i = 0; i < c->comms; i++) {
			links[count++] = (struct link){
				.ep = &end->ep,
				.slot = &end->area->slots[is_send ? !me : me][i],
				.is_send = is_send,
				.peer = !me,
				.total = UINT64_MAX,
			};
		}
		if (is_send)
			*sends = count;
	}
	if (c->ways == 1 && me == 1)
		*sends = 0;
	return count;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job over network namespaces: job PLUGIN STATS_DIR NAMESPACE... It starts a rank in each namespace; their hosts are
 * named h1, h2, ... and their statistics are in STATS_DIR/h1 ... In each round every rank sends to all others and waits
 * for their data. It prints "rank N pid P" for each and "runs", and continues until it is killed.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/shared/net/group.h"
#include "tools/shared/net/net_link.h"

#define BYTES      262144
#define RANKS      8
#define IDLE_NS    200000   /* between two polls of a waiting rank: four hosts share the processors of one */
#define COMPUTE_NS 20000000 /* between two rounds */

struct area {
	struct link_slot slots[RANKS][RANKS]; /* [receiver][sender] */
};

struct job {
	const char *plugin, *stats;
	char **namespaces;
};

static int move_in(struct group *g, const struct job *job)
{
	char path[400], name[16];
	int fd;

	snprintf(path, sizeof(path), "/var/run/netns/%s", job->namespaces[g->rank]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(name, sizeof(name), "h%d", g->rank + 1);
	if (fd < 0 || setns(fd, CLONE_NEWNET) || unshare(CLONE_NEWUTS) ||
	    sethostname(name, strlen(name))) {
		group_say(g, "cannot move into %s", path);
		return -1;
	}
	close(fd);
	snprintf(path, sizeof(path), "%s/%s", job->stats, name);
	setenv("ANYNET_STATS", path, 1);
	snprintf(name, sizeof(name), "%d", g->rank);
	setenv("RANK", name, 1);
	printf("rank %d pid %d\n", g->rank, (int)getpid());
	fflush(stdout);
	return 0;
}

static int make_links(struct group *g, struct endpoint *ep, struct link *links)
{
	struct area *area = g->area;
	int count = 0;

	for (int peer = 0; peer < g->size; peer++) {
		for (int send = 0; peer != g->rank && send < 2; send++)
			links[count++] = (struct link){
				.ep = ep,
				.slot = send ? &area->slots[peer][g->rank]
					     : &area->slots[g->rank][peer],
				.is_send = send,
				.peer = peer,
			};
	}
	return links_connect(links, count) || links_register(links, count, BYTES) ? -1 : count;
}

static void sleep_ns(long ns)
{
	const struct timespec time = { .tv_nsec = ns };

	nanosleep(&time, NULL);
}

static int run_round(struct group *g, struct link *links, int count)
{
	int open;

	for (int i = 0; i < count; i++)
		links[i].total++;
	do {
		bool moved = false;

		open = 0;
		for (int i = 0; i < count; i++) {
			int ret;

			if (links[i].done == links[i].total)
				continue;
			open++;
			ret = link_step(&links[i], BYTES);
			if (ret < 0)
				return ret;
			moved |= ret > 0;
		}
		if (moved)
			group_fed(g);
		else if (open && group_idle(g))
			return -1;
		if (!moved)
			sleep_ns(IDLE_NS);
	} while (open);
	return 0;
}

static int rank_main(struct group *g, void *arg)
{
	static struct link links[2 * RANKS];
	const struct job *job = arg;
	struct endpoint ep;
	int count;

	if (move_in(g, job) || endpoint_open(&ep, g, job->plugin, 0, 0))
		return GROUP_ERROR;
	count = make_links(g, &ep, links);
	if (count < 0 || group_barrier(g))
		return GROUP_ERROR;
	if (!g->rank) {
		printf("runs\n");
		fflush(stdout);
	}
	while (!run_round(g, links, count))
		sleep_ns(COMPUTE_NS);
	return GROUP_ERROR;
}

int main(int argc, char **argv)
{
	struct job job = { argv[1], argv[2], argv + 3 };
	struct group g;

	if (argc < 5 || argc - 3 > RANKS || group_create(&g, "job", argc - 3, sizeof(struct area)))
		return 1;
	g.deadline_ns = 3600000000000ull;
	return group_run(&g, rank_main, &job);
}

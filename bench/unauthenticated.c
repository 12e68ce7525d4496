/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unauthenticated connections: a third process opens 120 hostile connections to the ports of the
 * receiving end, then the real peer connects. The figure is the time until it is accepted;
 * afterwards messages must arrive undamaged. "never" = not within 20 s, or the net has failed.
 */
#include "bench.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS 120
#define LIMIT_NS  20000000000ull
#define MESSAGES  64
#define BYTES     8192
#define MOB_RANK  2

enum stage {
	STAGE_START,
	STAGE_LISTENING,
	STAGE_SURROUNDED
};

static int unauthenticated_cases(const struct bench_options *opts, struct bench_case *cases)
{
	(void)opts;
	cases[0] = (struct bench_case){ .bytes = BYTES, .comms = 1, .ways = 1 };
	return 1;
}

static void set_stage(struct bench_end *end, enum stage stage)
{
	atomic_store(&end->area->stage, stage);
}

static int wait_stage(struct bench_end *end, enum stage stage)
{
	while (atomic_load(&end->area->stage) < (int)stage) {
		if (group_idle(end->group))
			return -GROUP_ERROR;
	}
	group_fed(end->group);
	return 0;
}

/* Publishes every port on which this process listens, with any net. */
static void publish_ports(struct bench_end *end)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int count = 0;

	while (dir && (entry = readdir(dir)) && count < BENCH_LIST_MAX) {
		struct sockaddr_storage addr;
		socklen_t len = sizeof(addr), int_len = sizeof(int);
		int fd = atoi(entry->d_name), listening = 0;

		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &int_len) || !listening ||
		    getsockname(fd, (struct sockaddr *)&addr, &len))
			continue;
		end->area->ports[count++] = addr.ss_family == AF_INET6
						    ? ((struct sockaddr_in6 *)&addr)->sin6_port
						    : ((struct sockaddr_in *)&addr)->sin_port;
	}
	if (dir)
		closedir(dir);
	atomic_store(&end->area->ports_count, count);
}

static void say(int fd, const void *data, size_t bytes)
{
	if (send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return; /* refused or full: also hostile */
}

static void reset(int fd)
{
	const struct linger now = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

/* Uses connection number i. It stays open except in case 4. */
static void misbehave(struct bench_end *end, int fd, int i)
{
	static const char http[] = "GET / HTTP/1.1\r\nHost: health-check\r\n\r\n";
	const char *handle = end->area->slots[1][0].handle;
	static char flood[65536];

	switch (i % 6) {
	case 0: /* silent */
		break;
	case 1: /* garbage */
		for (size_t k = 0; k < 512; k++)
			flood[k] = (char)(rand() & 0xff);
		say(fd, flood, 512);
		break;
	case 2:
		say(fd, http, sizeof(http) - 1);
		break;
	case 3: /* the handle, as if intercepted */
		say(fd, handle, DRIVER_HANDLE_BYTES);
		break;
	case 4:
		reset(fd);
		close(fd);
		break;
	default:
		say(fd, flood, sizeof(flood));
		break;
	}
}

static int mob_run(struct bench_end *end)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	int count;

	if (wait_stage(end, STAGE_LISTENING))
		return GROUP_ERROR;
	count = atomic_load(&end->area->ports_count);
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int i = 0; count && i < CONNECTIONS; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		addr.sin_port = end->area->ports[i % count];
		if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr))) {
			group_say(end->group, "connection %d: %s", i, strerror(errno));
			return GROUP_ERROR;
		}
		misbehave(end, fd, i);
	}
	set_stage(end, STAGE_SURROUNDED);
	/* The connections stay open until the peers have connected and exchanged messages. */
	for (int meeting = 0; meeting < 2; meeting++) {
		if (group_barrier(end->group))
			return GROUP_ERROR;
	}
	return GROUP_OK;
}

static int receiver_listen(struct bench_end *end, struct link *l)
{
	int result =
		driver_listen(end->ep.net, end->ep.ctx, end->ep.dev, l->slot->handle, &l->listener);

	if (result) {
		group_say(end->group, "listen failed with result %d", result);
		return -GROUP_ERROR;
	}
	publish_ports(end);
	set_stage(end, STAGE_LISTENING);
	return 0;
}

static bool too_late(struct bench_end *end)
{
	uint64_t begin = atomic_load(&end->area->begin_ns);

	return begin && now_ns() - begin > LIMIT_NS;
}

/* Steps this end's link until it is connected, fails or is late. The receiver steps from the start,
 * as in NCCL; the sender starts when the hostile connections are open. */
static int come_in(struct bench_end *end, struct link *l)
{
	int result = 0;

	if (l->is_send) {
		if (wait_stage(end, STAGE_SURROUNDED))
			return -GROUP_ERROR;
		memcpy(l->handle, l->slot->handle, sizeof(l->handle));
		atomic_store(&end->area->begin_ns, now_ns());
	}
	while (!result && !l->comm && !too_late(end)) {
		if (l->is_send)
			result = driver_connect(end->ep.net, end->ep.ctx, end->ep.dev, l->handle,
						&l->comm);
		else
			result = driver_accept(end->ep.net, l->listener, &l->comm);
		if (group_idle(end->group))
			return -GROUP_ERROR;
		group_fed(end->group);
	}
	if (!result && l->listener && l->comm) { /* as NCCL does after accept */
		result = driver_close_listen(end->ep.net, l->listener);
		l->listener = NULL;
	}
	if (result)
		group_say(end->group, "%s gave up: result %d", l->is_send ? "connect" : "accept",
			  result);
	return 0;
}

static char pattern(uint64_t message, size_t i)
{
	return (char)(message * 31 + i * 7 + (i >> 8));
}

static void fill(struct link *l)
{
	char *data = link_slot_data(l, l->posted);

	for (size_t i = 0; i < BYTES; i++)
		data[i] = pattern(l->posted, i);
}

static int check(struct bench_end *end, struct link *l)
{
	const char *data = link_slot_data(l, l->done - 1);
	size_t bytes = link_size(l, l->done - 1);

	for (size_t i = 0; i < BYTES; i++) {
		if (bytes == BYTES && data[i] == pattern(l->done - 1, i))
			continue;
		group_say(end->group, "message %llu came through damaged",
			  (unsigned long long)l->done - 1);
		return -GROUP_ERROR;
	}
	return 0;
}

static int exchange(struct bench_end *end, struct link *l)
{
	int ret = links_register(l, 1, BYTES);

	l->total = MESSAGES;
	while (!ret && l->done < MESSAGES) {
		int moved = 0;

		if (link_has_room(l)) {
			if (l->is_send)
				fill(l);
			moved = link_post(l, BYTES);
		}
		if (moved >= 0 && l->done < l->posted) {
			moved = link_test(l);
			if (moved > 0 && !l->is_send)
				ret = check(end, l);
		}
		if (moved < 0)
			return moved;
		if (moved)
			group_fed(end->group);
		else if (group_idle(end->group))
			return -GROUP_ERROR;
	}
	return ret;
}

/* Connects both ends while the hostile connections are open; then exchanges messages if both have a comm. */
static int peers_run(struct bench_end *end, const struct bench_case *c)
{
	double *mine = end->area->side[end->group->rank];
	double *others = end->area->side[!end->group->rank];
	int sends, ret = 0;
	struct link l;

	end_links(end, c, &l, &sends);
	if (!l.is_send)
		ret = receiver_listen(end, &l);
	if (!ret)
		ret = come_in(end, &l);
	mine[0] = l.comm ? (double)(now_ns() - atomic_load(&end->area->begin_ns)) / 1e6 : INFINITY;
	if (!ret)
		ret = group_barrier(end->group);
	if (!ret && isfinite(mine[0]) && isfinite(others[0]))
		ret = exchange(end, &l);
	if (!ret)
		ret = group_barrier(end->group);
	if (!ret && l.is_send)
		end->area->values[0] = mine[0] > others[0] ? mine[0] : others[0];
	links_close(&l, 1);
	return ret;
}

static int unauthenticated_run(struct bench_end *end, const struct bench_case *c)
{
	int ret;

	ret = end->group->rank == MOB_RANK ? mob_run(end) : peers_run(end, c);
	return ret ? GROUP_ERROR : GROUP_OK;
}

const struct bench_figure bench_unauthenticated = {
	.name = "unauthenticated",
	.title = "120 hostile connections to the listening port; then the real peer, at most 20 s",
	.metrics = { "accept_ms" },
	.ratios = 1,
	.members = 3,
	.rounds_max = 1,
	.cases = unauthenticated_cases,
	.run = unauthenticated_run,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shuts down connections of the plugin. NCCL's own sockets in the same process do not recover, so
 * they must be spared: a connection is the plugin's if the port of one end is in ANYNET_PORT_RANGE.
 */
#include "real.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define DESCRIPTORS_MAX 4096 /* highest descriptor examined, plus one */
#define FOUND_MAX       256
#define PORTS           1000

static struct {
	struct session *session;
	pthread_t thread;
	bool running;
	_Atomic bool over;
	unsigned every_ms, random;
	unsigned low, high; /* ports */
} cut;

void cut_port_range(char *text, size_t bytes)
{
	FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
	unsigned low, high;
	bool known = file && fscanf(file, "%u %u", &low, &high) == 2;

	if (file)
		fclose(file);
	text[0] = '\0';
	if (!known)
		return;
	if (low > 1024 + PORTS)
		snprintf(text, bytes, "%u-%u", low - PORTS, low - 1);
	else if (high + PORTS < 65536)
		snprintf(text, bytes, "%u-%u", high + 1, high + PORTS);
}

static unsigned port_of(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		return ntohs(((const struct sockaddr_in *)addr)->sin_port);
	if (addr->ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)addr)->sin6_port);
	return 0;
}

static bool is_ours(const struct sockaddr_storage *addr)
{
	unsigned port = port_of(addr);

	return port && port >= cut.low && port <= cut.high;
}

/* True for a connected socket with a port of the plugin at one end. */
static bool is_connection(int fd)
{
	struct sockaddr_storage here, there;
	socklen_t bytes = sizeof(here);

	if (getsockname(fd, (struct sockaddr *)&here, &bytes))
		return false;
	bytes = sizeof(there);
	if (getpeername(fd, (struct sockaddr *)&there, &bytes))
		return false;
	return is_ours(&here) || is_ours(&there);
}

static void cut_one(void)
{
	int found[FOUND_MAX], count = 0;

	for (int fd = 3; fd < DESCRIPTORS_MAX && count < FOUND_MAX; fd++) {
		if (is_connection(fd))
			found[count++] = fd;
	}
	if (count && !shutdown(found[(unsigned)rand_r(&cut.random) % (unsigned)count], SHUT_RDWR))
		atomic_fetch_add(&cut.session->area->cuts, 1);
}

static void *cut_main(void *arg)
{
	(void)arg;
	while (!atomic_load(&cut.over)) {
		unsigned ms = 1 + (unsigned)rand_r(&cut.random) % (2 * cut.every_ms);
		struct timespec pause = { .tv_sec = ms / 1000,
					  .tv_nsec = (long)(ms % 1000) * 1000000 };

		nanosleep(&pause, NULL);
		cut_one();
	}
	return NULL;
}

int cut_start(struct session *s, int every_ms)
{
	const char *range = getenv("ANYNET_PORT_RANGE");

	if (!range || sscanf(range, "%u-%u", &cut.low, &cut.high) != 2) {
		group_say_once(s->group, "--cut needs ANYNET_PORT_RANGE, a range of ports that "
					 "nothing else uses");
		return -GROUP_ERROR;
	}
	cut.session = s;
	cut.every_ms = (unsigned)every_ms;
	cut.random = (unsigned)s->group->rank + 1;
	atomic_store(&cut.over, false);
	cut.running = !pthread_create(&cut.thread, NULL, cut_main, NULL);
	return cut.running ? 0 : -GROUP_ERROR;
}

void cut_stop(void)
{
	if (!cut.running)
		return;
	atomic_store(&cut.over, true);
	pthread_join(cut.thread, NULL);
	cut.running = false;
}

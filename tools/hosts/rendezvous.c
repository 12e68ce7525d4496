/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rendezvous of workers that a launcher has started. A connection is pending until its greeting and its join have
 * arrived. They are read only when they are complete, so that no connection delays another.
 */
#include "node.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <nccl_net/config.h>

#include "tools/pair/control.h"
#include "tools/pair/server.h"
#include "tools/pair/wire.h"
#include "tools/shared/address.h"
#include "tools/shared/child.h"
#include "tools/shared/judge/compare.h"
#include "transports/wire/allow.h"

#define PENDING_MAX 64
#define JOIN_MS     10000 /* limit for greeting and join */
#define REPLY_MS    2000
#define RETRY_MS    200   /* between two attempts to connect */
#define DEAD_MS     60000 /* a host that acknowledges no packet for so long is gone */

/* Makes the kernel close the connection when the other host has vanished. */
static void watch_peer(int fd)
{
	int one = 1, dead = DEAD_MS, look = DEAD_MS / 6000;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &look, sizeof(look));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &look, sizeof(look));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead, sizeof(dead));
}

/* --- who coordinates --- */

int rendezvous_open(const struct rendezvous *rendezvous, char *why)
{
	static struct anynet_config cfg;
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	const struct server_options at = { .port = rendezvous->port };
	struct sockaddr_storage where;
	struct addrinfo *found;
	bool local = false;
	int ret = getaddrinfo(rendezvous->host, NULL, &hints, &found);

	if (ret) {
		snprintf(why, CONTROL_TEXT, "'%.255s': %s", rendezvous->host, gai_strerror(ret));
		return -ENOENT;
	}
	for (const struct addrinfo *a = found; a && !local; a = a->ai_next) {
		memset(&where, 0, sizeof(where));
		memcpy(&where, a->ai_addr, a->ai_addrlen);
		local = address_is_local(&where);
	}
	freeaddrinfo(found);
	if (!local)
		return -EADDRNOTAVAIL;
	anynet_config_load(&cfg, NULL);
	allow_start(cfg.allow);
	/* Listen on all addresses: this host may resolve its own name to a loopback address, unlike the others. */
	return server_listen(&at, &where);
}

/* --- connections that have not joined --- */

struct pending {
	int fd;       /* -1 = free slot */
	bool greeted; /* the greeting is done */
	uint64_t end; /* deadline, now_ms */
};

struct joining {
	struct pending pending[PENDING_MAX];
	struct node *nodes;
	size_t count, joined;
};

static void drop(struct pending *d)
{
	close(d->fd);
	*d = (struct pending){ .fd = -1 };
}

/* Makes poll report the socket only when `bytes` bytes have arrived. */
static void set_low_water(int fd, size_t bytes)
{
	int low = (int)bytes;

	setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
}

static void accept_pending(struct joining *p, int listener)
{
	struct sockaddr_storage peer = { 0 };
	socklen_t len = sizeof(peer);
	int fd = accept4(listener, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC), one = 1;
	struct pending *place = &p->pending[0];

	if (fd < 0)
		return;
	if (!allow_permits(&peer)) {
		close(fd);
		return;
	}
	for (size_t i = 0; i < PENDING_MAX; i++) { /* a free slot, or the oldest connection's */
		struct pending *d = &p->pending[i];

		if (d->fd < 0 || (place->fd >= 0 && d->end < place->end))
			place = d;
	}
	if (place->fd >= 0)
		drop(place);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	watch_peer(fd);
	set_low_water(fd, PAIR_GREETING);
	*place = (struct pending){ .fd = fd, .end = now_ms() + JOIN_MS };
}

static void join(struct joining *p, struct pending *d, const json_t *message)
{
	struct node *node = &p->nodes[p->joined];
	struct sockaddr_storage peer;
	char name[HOST_NAME], address[ADDRESS_TEXT];

	if (p->joined == p->count || join_parse(message, name, &node->port)) {
		drop(d);
		return;
	}
	snprintf(node->name, sizeof(node->name), "%s", name);
	address_peer(d->fd, &peer);
	if (peer.ss_family == AF_INET || peer.ss_family == AF_INET6)
		snprintf(node->address, sizeof(node->address), "%s", address_print(&peer, address));
	set_low_water(d->fd, 1);
	node->fd = d->fd;
	*d = (struct pending){ .fd = -1 };
	p->joined++;
}

/* Takes the greeting or the join if it has arrived completely. Does not block. `gone`: the peer has closed. */
static void read_pending(struct joining *p, struct pending *d, bool gone)
{
	char seen[4 + JOIN_MAX];
	ssize_t n = recv(d->fd, seen, sizeof(seen), MSG_PEEK | MSG_DONTWAIT);
	json_t *message;
	uint32_t length;
	size_t whole;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (!d->greeted) {
		uint32_t version;

		if (n < PAIR_GREETING || pair_greet(d->fd, false, &version, NULL, REPLY_MS)) {
			drop(d);
			return;
		}
		d->greeted = true;
		set_low_water(d->fd, sizeof(length));
		return;
	}
	if (n < (ssize_t)sizeof(length)) {
		drop(d);
		return;
	}
	memcpy(&length, seen, sizeof(length));
	whole = sizeof(length) + ntohl(length);
	if (whole > sizeof(seen) || (gone && (size_t)n < whole)) {
		drop(d);
	} else if ((size_t)n < whole) {
		set_low_water(d->fd, whole);
	} else if (pair_recv(d->fd, &message, REPLY_MS)) {
		drop(d);
	} else {
		join(p, d, message);
		json_decref(message);
	}
}

static void poll_pending(struct joining *p, int listener, uint64_t end)
{
	struct pollfd pfds[PENDING_MAX + 1];
	uint64_t now = now_ms();

	for (size_t i = 0; i < PENDING_MAX; i++) {
		struct pending *d = &p->pending[i];

		if (d->fd >= 0 && d->end <= now)
			drop(d);
		if (d->fd >= 0 && d->end < end)
			end = d->end;
		pfds[i] = (struct pollfd){ .fd = d->fd, .events = POLLIN | POLLRDHUP };
	}
	pfds[PENDING_MAX] = (struct pollfd){ .fd = listener, .events = POLLIN };
	if (poll(pfds, PENDING_MAX + 1, ms_until(end)) <= 0)
		return;
	for (size_t i = 0; i < PENDING_MAX; i++) {
		if (pfds[i].revents)
			read_pending(p, &p->pending[i], pfds[i].revents & (POLLRDHUP | POLLHUP));
	}
	if (pfds[PENDING_MAX].revents)
		accept_pending(p, listener);
}

/* Starts the worker of this host as a child process. Its connection has no deadline. */
static pid_t start_own_worker(struct joining *p, int listener, const struct worker_options *own)
{
	int fd;
	pid_t parent = getpid(), pid = child_start(&fd, NULL);

	if (!pid) {
		child_ends_with(parent);
		close(listener);
		_exit(worker_run(fd, own));
	}
	if (pid < 0)
		return -1;
	set_low_water(fd, PAIR_GREETING);
	p->pending[0] = (struct pending){ .fd = fd, .end = UINT64_MAX };
	return pid;
}

static size_t count_name(const struct node *nodes, size_t count, const char *name)
{
	size_t alike = 0;

	for (size_t i = 0; i < count; i++)
		alike += !strcmp(nodes[i].name, name);
	return alike;
}

/* Appends the address to names that occur more than once, as with containers: the next run has the same names. */
static void make_names_unique(struct node *nodes, size_t count)
{
	bool alike[HOSTS_MAX];

	for (size_t i = 0; i < count; i++)
		alike[i] = count_name(nodes, count, nodes[i].name) > 1;
	for (size_t i = 0; i < count; i++) {
		char name[HOST_NAME], behind[HOST_NAME - 8];
		const char *address = nodes[i].address;
		unsigned n = 1;

		if (!alike[i])
			continue;
		strcpy(name, nodes[i].name);
		if (!host_name_is_good(address))
			address = "";
		snprintf(behind, sizeof(behind), "@%.45s", address);
		do {
			snprintf(nodes[i].name, HOST_NAME, "%.*s%s",
				 (int)(HOST_NAME - 1 - strlen(behind)), name, behind);
			snprintf(behind, sizeof(behind), "@%.45s:%u", address, ++n % 1000u);
		} while (count_name(nodes, count, nodes[i].name) > 1);
	}
}

static int by_name(const void *a, const void *b)
{
	return strverscmp(((const struct node *)a)->name, ((const struct node *)b)->name);
}

static void name_missing(struct node *nodes, size_t joined, const struct rendezvous *rendezvous)
{
	for (size_t i = joined; i < rendezvous->nodes; i++) {
		snprintf(nodes[i].name, sizeof(nodes[i].name), "missing-%zu", i - joined + 1);
		node_fail(&nodes[i], "only %zu of %zu hosts arrived at %.100s port %d within %d s",
			  joined, rendezvous->nodes, rendezvous->host, rendezvous->port,
			  rendezvous->wait_ms / 1000);
	}
}

void rendezvous_wait(int listener, const struct rendezvous *rendezvous,
		     const struct worker_options *own, struct node *nodes)
{
	uint64_t end = now_ms() + (uint64_t)rendezvous->wait_ms;
	struct joining p = { .nodes = nodes, .count = rendezvous->nodes };
	pid_t pid;

	for (size_t i = 0; i < PENDING_MAX; i++)
		p.pending[i].fd = -1;
	pid = start_own_worker(&p, listener, own);
	while (p.joined < p.count && now_ms() < end)
		poll_pending(&p, listener, end);
	for (size_t i = 0; i < PENDING_MAX; i++) {
		if (p.pending[i].fd >= 0)
			drop(&p.pending[i]);
	}
	for (size_t i = 0; i < p.joined; i++) {
		if (*nodes[i].address)
			continue;
		nodes[i].pid = pid;
		snprintf(nodes[i].address, sizeof(nodes[i].address), "%s", rendezvous->host);
	}
	make_names_unique(nodes, p.joined);
	qsort(nodes, p.joined, sizeof(*nodes), by_name);
	name_missing(nodes, p.joined, rendezvous);
}

int rendezvous_join(const struct rendezvous *rendezvous, const struct worker_options *own)
{
	uint64_t end = now_ms() + (uint64_t)rendezvous->wait_ms;
	char why[CONTROL_TEXT];
	int fd, status;

	while ((fd = control_open(rendezvous->host, rendezvous->port, why)) < 0) {
		if (now_ms() >= end) {
			fprintf(stderr, "%s: %s\n", own->who, why);
			return 2;
		}
		sleep_ms(RETRY_MS);
	}
	watch_peer(fd);
	status = worker_run(fd, own);
	close(fd);
	if (!status)
		return 0;
	fprintf(stderr, "%s: the run ended early\n", own->who);
	return 2;
}

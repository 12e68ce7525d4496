/* SPDX-License-Identifier: Apache-2.0 */
#include "relay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define KEPT_BYTES (RELAY_HELLOS_MAX * sizeof(struct anynet_wire_hello))

struct direction {
	int from, to;
	bool over;
	size_t kept;
	unsigned char bytes[KEPT_BYTES];
};

struct relay {
	pthread_t thread;
	pthread_mutex_t lock; /* protects all below */
	struct target target;
	int listener, wake[2];
	size_t count;
	struct direction said[RELAY_CONNECTIONS_MAX], heard[RELAY_CONNECTIONS_MAX];
};

static void join(struct relay *relay)
{
	int in = accept4(relay->listener, NULL, NULL, SOCK_CLOEXEC);

	check_that(in >= 0, "accept: %s", strerror(errno));
	check(relay->count < RELAY_CONNECTIONS_MAX);
	int out = unauth_dial(&relay->target, 0);
	relay->said[relay->count] = (struct direction){ .from = in, .to = out };
	relay->heard[relay->count] = (struct direction){ .from = out, .to = in };
	relay->count++;
}

static void pass_on(struct direction *direction)
{
	unsigned char data[65536];
	ssize_t n = recv(direction->from, data, sizeof(data), MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		shutdown(direction->to, SHUT_WR);
		direction->over = true;
		return;
	}
	size_t keep = KEPT_BYTES - direction->kept;
	if (keep > (size_t)n)
		keep = (size_t)n;
	memcpy(direction->bytes + direction->kept, data, keep);
	direction->kept += keep;
	/* May block, but no one waits for another side through the relay without limit. */
	for (ssize_t sent = 0; sent < n;) {
		ssize_t one = send(direction->to, data + sent, (size_t)(n - sent), MSG_NOSIGNAL);
		if (one < 0)
			break;
		sent += one;
	}
}

static void *run(void *arg)
{
	struct relay *relay = arg;
	struct pollfd polls[2 + 2 * RELAY_CONNECTIONS_MAX];

	for (;;) {
		size_t count = relay->count;

		polls[0] = (struct pollfd){ .fd = relay->wake[0], .events = POLLIN };
		polls[1] = (struct pollfd){ .fd = relay->listener, .events = POLLIN };
		for (size_t i = 0; i < count; i++) {
			polls[2 + 2 * i] =
				(struct pollfd){ .fd = relay->said[i].over ? -1
									   : relay->said[i].from,
						 .events = POLLIN };
			polls[3 + 2 * i] =
				(struct pollfd){ .fd = relay->heard[i].over ? -1
									    : relay->heard[i].from,
						 .events = POLLIN };
		}
		check(poll(polls, 2 + 2 * count, -1) > 0);
		if (polls[0].revents)
			return NULL;
		pthread_mutex_lock(&relay->lock);
		for (size_t i = 0; i < count; i++) {
			if (polls[2 + 2 * i].revents)
				pass_on(&relay->said[i]);
			if (polls[3 + 2 * i].revents)
				pass_on(&relay->heard[i]);
		}
		if (polls[1].revents)
			join(relay);
		pthread_mutex_unlock(&relay->lock);
	}
}

struct relay *relay_start(struct link *link)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	struct relay *relay = calloc(1, sizeof(*relay));
	struct anynet_wire_handle handle;
	socklen_t len = sizeof(addr);

	check(relay);
	unauth_target(link_handle(link), &relay->target);
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	check_ok(bind(relay->listener, (const struct sockaddr *)&addr, sizeof(addr)));
	check_ok(listen(relay->listener, RELAY_CONNECTIONS_MAX));
	check_ok(getsockname(relay->listener, (struct sockaddr *)&addr, &len));
	memcpy(&handle, link_copy(link), sizeof(handle));
	memset(handle.addrs + 1, 0, sizeof(handle.addrs) - sizeof(handle.addrs[0]));
	handle.addrs[0].port = ntohs(addr.sin_port);
	memcpy(link_copy(link), &handle, sizeof(handle));
	check_ok(pipe(relay->wake));
	check_ok(pthread_mutex_init(&relay->lock, NULL));
	check_ok(pthread_create(&relay->thread, NULL, run, relay));
	return relay;
}

size_t relay_records(struct relay *relay, struct relay_record records[RELAY_CONNECTIONS_MAX])
{
	pthread_mutex_lock(&relay->lock);
	size_t count = relay->count;
	for (size_t i = 0; i < count; i++) {
		memcpy(records[i].said, relay->said[i].bytes, KEPT_BYTES);
		memcpy(records[i].heard, relay->heard[i].bytes, KEPT_BYTES);
		records[i].said_count = relay->said[i].kept / sizeof(records[i].said[0]);
		records[i].heard_count = relay->heard[i].kept / sizeof(records[i].heard[0]);
	}
	pthread_mutex_unlock(&relay->lock);
	return count;
}

void relay_stop(struct relay *relay)
{
	check(write(relay->wake[1], "", 1) == 1);
	check_ok(pthread_join(relay->thread, NULL));
	for (size_t i = 0; i < relay->count; i++) {
		close(relay->said[i].from);
		close(relay->said[i].to);
	}
	close(relay->listener);
	close(relay->wake[0]);
	close(relay->wake[1]);
	pthread_mutex_destroy(&relay->lock);
	free(relay);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The end that accepts data connections; see responder.h. */
#include "responder.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "proof.h"
#include "tools/shared/address.h"
#include "wire.h"

#define BLOCK (256 * 1024)

struct connection {
	int fd;                                                /* -1 = free */
	unsigned char opening[PROOF_NONCE + DIAL_TOKEN_BYTES]; /* nonce and token from the peer */
	size_t greeted;                                        /* bytes of `opening` received */
	uint64_t count;
	uint64_t came; /* sequence number */
};

struct responder {
	unsigned char token[DIAL_TOKEN_BYTES];
	int listeners[RESPONDER_LISTENERS];
	int listener_count;
	struct connection connections[RESPONDER_STREAMS];
	uint64_t accepted; /* connections so far */
	int stop;          /* eventfd */
	pthread_t thread;
	bool started;
	char block[BLOCK];
};

struct responder *responder_new(void)
{
	struct responder *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	for (int i = 0; i < RESPONDER_STREAMS; i++)
		r->connections[i].fd = -1;
	r->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->stop < 0 || getrandom(r->token, sizeof(r->token), 0) != sizeof(r->token)) {
		responder_stop(r);
		return NULL;
	}
	return r;
}

const unsigned char *responder_token(const struct responder *r)
{
	return r->token;
}

int responder_listen(struct responder *r, const struct sockaddr_storage *addr, int port)
{
	struct sockaddr_storage at = *addr;
	int fd;

	if (r->listener_count == RESPONDER_LISTENERS)
		return -ENOSPC;
	address_set_port(&at, port);
	fd = address_listen(&at, RESPONDER_STREAMS);
	if (fd < 0)
		return fd;
	r->listeners[r->listener_count++] = fd;
	return address_port(&at);
}

static void drop(struct connection *c)
{
	close(c->fd);
	*c = (struct connection){ .fd = -1 };
}

static bool greets(const struct connection *c)
{
	return c->greeted < sizeof(c->opening);
}

/* Returns a free slot, or that of the oldest connection that has not presented the token; NULL = none. */
static struct connection *find_slot(struct responder *r)
{
	struct connection *slot = NULL;

	for (int i = 0; i < RESPONDER_STREAMS; i++) {
		struct connection *c = &r->connections[i];

		if (c->fd < 0)
			return c;
		if (greets(c) && (!slot || c->came < slot->came))
			slot = c;
	}
	return slot;
}

/* Accepts one connection from this listener; closes it if there is no slot. */
static void take(struct responder *r, int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct connection *slot = fd >= 0 ? find_slot(r) : NULL;

	if (!slot) {
		if (fd >= 0)
			close(fd);
		return;
	}
	if (slot->fd >= 0)
		drop(slot);
	*slot = (struct connection){ .fd = fd, .came = r->accepted++ };
}

static void answer(struct connection *c)
{
	uint64_t count = htobe64(c->count);

	/* The count fits into the socket buffer, since little has been sent before. */
	send(c->fd, &count, sizeof(count), MSG_NOSIGNAL | MSG_DONTWAIT);
	drop(c);
}

/* Handles the opening: answers the nonce with the proof, then compares the token. */
static void greet(struct responder *r, struct connection *c, size_t bytes)
{
	unsigned char proof[PROOF_BYTES];
	size_t before = c->greeted;

	c->greeted += bytes;
	if (before < PROOF_NONCE && c->greeted >= PROOF_NONCE) {
		proof_make(r->token, c->opening, proof);
		if (send(c->fd, proof, sizeof(proof), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			c->greeted = 0;
	}
	if (!c->greeted || (c->greeted > PROOF_NONCE && memcmp(c->opening + PROOF_NONCE, r->token,
							       c->greeted - PROOF_NONCE) != 0))
		drop(c);
}

/* Reads the opening first, then counts the data. */
static void serve(struct responder *r, struct connection *c)
{
	bool is_opening = greets(c);
	void *to = is_opening ? c->opening + c->greeted : (unsigned char *)r->block;
	ssize_t n =
		recv(c->fd, to, is_opening ? sizeof(c->opening) - c->greeted : BLOCK, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (!n && !is_opening) {
		answer(c);
		return;
	}
	if (n <= 0) {
		drop(c);
		return;
	}
	if (!is_opening) {
		c->count += (uint64_t)n;
		return;
	}
	greet(r, c, (size_t)n);
}

static void *run(void *arg)
{
	struct responder *r = arg;
	uint64_t end = now_ms() + RESPONDER_MS;
	struct pollfd pfds[1 + RESPONDER_LISTENERS + RESPONDER_STREAMS];
	int streams = 1 + r->listener_count;

	while (now_ms() < end) {
		pfds[0] = (struct pollfd){ .fd = r->stop, .events = POLLIN };
		for (int i = 0; i < r->listener_count; i++)
			pfds[1 + i] = (struct pollfd){ .fd = r->listeners[i], .events = POLLIN };
		for (int i = 0; i < RESPONDER_STREAMS; i++)
			pfds[streams + i] =
				(struct pollfd){ .fd = r->connections[i].fd, .events = POLLIN };
		if (poll(pfds, (nfds_t)(streams + RESPONDER_STREAMS), 1000) <= 0)
			continue;
		if (pfds[0].revents)
			break;
		for (int i = 0; i < RESPONDER_STREAMS; i++) {
			if (pfds[streams + i].revents && r->connections[i].fd >= 0)
				serve(r, &r->connections[i]);
		}
		for (int i = 0; i < r->listener_count; i++) {
			if (pfds[1 + i].revents)
				take(r, r->listeners[i]);
		}
	}
	return NULL;
}

int responder_start(struct responder *r)
{
	int error = pthread_create(&r->thread, NULL, run, r);

	r->started = !error;
	return -error;
}

void responder_stop(struct responder *r)
{
	if (!r)
		return;
	if (r->started) {
		eventfd_write(r->stop, 1);
		pthread_join(r->thread, NULL);
	}
	for (int i = 0; i < r->listener_count; i++)
		close(r->listeners[i]);
	for (int i = 0; i < RESPONDER_STREAMS; i++) {
		if (r->connections[i].fd >= 0)
			close(r->connections[i].fd);
	}
	if (r->stop >= 0)
		close(r->stop);
	free(r);
}

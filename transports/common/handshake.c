/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handshakes of the accept engine: each accepted connection has a slot until it has said a hello that
 * belongs to an endpoint, or until its deadline. Most connections bring their hello with them and are
 * done in one step. Everything here runs under the engine's lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <unistd.h>

#include <nccl_net/log.h>

#include "listen_internal.h"
#include "socket.h"

#define HANDSHAKES_MAX   1024 /* beyond, the oldest stranger has to go */
#define EVENTS_PER_TURN  64
#define ACCEPTS_PER_TURN 256

struct handshake {
	TAILQ_ENTRY(handshake) link; /* oldest first */
	int fd;
	uint64_t deadline_ms;
	size_t got;
	struct anynet_wire_hello hello;
};

static TAILQ_HEAD(, handshake) handshakes = TAILQ_HEAD_INITIALIZER(handshakes);
static unsigned handshake_count;

static void handshake_end(struct handshake *hs, bool keep_fd)
{
	TAILQ_REMOVE(&handshakes, hs, link);
	handshake_count--;
	if (!keep_fd)
		close(hs->fd);
	free(hs);
}

void handshake_abort_all(void)
{
	while (!TAILQ_EMPTY(&handshakes))
		handshake_end(TAILQ_FIRST(&handshakes), false);
}

static void refuse_version(struct handshake *hs)
{
	struct anynet_wire_hello answer = {
		.magic = ANYNET_HELLO_MAGIC,
		.version = ANYNET_WIRE_VERSION,
		.type = ANYNET_WELCOME,
		.bytes = sizeof(answer),
		.endpoint = hs->hello.endpoint,
		.status = ANYNET_STATUS_VERSION,
	};
	char addr[SOCKET_TEXT_BYTES];
	size_t done = 0;

	if (!endpoint_find(hs->hello.endpoint, hs->hello.token))
		return;
	anynet_warn(
		"peer %s speaks wire version %u, this process %u: install the same anynet on every "
		"host",
		socket_peer_text(hs->fd, addr, sizeof(addr)), hs->hello.version,
		ANYNET_WIRE_VERSION);
	socket_send_some(hs->fd, &answer, sizeof(answer), &done);
}

/* The hello is complete. A fresh socket's buffer has room for the answer; a peer that sees less of it
 * sees the connection closed and tries again. */
static void greet(struct handshake *hs)
{
	struct anynet_wire_hello answer = { 0 };
	size_t done = 0;
	int ret;

	ret = hello_check(&hs->hello, ANYNET_HELLO);
	if (ret) {
		if (ret == -EPROTONOSUPPORT)
			refuse_version(hs);
		handshake_end(hs, false);
		return;
	}
	ret = endpoint_admit(&hs->hello, hs->fd, &answer);
	if (ret != -ENOENT && socket_send_some(hs->fd, &answer, sizeof(answer), &done) && !ret)
		endpoint_withdraw(hs->hello.endpoint);
	handshake_end(hs, !ret);
}

/* Take in what there is of the hello. -EAGAIN: more is to come; else the handshake is over. */
static int read_hello(struct handshake *hs)
{
	int ret = socket_recv_some(hs->fd, &hs->hello, sizeof(hs->hello), &hs->got);
	uint64_t magic = ANYNET_HELLO_MAGIC;

	/* A stranger is sent away at the first wrong byte. */
	if (memcmp(&hs->hello, &magic, anynet_min(hs->got, sizeof(magic))))
		ret = -EPROTO;
	else if (hello_is_foreign(&hs->hello, hs->got))
		ret = 0;
	if (ret == -EAGAIN)
		return ret;
	if (ret)
		handshake_end(hs, false);
	else
		greet(hs);
	return ret;
}

static void go_on(int epfd, struct handshake *hs)
{
	int fd = hs->fd;

	/* Out of the set before the rail that it may become can be closed. */
	epoll_ctl(epfd, EPOLL_CTL_DEL, fd, NULL);
	if (read_hello(hs) == -EAGAIN) {
		struct epoll_event event = { .events = EPOLLIN, .data.ptr = hs };

		if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event))
			handshake_end(hs, false);
	}
}

static void start_handshake(int epfd, int fd, uint64_t now_ms)
{
	struct handshake *hs = calloc(1, sizeof(*hs));
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = hs };

	if (!hs) {
		close(fd);
		return;
	}
	if (handshake_count == HANDSHAKES_MAX)
		handshake_end(TAILQ_FIRST(&handshakes), false);
	hs->fd = fd;
	hs->deadline_ms = now_ms + (uint64_t)anynet_net.cfg->handshake_timeout_ms;
	TAILQ_INSERT_TAIL(&handshakes, hs, link);
	handshake_count++;
	/* Most bring their hello with them and never enter the set. */
	if (read_hello(hs) == -EAGAIN && epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event))
		handshake_end(hs, false);
}

/* Out of descriptors: the oldest stranger gives up its own for the one that waits. */
static bool make_room(int err)
{
	if ((err != -EMFILE && err != -ENFILE) || TAILQ_EMPTY(&handshakes))
		return false;
	handshake_end(TAILQ_FIRST(&handshakes), false);
	return true;
}

static void accept_waiting(int epfd, int listen_fd, uint64_t now_ms)
{
	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		int fd = socket_accept(listen_fd);

		if (fd >= 0)
			start_handshake(epfd, fd, now_ms);
		else if (fd != -EINTR && fd != -ECONNABORTED && !make_room(fd))
			return;
	}
}

void handshake_turn(int epfd, uint64_t now_ms)
{
	struct epoll_event events[EVENTS_PER_TURN];
	int n = epoll_wait(epfd, events, EVENTS_PER_TURN, 0);
	bool accepting[ANYNET_DEVICES_MAX] = { false };

	/* Handshakes first: accepting may end one that has an event here. */
	for (int i = 0; i < n; i++) {
		if (events[i].data.u64 & 1)
			accepting[events[i].data.u64 >> 1] = true;
		else
			go_on(epfd, events[i].data.ptr);
	}
	for (unsigned i = 0; n > 0 && i < ANYNET_DEVICES_MAX; i++)
		if (accepting[i])
			accept_waiting(epfd, listen_socket_fd(i), now_ms);
	while (!TAILQ_EMPTY(&handshakes) && TAILQ_FIRST(&handshakes)->deadline_ms <= now_ms)
		handshake_end(TAILQ_FIRST(&handshakes), false);
}

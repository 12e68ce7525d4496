/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handshakes of the accept engine. Each accepted connection holds a slot until its hello is complete, names an endpoint
 * and, with a secret, has been proved; or until its deadline. Most hellos arrive together with their connection, and
 * one step is enough. Everything here needs the engine's lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <sys/resource.h>

#include <nccl_net/log.h>

#include "base/fd.h"
#include "base/libc_text.h"
#include "base/log_once.h"
#include "base/socket.h"
#include "session/listen_internal.h"
#include "session/listen_sockets.h"
#include "wire/allow.h"
#include "wire/auth.h"

#define HANDSHAKES_MAX   1024 /* max in each crowd: beyond, one of them is closed */
#define FDS_SHARE        8    /* max in each crowd, as a part of RLIMIT_NOFILE: 1/8 */
#define EVENTS_PER_TURN  64
#define ACCEPTS_PER_TURN 256
#define REST_MS          20    /* pause of accepting after a failure, such as no free descriptor */
#define REST_WARN_MS     60000 /* between two warnings of that */

struct handshake {
	TAILQ_ENTRY(handshake) link;
	struct crowd *crowd; /* the one that it is in */
	int fd;
	struct sockaddr_storage from;
	uint64_t deadline_ms;
	size_t got;
	int64_t endpoint; /* named by its hello; -1 = unknown, or no hello yet */
	struct auth auth;
	struct anynet_wire_hello *response; /* NULL until the CHALLENGE is sent */
	struct anynet_wire_hello hello;
};

/* Handshakes, oldest first. That is the order of their deadlines, too. */
struct crowd {
	TAILQ_HEAD(handshakes, handshake) list;
	unsigned count;
};

/* A challenged connection has sent a hello with a valid proof, though maybe a replayed one. Unauthenticated connections
 * do not displace it. */
static struct crowd unauthenticated = { .list = TAILQ_HEAD_INITIALIZER(unauthenticated.list) };
static struct crowd challenged = { .list = TAILQ_HEAD_INITIALIZER(challenged.list) };

static struct log_once told_barred, told_refused;

/* Accepting pauses while it fails, for example without free descriptors or memory. */
static struct {
	int reserve_fd;    /* closed to accept one connection without a free descriptor; -1 = not open */
	int err;           /* -errno that started the pause; 0 = none */
	uint64_t until_ms; /* end of the pause */
	uint64_t warned_ms;
} rest = { .reserve_fd = -1 };

/* --- crowds --- */

static void handshake_end(struct handshake *hs, bool keep_fd)
{
	TAILQ_REMOVE(&hs->crowd->list, hs, link);
	hs->crowd->count--;
	if (!keep_fd)
		fd_hang_up(&hs->fd, sockets_epoll_fd());
	free(hs->response);
	free(hs);
}

static void join(struct handshake *hs, struct crowd *crowd, uint64_t now_ms)
{
	hs->crowd = crowd;
	hs->deadline_ms = now_ms + (uint64_t)anynet_net.cfg->handshake_timeout_ms;
	TAILQ_INSERT_TAIL(&crowd->list, hs, link);
	crowd->count++;
}

static void end_all(struct crowd *crowd)
{
	while (!TAILQ_EMPTY(&crowd->list))
		handshake_end(TAILQ_FIRST(&crowd->list), false);
}

/* Leaves most file descriptors to the program. */
static unsigned handshakes_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return HANDSHAKES_MAX;
	return (unsigned)anynet_min(limit.rlim_cur / FDS_SHARE, HANDSHAKES_MAX);
}

/* The handshake to close in favour of the newest: the oldest one for the same endpoint, so that a replayed hello
 * displaces only handshakes of its endpoint; if there is none, the oldest of all. */
static struct handshake *victim(struct crowd *crowd)
{
	struct handshake *newest = TAILQ_LAST(&crowd->list, handshakes), *hs;

	TAILQ_FOREACH (hs, &crowd->list, link)
		if (hs != newest && hs->endpoint == newest->endpoint)
			return hs;
	return TAILQ_FIRST(&crowd->list);
}

/* Ends handshakes that are late or too many. It frees them, so not while their epoll events are being handled. */
static void trim(struct crowd *crowd, uint64_t now_ms)
{
	while (crowd->count && TAILQ_FIRST(&crowd->list)->deadline_ms <= now_ms)
		handshake_end(TAILQ_FIRST(&crowd->list), false);
	while (crowd->count && crowd->count > handshakes_max())
		handshake_end(victim(crowd), false);
}

void handshake_abort_all(void)
{
	end_all(&unauthenticated);
	end_all(&challenged);
	fd_close(&rest.reserve_fd);
	rest.err = 0;
}

/* --- one handshake --- */

/* A new socket has room for the whole answer. If it does not fit, the connection is closed and the peer tries again. */
static int answer(struct handshake *hs, const struct anynet_wire_hello *message)
{
	size_t done = 0;

	return socket_send_some(hs->fd, message, sizeof(*message), &done);
}

static void refuse(struct handshake *hs, enum anynet_hello_status status, const char *reason)
{
	struct anynet_wire_hello refusal = {
		.magic = ANYNET_HELLO_MAGIC,
		.bytes = sizeof(refusal),
		.status = status,
		.pid = anynet_net.pid,
	};
	char addr[SOCKET_TEXT_BYTES];

	hello_answer(&refusal, &hs->hello);
	snprintf(refusal.host, sizeof(refusal.host), "%.63s", anynet_net.host);
	snprintf(refusal.reason, sizeof(refusal.reason), "%s", reason);
	if (log_once(&told_refused, &hs->from))
		anynet_warn("connection from %s refused: %s", socket_text(&hs->from, addr), reason);
	answer(hs, &refusal);
}

static void refuse_version(struct handshake *hs)
{
	char reason[128];

	if (!endpoint_expects(&hs->hello))
		return;
	snprintf(
		reason, sizeof(reason),
		"it speaks wire version %u, this process %u to %u: install the same anynet on every host",
		hs->hello.version, wire_oldest(), wire_newest());
	refuse(hs, ANYNET_STATUS_VERSION, reason);
}

static int admit(struct handshake *hs, bool proven)
{
	struct anynet_wire_hello welcome = { 0 };
	int ret = endpoint_admit(&hs->hello, hs->fd, proven ? &hs->auth : NULL, &welcome);

	if (ret == -ENOENT || ret == -EINPROGRESS)
		return ret;
	if (((proven && auth_prove(&hs->auth, &welcome)) || answer(hs, &welcome)) && !ret)
		endpoint_withdraw(&hs->hello);
	return ret;
}

static int challenge(struct handshake *hs, uint64_t now_ms)
{
	struct anynet_wire_hello message;
	int ret = auth_challenge(&hs->auth, &hs->hello, &message);

	if (!ret)
		ret = answer(hs, &message);
	if (ret)
		return ret == -EAGAIN ? -ENOBUFS : ret;
	hs->response = calloc(1, sizeof(*hs->response));
	if (!hs->response)
		return -ENOMEM;
	hs->got = 0;
	TAILQ_REMOVE(&hs->crowd->list, hs, link);
	hs->crowd->count--;
	join(hs, &challenged, now_ms);
	return -EAGAIN;
}

/* The hello is complete. -EAGAIN: the CHALLENGE is sent, the RESPONSE is to come. */
static int greet(struct handshake *hs, uint64_t now_ms)
{
	char why[sizeof(hs->hello.reason)];
	bool known;
	int ret = hello_check(&hs->hello, ANYNET_HELLO);

	if (ret == -EPROTONOSUPPORT)
		refuse_version(hs);
	if (ret)
		return ret;
	known = endpoint_expects(&hs->hello);
	hs->endpoint = known ? (int64_t)hs->hello.endpoint : -1;
	/* A RESUME, QP or PROBE of a closed comm is answered, even without a known token: this reveals one bit about
	 * a random number. */
	if (!known && hs->hello.kind < ANYNET_KIND_RESUME)
		return -ENOENT;
	switch (auth_judge(&hs->auth, &hs->hello, why, sizeof(why))) {
	case AUTH_ADMIT:
		return admit(hs, false);
	case AUTH_CHALLENGE:
		return challenge(hs, now_ms);
	default:
		/* No answer for an unknown endpoint: anybody can name one, and a true peer had the right secret at
		 * set-up. */
		if (known)
			refuse(hs, ANYNET_STATUS_AUTH, why);
		return -EACCES;
	}
}

/* The RESPONSE is complete. */
static int judge_response(struct handshake *hs)
{
	char why[sizeof(hs->hello.reason)] =
		"it has not proved that it knows the secret (ANYNET_SECRET_FILE): its hello may be a replay";
	int ret = hello_check(hs->response, ANYNET_RESPONSE);

	if (!ret)
		ret = auth_check(&hs->auth, hs->response);
	if (!ret)
		return admit(hs, true);
	if (ret == -EIO)
		auth_say_unable(why, sizeof(why));
	refuse(hs, ANYNET_STATUS_AUTH, why);
	return ret;
}

/* Receives more of the hello. The first wrong byte of the magic ends the handshake. */
static int read_hello(struct handshake *hs)
{
	int ret = socket_recv_some(hs->fd, &hs->hello, sizeof(hs->hello), &hs->got);
	uint64_t magic = ANYNET_HELLO_MAGIC;

	if (memcmp(&hs->hello, &magic, anynet_min(hs->got, sizeof(magic))))
		return -EPROTO;
	return hello_is_foreign(&hs->hello, hs->got) ? 0 : ret;
}

/* Continues as far as possible. Frees the handshake if it is over. */
static void handshake_step(struct handshake *hs, uint64_t now_ms)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = hs };
	int ret;

	if (hs->response) {
		ret = socket_recv_some(hs->fd, hs->response, sizeof(*hs->response), &hs->got);
		if (!ret)
			ret = judge_response(hs);
	} else {
		ret = read_hello(hs);
		if (!ret)
			ret = greet(hs, now_ms);
	}
	/* More data must arrive. Most hellos are there at once, and their socket never enters the set. */
	if (ret == -EAGAIN && !epoll_ctl(sockets_epoll_fd(), EPOLL_CTL_ADD, hs->fd, &event))
		return;
	handshake_end(hs, !ret || ret == -EINPROGRESS);
}

static void go_on(struct handshake *hs, uint64_t now_ms)
{
	/* Leave the set first: the socket may pass to a stream, which may be closed, and `hs` may be freed. */
	epoll_ctl(sockets_epoll_fd(), EPOLL_CTL_DEL, hs->fd, NULL);
	handshake_step(hs, now_ms);
}

/* --- accepting --- */

static void start_handshake(int fd, const struct sockaddr_storage *from, uint64_t now_ms)
{
	struct handshake *hs = calloc(1, sizeof(*hs));

	if (!hs) {
		fd_close(&fd);
		return;
	}
	hs->fd = fd;
	hs->from = *from;
	hs->endpoint = -1;
	join(hs, &unauthenticated, now_ms);
	handshake_step(hs, now_ms);
}

static bool is_allowed(const struct sockaddr_storage *from)
{
	char addr[SOCKET_TEXT_BYTES];

	if (allow_permits(from))
		return true;
	if (log_once(&told_barred, from))
		anynet_info("connection from %s refused: not in ANYNET_ALLOW",
			    socket_text(from, addr));
	return false;
}

static bool is_shortage(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOBUFS || err == -ENOMEM;
}

/* Did accept fail because of that one connection? Linux reports its pending network error here (accept(2)). */
static bool is_lost(int err)
{
	return err == -ECONNABORTED || err == -EINTR || err == -EPROTO || err == -EPERM ||
	       err == -ENETDOWN || err == -ENETUNREACH || err == -EHOSTDOWN ||
	       err == -EHOSTUNREACH || err == -ENOPROTOOPT || err == -EOPNOTSUPP || err == -ENONET;
}

/* Out of descriptors or memory: closes the oldest unauthenticated connection, or else the reserve descriptor, to accept
 * the one that waits. False: there is neither. */
static bool make_room(void)
{
	if (!TAILQ_EMPTY(&unauthenticated.list)) {
		handshake_end(TAILQ_FIRST(&unauthenticated.list), false);
		return true;
	}
	if (rest.reserve_fd < 0)
		return false;
	fd_close(&rest.reserve_fd);
	return true;
}

static void listen_for(uint32_t events)
{
	for (unsigned i = 0; i < ANYNET_DEVICES_MAX; i++) {
		struct epoll_event event = { .events = events, .data.u64 = LISTEN_EVENT_SOCKET(i) };

		if (sockets_fd(i) >= 0)
			epoll_ctl(sockets_epoll_fd(), EPOLL_CTL_MOD, sockets_fd(i), &event);
	}
}

/* Pauses accepting. Connections wait in the kernel, and their events do not keep the engine busy. */
static void begin_rest(int err, uint64_t now_ms)
{
	rest.until_ms = now_ms + REST_MS;
	rest.err = err;
	listen_for(0);
	if (rest.warned_ms && now_ms - rest.warned_ms < REST_WARN_MS)
		return;
	rest.warned_ms = now_ms;
	if (is_shortage(err))
		anynet_warn(
			"cannot accept connections: out of %s: %s; they wait in the kernel until "
			"some is free%s",
			err == -EMFILE || err == -ENFILE ? "file descriptors" : "memory", error_text(-err),
			err == -EMFILE ? " (raise ulimit -n)" : "");
	else
		anynet_warn("cannot accept connections: %s; they wait in the kernel", error_text(-err));
}

static void end_rest(void)
{
	rest.err = 0;
	listen_for(EPOLLIN);
}

static void accept_waiting(int listen_fd, uint64_t now_ms)
{
	int err = 0;

	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		struct sockaddr_storage from;
		int fd = socket_accept(listen_fd, &from);

		err = fd < 0 ? fd : 0;
		if (!err && is_allowed(&from)) {
			start_handshake(fd, &from, now_ms);
			trim(&unauthenticated, now_ms);
		} else if (!err) {
			fd_close(&fd);
		} else if (err == -EAGAIN) {
			return;
		} else if (!is_lost(err) && !(is_shortage(err) && make_room())) {
			break;
		}
	}
	/* Also if accept failed to the end with errors of single connections: then its own call may be refused, for
	 * example by a seccomp filter. */
	if (err)
		begin_rest(err, now_ms);
}

int handshake_trouble(void)
{
	return rest.err;
}

void handshake_turn(uint64_t now_ms)
{
	struct epoll_event events[EVENTS_PER_TURN];
	bool accepting[ANYNET_DEVICES_MAX] = { false };
	int n;

	if (rest.reserve_fd < 0)
		rest.reserve_fd = fd_note(open("/dev/null", O_RDONLY | O_CLOEXEC));
	if (rest.err && rest.until_ms <= now_ms)
		end_rest();
	n = epoll_wait(sockets_epoll_fd(), events, EVENTS_PER_TURN, 0);
	if (n < 0 && errno != EINTR)
		begin_rest(-errno, now_ms);
	/* Handshakes first: accepting may free one that has an event here. */
	for (int i = 0; i < n; i++) {
		if (events[i].data.u64 & 1)
			accepting[events[i].data.u64 >> 1] = true;
		else
			go_on(events[i].data.ptr, now_ms);
	}
	for (unsigned i = 0; n > 0 && i < ANYNET_DEVICES_MAX; i++)
		if (accepting[i])
			accept_waiting(sockets_fd(i), now_ms);
	trim(&unauthenticated, now_ms);
	trim(&challenged, now_ms);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Tests a data port; see dial.h. */
#include "dial.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "account.h"
#include "proof.h"
#include "tools/shared/address.h"
#include "wire.h"

#define BLOCK (256 * 1024)

static const char zeros[BLOCK];

struct stream {
	int fd;
	long long left; /* bytes still to be sent */
	bool sent;      /* all bytes and the end of the stream are sent */
	bool counted;   /* the other end has reported its count */
	size_t got;     /* bytes received of the count */
	unsigned char count[8];
};

struct run {
	const struct dial *dial;
	struct stream streams[DIAL_STREAMS_MAX];
	int error; /* of the first stream that failed */
	const char *state;
	uint64_t connect_us, begin_us, end_us, bytes;
};

static const char *state_of(int error)
{
	switch (error) {
	case ECONNREFUSED:
		return "refused";
	case ETIMEDOUT:
		return "no answer";
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EACCES:
	case EPERM:
	case ENETDOWN:
		return "unreachable";
	default:
		return "failed";
	}
}

static int fail(struct run *run, const char *state, int error)
{
	run->state = state;
	run->error = error;
	return -1;
}

/* Creates a socket and starts to connect. */
static int begin_connect(struct run *run, struct stream *s)
{
	const struct dial *d = run->dial;
	int one = 1;

	s->fd = socket(d->to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->fd < 0)
		return fail(run, "failed", errno);
	setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (d->mss && setsockopt(s->fd, IPPROTO_TCP, TCP_MAXSEG, &d->mss, sizeof(d->mss)))
		return fail(run, "failed", errno);
	if (d->from.ss_family == d->to.ss_family &&
	    bind(s->fd, (const struct sockaddr *)&d->from, address_bytes(&d->from)))
		return fail(run, "failed", errno);
	if (connect(s->fd, (const struct sockaddr *)&d->to, address_bytes(&d->to)) &&
	    errno != EINPROGRESS)
		return fail(run, state_of(errno), errno);
	return 0;
}

/* Before the other end has proved that it knows the token, it receives random bytes only. */
static int meet(struct run *run, struct stream *s)
{
	unsigned char nonce[PROOF_NONCE], wanted[PROOF_BYTES], proof[PROOF_BYTES];

	if (getrandom(nonce, sizeof(nonce), 0) != sizeof(nonce))
		return fail(run, "failed", errno);
	if (pair_write(s->fd, nonce, sizeof(nonce), DIAL_WAIT_MS))
		return fail(run, "stalled", ETIMEDOUT);
	proof_make(run->dial->token, nonce, wanted);
	if (pair_read(s->fd, proof, sizeof(proof), DIAL_WAIT_MS) ||
	    memcmp(proof, wanted, sizeof(proof)) != 0)
		return fail(run, "not ours", ECONNRESET);
	if (pair_write(s->fd, run->dial->token, DIAL_TOKEN_BYTES, DIAL_WAIT_MS))
		return fail(run, "stalled", ETIMEDOUT);
	return 0;
}

static int finish_connect(struct run *run, struct stream *s)
{
	uint64_t end = now_ms() + DIAL_WAIT_MS;
	socklen_t len = sizeof(run->error);
	int error = 0;

	for (;;) {
		struct pollfd pfd = { .fd = s->fd, .events = POLLOUT };
		int left = ms_until(end);

		if (!left)
			return fail(run, "no answer", ETIMEDOUT);
		if (poll(&pfd, 1, left) > 0)
			break;
	}
	if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len))
		error = errno;
	if (error)
		return fail(run, state_of(error), error);
	return meet(run, s);
}

static int connect_all(struct run *run)
{
	uint64_t begin = now_us();

	for (int i = 0; i < run->dial->streams; i++) {
		struct stream *s = &run->streams[i];

		s->left = run->dial->bytes / run->dial->streams;
		if (begin_connect(run, s) || finish_connect(run, s))
			return -1;
		if (!i)
			run->connect_us = now_us() - begin;
	}
	return 0;
}

/* A connection that ends before the count belongs to another program, or was cut on the path. */
static int broken(struct run *run, int error)
{
	return fail(run, error ? "failed" : "not ours", error ? error : ECONNRESET);
}

static int send_some(struct run *run, struct stream *s, bool in_time)
{
	while (in_time && s->left) {
		size_t bytes = s->left < BLOCK ? (size_t)s->left : BLOCK;
		ssize_t n = send(s->fd, zeros, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n < 0)
			return broken(run, errno);
		s->left -= n;
		in_time = n == (ssize_t)bytes;
		if (!in_time)
			return 0;
	}
	shutdown(s->fd, SHUT_WR);
	s->sent = true;
	return 0;
}

static int read_count(struct run *run, struct stream *s)
{
	ssize_t n = recv(s->fd, s->count + s->got, sizeof(s->count) - s->got, MSG_DONTWAIT);
	uint64_t count;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return broken(run, n ? errno : 0);
	s->got += (size_t)n;
	if (s->got < sizeof(s->count))
		return 0;
	memcpy(&count, s->count, sizeof(count));
	run->bytes += be64toh(count);
	s->counted = true;
	return 0;
}

static int step(struct run *run, struct stream *s, short events, bool in_time)
{
	if (s->counted)
		return 0;
	if (events & (POLLIN | POLLHUP | POLLERR) && read_count(run, s))
		return -1;
	if (!s->sent && !s->counted && (events & POLLOUT || !in_time))
		return send_some(run, s, in_time);
	return 0;
}

static int transfer(struct run *run)
{
	size_t count = (size_t)run->dial->streams, open = count;
	uint64_t stop, end, now;

	run->begin_us = now_us();
	stop = now_ms() + (uint64_t)run->dial->ms;
	end = stop + DIAL_WAIT_MS;
	while (open) {
		struct pollfd pfds[DIAL_STREAMS_MAX];

		now = now_ms();
		if (now >= end)
			return fail(run, "stalled", ETIMEDOUT);
		for (size_t i = 0; i < count; i++) {
			const struct stream *s = &run->streams[i];

			pfds[i] = (struct pollfd){ .fd = s->counted ? -1 : s->fd,
						   .events = s->sent ? POLLIN : POLLIN | POLLOUT };
		}
		poll(pfds, count, (int)((now < stop ? stop : end) - now));
		now = now_ms();
		open = 0;
		for (size_t i = 0; i < count; i++) {
			if (step(run, &run->streams[i], pfds[i].revents, now < stop))
				return -1;
			open += !run->streams[i].counted;
		}
	}
	run->end_us = now_us();
	return 0;
}

static void add(json_t *object, const char *key, uint64_t value)
{
	json_object_set_new(object, key, json_integer((json_int_t)value));
}

json_t *dial_run(const struct dial *dial)
{
	struct run run = { .dial = dial, .state = "ok" };
	json_t *object = json_object();
	struct account account = { 0 };

	for (int i = 0; i < DIAL_STREAMS_MAX; i++)
		run.streams[i].fd = -1;
	if (!connect_all(&run))
		transfer(&run);
	json_object_set_new(object, "state", json_string(run.state));
	json_object_set_new(object, "error", json_string(run.error ? strerror(run.error) : ""));
	add(object, "streams", (uint64_t)dial->streams);
	add(object, "connect_us", run.connect_us);
	add(object, "bytes", run.bytes);
	add(object, "us", run.end_us ? run.end_us - run.begin_us : 0);
	for (int i = 0; i < dial->streams; i++) {
		if (run.streams[i].fd < 0)
			continue;
		account_add(&account, run.streams[i].fd);
		close(run.streams[i].fd);
	}
	if (account.connections)
		account_tell(object, &account);
	return object;
}

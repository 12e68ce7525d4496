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

struct run {
	const struct dial *dial;
	int fd;
	long long left; /* bytes still to be sent */
	bool sent;      /* all bytes and the end of the stream are sent */
	bool counted;   /* the other end has reported its count */
	size_t got;     /* bytes received of the count */
	unsigned char count[8];
	int error;
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
static int begin_connect(struct run *run)
{
	const struct dial *d = run->dial;
	int one = 1;

	run->fd = socket(d->to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (run->fd < 0)
		return fail(run, "failed", errno);
	setsockopt(run->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (d->mss && setsockopt(run->fd, IPPROTO_TCP, TCP_MAXSEG, &d->mss, sizeof(d->mss)))
		return fail(run, "failed", errno);
	if (d->from.ss_family == d->to.ss_family &&
	    bind(run->fd, (const struct sockaddr *)&d->from, address_bytes(&d->from)))
		return fail(run, "failed", errno);
	if (connect(run->fd, (const struct sockaddr *)&d->to, address_bytes(&d->to)) &&
	    errno != EINPROGRESS)
		return fail(run, state_of(errno), errno);
	return 0;
}

/* Before the other end has proved that it knows the token, it receives random bytes only. */
static int meet(struct run *run)
{
	unsigned char nonce[PROOF_NONCE], wanted[PROOF_BYTES], proof[PROOF_BYTES];

	if (getrandom(nonce, sizeof(nonce), 0) != sizeof(nonce))
		return fail(run, "failed", errno);
	if (pair_write(run->fd, nonce, sizeof(nonce), DIAL_WAIT_MS))
		return fail(run, "stalled", ETIMEDOUT);
	proof_make(run->dial->token, nonce, wanted);
	if (pair_read(run->fd, proof, sizeof(proof), DIAL_WAIT_MS) ||
	    memcmp(proof, wanted, sizeof(proof)) != 0)
		return fail(run, "not anynet", ECONNRESET);
	if (pair_write(run->fd, run->dial->token, DIAL_TOKEN_BYTES, DIAL_WAIT_MS))
		return fail(run, "stalled", ETIMEDOUT);
	return 0;
}

static int finish_connect(struct run *run)
{
	uint64_t end = now_ms() + DIAL_WAIT_MS;
	socklen_t len = sizeof(run->error);
	int error = 0;

	for (;;) {
		struct pollfd pfd = { .fd = run->fd, .events = POLLOUT };
		int left = ms_until(end);

		if (!left)
			return fail(run, "no answer", ETIMEDOUT);
		if (poll(&pfd, 1, left) > 0)
			break;
	}
	if (getsockopt(run->fd, SOL_SOCKET, SO_ERROR, &error, &len))
		error = errno;
	if (error)
		return fail(run, state_of(error), error);
	return meet(run);
}

static int connect_to(struct run *run)
{
	uint64_t begin = now_us();

	if (begin_connect(run) || finish_connect(run))
		return -1;
	run->connect_us = now_us() - begin;
	return 0;
}

/* A connection that ends before the count belongs to another program, or was cut on the path. */
static int broken(struct run *run, int error)
{
	return fail(run, error ? "failed" : "not anynet", error ? error : ECONNRESET);
}

static int send_some(struct run *run, bool in_time)
{
	while (in_time && run->left) {
		size_t bytes = run->left < BLOCK ? (size_t)run->left : BLOCK;
		ssize_t n = send(run->fd, zeros, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n < 0)
			return broken(run, errno);
		run->left -= n;
		in_time = n == (ssize_t)bytes;
		if (!in_time)
			return 0;
	}
	shutdown(run->fd, SHUT_WR);
	run->sent = true;
	return 0;
}

static int read_count(struct run *run)
{
	ssize_t n =
		recv(run->fd, run->count + run->got, sizeof(run->count) - run->got, MSG_DONTWAIT);
	uint64_t count;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return broken(run, n ? errno : 0);
	run->got += (size_t)n;
	if (run->got < sizeof(run->count))
		return 0;
	memcpy(&count, run->count, sizeof(count));
	run->bytes += be64toh(count);
	run->counted = true;
	return 0;
}

static int transfer(struct run *run)
{
	uint64_t stop = now_ms() + (uint64_t)run->dial->ms, end = stop + DIAL_WAIT_MS, now;

	run->begin_us = now_us();
	while (!run->counted) {
		struct pollfd pfd = { .fd = run->fd,
				      .events = run->sent ? POLLIN : POLLIN | POLLOUT };
		bool in_time;

		now = now_ms();
		if (now >= end)
			return fail(run, "stalled", ETIMEDOUT);
		poll(&pfd, 1, (int)((now < stop ? stop : end) - now));
		in_time = now_ms() < stop;
		if (pfd.revents & (POLLIN | POLLHUP | POLLERR) && read_count(run))
			return -1;
		if (!run->sent && !run->counted && (pfd.revents & POLLOUT || !in_time) &&
		    send_some(run, in_time))
			return -1;
	}
	run->end_us = now_us();
	return 0;
}

json_t *dial_run(const struct dial *dial)
{
	struct run run = { .dial = dial, .fd = -1, .left = dial->bytes, .state = "ok" };
	struct account account = { 0 };
	json_t *object;

	if (!connect_to(&run))
		transfer(&run);
	object = json_pack("{s:s, s:s, s:i, s:I, s:I, s:I}", "state", run.state, "error",
			   run.error ? strerror(run.error) : "", "streams", 1, "connect_us",
			   (json_int_t)run.connect_us, "bytes", (json_int_t)run.bytes, "us",
			   (json_int_t)(run.end_us ? run.end_us - run.begin_us : 0));
	if (run.fd < 0)
		return object;
	account_add(&account, run.fd);
	close(run.fd);
	if (account.connections)
		account_tell(object, &account);
	return object;
}

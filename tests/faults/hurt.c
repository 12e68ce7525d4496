/* SPDX-License-Identifier: Apache-2.0 */
#include "hurt.h"
#include "front.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <support/buffer.h>
#include <support/check.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 256
#define DESCRIPTORS_MAX 1024 /* descriptors that are examined */
#define HOUR_S          3600
#define IDLE_US         1000
#define JUMP_NS         500000000u
#define VAIN_MAX \
	20 /* breaks without a message done between them, for which a loaded job needs a time slice */

static struct {
	struct shared *shared;
	int side;
	uint64_t random, jumped_ns, messages;
	unsigned in_vain; /* breaks since a message was done */
	pthread_t thread;
	_Atomic bool over;
} hurt;

bool hurt_is_connection(int fd)
{
	struct sockaddr_storage addr;
	socklen_t bytes = sizeof(int);
	int value = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &value, &bytes) || value != IPPROTO_TCP)
		return false;
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &bytes) || value)
		return false;
	bytes = sizeof(addr);
	return !getpeername(fd, (struct sockaddr *)&addr, &bytes);
}

/* Without /proc, which allocates memory. */
static unsigned find_connections(int fds[CONNECTIONS_MAX])
{
	unsigned count = 0;

	for (int fd = 0; fd < DESCRIPTORS_MAX && count < CONNECTIONS_MAX; fd++) {
		if (hurt_is_connection(fd))
			fds[count++] = fd;
	}
	return count;
}

/* --- sockets ended by the kernel (SOCK_DESTROY) --- */

struct destroy_request {
	struct nlmsghdr header;
	struct inet_diag_req_v2 diag;
};

/* With its cookie: by addresses alone the kernel may find the listening socket instead, when the connection has just
 * ended. */
static bool name_connection(int fd, struct inet_diag_req_v2 *diag)
{
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} from, to;
	socklen_t bytes = sizeof(from);
	uint64_t cookie;

	if (getsockname(fd, &from.any, &bytes))
		return false;
	bytes = sizeof(to);
	if (getpeername(fd, &to.any, &bytes))
		return false;
	bytes = sizeof(cookie);
	if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &bytes))
		return false;
	*diag = (struct inet_diag_req_v2){
		.sdiag_family = (uint8_t)from.any.sa_family,
		.sdiag_protocol = IPPROTO_TCP,
		.idiag_states = ~0u,
		.id.idiag_sport = from.in.sin_port,
		.id.idiag_dport = to.in.sin_port,
		.id.idiag_cookie = { (uint32_t)cookie, (uint32_t)(cookie >> 32) },
	};
	if (from.any.sa_family == AF_INET) {
		diag->id.idiag_src[0] = from.in.sin_addr.s_addr;
		diag->id.idiag_dst[0] = to.in.sin_addr.s_addr;
	} else {
		memcpy(diag->id.idiag_src, &from.in6.sin6_addr, 16);
		memcpy(diag->id.idiag_dst, &to.in6.sin6_addr, 16);
	}
	return true;
}

static int read_verdict(int netlink)
{
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
	} answer;

	ssize_t bytes = recv(netlink, &answer, sizeof(answer), MSG_TRUNC);
	if (bytes < (ssize_t)sizeof(answer) || answer.header.nlmsg_type != NLMSG_ERROR)
		return EPROTO;
	return -answer.error.error;
}

bool hurt_reset(int fd)
{
	struct destroy_request request = {
		.header = { .nlmsg_len = sizeof(request),
			    .nlmsg_type = SOCK_DESTROY,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK },
	};
	int err = ENOTCONN;

	if (!name_connection(fd, &request.diag)) {
		errno = err;
		return false;
	}
	int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (netlink < 0)
		return false;
	if (send(netlink, &request, sizeof(request), 0) < 0)
		err = errno;
	else
		err = read_verdict(netlink);
	close(netlink);
	errno = err;
	return !err;
}

bool hurt_can_reset(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
	bool can = listener >= 0 && fd >= 0 && !bind(listener, (struct sockaddr *)&addr, bytes) &&
		   !listen(listener, 1) &&
		   !getsockname(listener, (struct sockaddr *)&addr, &bytes) &&
		   !connect(fd, (struct sockaddr *)&addr, bytes) && hurt_reset(fd);
	int err = errno;

	close(fd);
	close(listener);
	errno = err;
	return can;
}

/* --- faults --- */

/* The descriptor may have been closed, or reused for another connection meanwhile: both belong to the plugin, and it
 * does no harm here. */
static bool hurt_connection(int fd, unsigned what)
{
	if (what & HURT_RESET)
		return hurt_reset(fd);
	if (what & HURT_SHUT_HALF)
		return !shutdown(fd, random_next(&hurt.random) & 1 ? SHUT_RD : SHUT_WR);
	return !shutdown(fd, SHUT_RDWR);
}

unsigned hurt_all(unsigned what)
{
	int fds[CONNECTIONS_MAX];
	unsigned count = find_connections(fds);

	for (unsigned i = 0; i < count; i++)
		hurt_connection(fds[i], what);
	return count;
}

static bool hurt_one_connection(unsigned what)
{
	int fds[CONNECTIONS_MAX];
	unsigned count = find_connections(fds);

	return count && hurt_connection(fds[random_below(&hurt.random, count)], what);
}

/* One of the faults that `what` allows. */
static unsigned choose(unsigned what)
{
	for (;;) {
		unsigned one = 1u << random_below(&hurt.random, 7);
		if (what & one)
			return one;
	}
}

/* The plugin may count a second for each jump, as if the process had been stopped. */
static bool may_jump(void)
{
	uint64_t now = real_ns();

	if (now - hurt.jumped_ns < JUMP_NS)
		return false;
	hurt.jumped_ns = now;
	return true;
}

static void hurt_once(unsigned what)
{
	unsigned one = choose(what);
	bool done = true;

	if (one == HURT_CLOCK && !may_jump())
		one = HURT_WALL;
	if (one == HURT_WALL)
		front_wall_jump(random_next(&hurt.random) & 1 ? HOUR_S : -HOUR_S);
	else if (one == HURT_CLOCK)
		front_clock_jump(HOUR_S);
	else if (one == HURT_FLIP)
		front_flip();
	else if (one == HURT_SHORT)
		front_shorten();
	else
		done = hurt_one_connection(one);
	if (done)
		atomic_fetch_add(&hurt.shared->jobs[hurt.side].hurts, 1);
}

/* Messages that this job has done, both ways. */
static uint64_t messages(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < STREAMS_MAX; i++)
		sum += atomic_load(&hurt.shared->jobs[hurt.side].streams[i].done);
	return sum;
}

/* On a loaded machine a job may not run between two breaks, and would never deliver anything. */
static bool leaves_room(void)
{
	uint64_t now = messages();

	hurt.in_vain = now == hurt.messages ? hurt.in_vain + 1 : 0;
	hurt.messages = now;
	return hurt.in_vain < VAIN_MAX;
}

static void pause_us(unsigned us)
{
	struct timespec pause = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };
	nanosleep(&pause, NULL);
}

static void *hurt_main(void *arg)
{
	(void)arg;
	while (!atomic_load(&hurt.over)) {
		unsigned what = atomic_load(&hurt.shared->hurt[hurt.side]);
		unsigned us = atomic_load(&hurt.shared->hurt_us[hurt.side]);
		if (what && us && leaves_room())
			hurt_once(what);
		pause_us(what && us ? us : IDLE_US);
	}
	return NULL;
}

void hurt_start(struct shared *shared, int side, uint64_t seed)
{
	hurt.shared = shared;
	hurt.side = side;
	hurt.random = seed + (uint64_t)side;
	hurt.messages = hurt.in_vain = 0;
	atomic_store(&hurt.over, false);
	check_ok(pthread_create(&hurt.thread, NULL, hurt_main, NULL));
}

void hurt_stop(void)
{
	atomic_store(&hurt.over, true);
	check_ok(pthread_join(hurt.thread, NULL));
}

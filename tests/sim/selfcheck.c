/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each script of calls runs in a simulated process first, then with the kernel's loopback. The kernel's answers may be
 * delayed: a call is repeated until its answer equals that of the simulation. See selfcheck.h.
 */
#include "sim/selfcheck.h"
#include "sim/net.h"
#include "sim/process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FDS        10
#define PATIENCE_S 100
#define FULL_BYTES 65536

/* The operation of a step, on descriptors a and b. */
enum op {
	END,
	LISTEN,   /* a */
	CONNECT,  /* a to listener b */
	ACCEPT,   /* a of listener b */
	SEND,     /* n bytes */
	FILL,     /* until there is no more room */
	RECV,     /* up to n bytes */
	PEEK,     /* up to n bytes, without removing them */
	RECV_ALL, /* until nothing more is queued or in flight from b */
	SHUT,     /* n: SHUT_… */
	LINGER,   /* closing resets */
	CLOSE,
	DUP,      /* a second descriptor b for a */
	POLL,     /* the ready events */
	EPOLL,    /* a new set a */
	ADD,      /* b to set a, with events n; the token is b */
	MODIFY,
	WAIT,     /* what set a reports */
	OUTQ,     /* is data unacknowledged? */
	ERROR,    /* SO_ERROR */
	EVENT,    /* a new eventfd a */
	RAISE,    /* write to it */
	LOWER     /* read it */
};

struct step {
	enum op op;
	int a, b, n;
};

#define IN_ET  (int)(EPOLLIN | EPOLLET)
#define ALL_ET (int)(EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)
#define OPEN   { LISTEN, 0, 0, 0 }, { CONNECT, 1, 0, 0 }, { POLL, 1, 0, 0 }, { POLL, 0, 0, 0 }, { ACCEPT, 2, 0, 0 }

static const struct step scripts[][24] = {
	/* send and receive */
	{ OPEN, { POLL, 1, 0, 0 }, { SEND, 1, 0, 100 }, { POLL, 2, 0, 0 }, { RECV, 2, 0, 60 }, { RECV, 2, 0, 60 },
	  { RECV, 2, 0, 60 }, { SEND, 2, 0, 5000 }, { RECV_ALL, 1, 0, 0 }, { OUTQ, 2, 0, 0 }, { POLL, 0, 0, 0 } },
	/* MSG_PEEK leaves the data */
	{ OPEN, { PEEK, 2, 0, 10 }, { SEND, 1, 0, 100 }, { PEEK, 2, 0, 60 }, { PEEK, 2, 0, 200 }, { RECV, 2, 0, 60 },
	  { PEEK, 2, 0, 200 }, { RECV, 2, 0, 200 }, { PEEK, 2, 0, 1 }, { SHUT, 1, 0, SHUT_WR }, { PEEK, 2, 0, 1 },
	  { CLOSE, 2, 0, 0 }, { PEEK, 1, 0, 1 }, { SEND, 1, 0, 1 } },
	/* FIN after data */
	{ OPEN, { SEND, 1, 0, 100 }, { SHUT, 1, 0, SHUT_WR }, { POLL, 2, 0, 0 }, { RECV, 2, 0, 200 }, { RECV, 2, 0, 200 },
	  { POLL, 2, 0, 0 }, { SEND, 2, 0, 50 }, { RECV, 1, 0, 100 }, { POLL, 1, 0, 0 }, { SEND, 1, 0, 10 },
	  { SHUT, 2, 0, SHUT_WR }, { POLL, 1, 0, 0 }, { POLL, 2, 0, 0 }, { RECV, 1, 0, 1 }, { OUTQ, 1, 0, 0 } },
	/* closed with unread data: a reset; data received before is read first */
	{ OPEN, { SEND, 2, 0, 30 }, { SEND, 1, 0, 100 }, { CLOSE, 2, 0, 0 }, { POLL, 1, 0, 0 }, { RECV, 1, 0, 200 },
	  { RECV, 1, 0, 200 }, { RECV, 1, 0, 200 }, { SEND, 1, 0, 1 }, { POLL, 1, 0, 0 }, { OUTQ, 1, 0, 0 } },
	/* closed with SO_LINGER 0 */
	{ OPEN, { LINGER, 2, 0, 0 }, { CLOSE, 2, 0, 0 }, { POLL, 1, 0, 0 }, { SEND, 1, 0, 1 }, { SEND, 1, 0, 1 },
	  { RECV, 1, 0, 1 }, { SHUT, 1, 0, SHUT_RDWR } },
	/* a reset, while data is not acknowledged */
	{ OPEN, { FILL, 1, 0, 0 }, { LINGER, 2, 0, 0 }, { CLOSE, 2, 0, 0 }, { POLL, 1, 0, 0 }, { OUTQ, 1, 0, 0 },
	  { SEND, 1, 0, 1 }, { OUTQ, 1, 0, 0 } },
	/* no listener */
	{ { LISTEN, 0, 0, 0 }, { CONNECT, 3, 0, 0 }, { CLOSE, 0, 0, 0 }, { POLL, 3, 0, 0 }, { ERROR, 3, 0, 0 },
	  { RECV, 3, 0, 1 }, { SEND, 3, 0, 1 } },
	/* send to a closed peer */
	{ OPEN, { CLOSE, 2, 0, 0 }, { POLL, 1, 0, 0 }, { RECV, 1, 0, 1 }, { SEND, 1, 0, 10 }, { POLL, 1, 0, 0 },
	  { SEND, 1, 0, 10 }, { RECV, 1, 0, 10 } },
	/* both directions shut down, then data arrives */
	{ OPEN, { SHUT, 1, 0, SHUT_RDWR }, { POLL, 1, 0, 0 }, { POLL, 2, 0, 0 }, { RECV, 1, 0, 1 }, { SEND, 2, 0, 10 },
	  { POLL, 1, 0, 0 }, { POLL, 2, 0, 0 }, { RECV, 2, 0, 1 }, { SEND, 2, 0, 1 } },
	/* no room, then room again */
	{ OPEN, { EPOLL, 5, 0, 0 }, { ADD, 5, 1, ALL_ET }, { WAIT, 5, 0, 0 }, { WAIT, 5, 0, 0 }, { FILL, 1, 0, 0 },
	  { POLL, 1, 0, 0 }, { WAIT, 5, 0, 0 }, { OUTQ, 1, 0, 0 }, { RECV_ALL, 2, 1, 0 }, { POLL, 1, 0, 0 }, { WAIT, 5, 0, 0 },
	  { WAIT, 5, 0, 0 }, { OUTQ, 1, 0, 0 } },
	/* edge-triggered: one event per arrival of data */
	{ OPEN, { EPOLL, 5, 0, 0 }, { ADD, 5, 2, IN_ET }, { WAIT, 5, 0, 0 }, { SEND, 1, 0, 10 }, { WAIT, 5, 0, 0 },
	  { WAIT, 5, 0, 0 }, { SEND, 1, 0, 10 }, { WAIT, 5, 0, 0 }, { RECV, 2, 0, 5 }, { WAIT, 5, 0, 0 },
	  { MODIFY, 5, 2, IN_ET }, { WAIT, 5, 0, 0 }, { WAIT, 5, 0, 0 }, { SHUT, 1, 0, SHUT_WR }, { WAIT, 5, 0, 0 } },
	/* level-triggered, and an epoll set in an epoll set */
	{ OPEN, { EPOLL, 5, 0, 0 }, { EPOLL, 6, 0, 0 }, { ADD, 6, 5, EPOLLIN }, { ADD, 5, 2, EPOLLIN }, { WAIT, 6, 0, 0 },
	  { SEND, 1, 0, 10 }, { WAIT, 6, 0, 0 }, { WAIT, 5, 0, 0 }, { WAIT, 5, 0, 0 }, { RECV_ALL, 2, 0, 0 }, { WAIT, 5, 0, 0 },
	  { WAIT, 6, 0, 0 }, { ADD, 5, 2, EPOLLIN }, { CLOSE, 1, 0, 0 }, { WAIT, 6, 0, 0 }, { CLOSE, 2, 0, 0 }, { WAIT, 5, 0, 0 } },
	/* a listener that closes with a connection waiting */
	{ { LISTEN, 0, 0, 0 }, { EPOLL, 5, 0, 0 }, { ADD, 5, 0, EPOLLIN }, { CONNECT, 1, 0, 0 }, { WAIT, 5, 0, 0 },
	  { POLL, 1, 0, 0 }, { CLOSE, 0, 0, 0 }, { POLL, 1, 0, 0 }, { RECV, 1, 0, 1 }, { WAIT, 5, 0, 0 } },
	/* a second descriptor keeps a connection open, and its entry in an epoll set */
	{ OPEN, { DUP, 2, 3, 0 }, { EPOLL, 5, 0, 0 }, { ADD, 5, 2, EPOLLIN }, { CLOSE, 2, 0, 0 }, { POLL, 1, 0, 0 },
	  { SEND, 1, 0, 10 }, { WAIT, 5, 0, 0 }, { RECV, 3, 0, 20 }, { CLOSE, 3, 0, 0 }, { POLL, 1, 0, 0 }, { WAIT, 5, 0, 0 } },
	/* nothing to accept or to read */
	{ { LISTEN, 0, 0, 0 }, { ACCEPT, 2, 0, 0 }, { EVENT, 4, 0, 0 }, { LOWER, 4, 0, 0 }, { POLL, 4, 0, 0 }, { RAISE, 4, 0, 0 },
	  { RAISE, 4, 0, 0 }, { POLL, 4, 0, 0 }, { LOWER, 4, 0, 0 }, { LOWER, 4, 0, 0 }, { SEND, 4, 0, 1 }, { RECV, 9, 0, 1 },
	  { EPOLL, 5, 0, 0 }, { ADD, 5, 9, EPOLLIN }, { MODIFY, 5, 4, EPOLLIN }, { WAIT, 5, 0, 0 } },
};

#define SCRIPTS (sizeof(scripts) / sizeof(scripts[0]))
#define STEPS   (sizeof(scripts[0]) / sizeof(scripts[0][0]))

struct stage {
	int fds[FDS];
	struct sockaddr_in address;
};

static long answers[SCRIPTS][STEPS];

static int new_stream(void)
{
	return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
}

static long listen_at(struct stage *stage, int a)
{
	struct sockaddr_in any = stage->address;
	socklen_t bytes = sizeof(any);

	stage->fds[a] = new_stream();
	any.sin_port = 0;
	if (bind(stage->fds[a], (struct sockaddr *)&any, sizeof(any)) || listen(stage->fds[a], 16))
		return -1;
	return getsockname(stage->fds[a], (struct sockaddr *)&stage->address, &bytes);
}

/* Later steps run after the handshake: during it the order of events is not defined. */
static long connect_to(struct stage *stage, const struct step *step)
{
	stage->fds[step->a] = new_stream();
	if (step->a == 3) /* a connection to be refused */
		close(stage->fds[step->b]);
	return connect(stage->fds[step->a], (struct sockaddr *)&stage->address, sizeof(stage->address));
}

static long accept_from(struct stage *stage, const struct step *step)
{
	struct sockaddr_in from;
	socklen_t bytes = sizeof(from);
	int fd = accept4(stage->fds[step->b], (struct sockaddr *)&from, &bytes, SOCK_NONBLOCK);

	if (fd >= 0)
		stage->fds[step->a] = fd;
	return fd < 0 ? -1 : 0;
}

static long move(int fd, int op)
{
	static char data[FULL_BYTES];
	ssize_t n;
	long total = 0;

	do {
		n = op == FILL ? send(fd, data, sizeof(data), MSG_NOSIGNAL) : recv(fd, data, sizeof(data), 0);
		total += n > 0;
	} while (n > 0);
	errno = n ? errno : 0;
	return total ? 1000000 - errno : -1; /* the sizes of the buffers differ */
}

static long get_number(int fd, enum op op)
{
	socklen_t bytes = sizeof(int);
	int number = 0;

	if (op == OUTQ)
		return ioctl(fd, SIOCOUTQ, &number) ? -1 : number != 0;
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &bytes) ? -1 : number;
}

static const struct timespec moment = { .tv_nsec = 2000000 };

/* Until the receiver's buffer is full as well. */
static long fill(int fd)
{
	long result = move(fd, FILL);

	do
		nanosleep(&moment, NULL);
	while (move(fd, FILL) >= 0);
	errno = EAGAIN;
	return result;
}

static long read_all(int fd, int sender)
{
	long result = move(fd, RECV_ALL);

	while (sender > 0 && get_number(sender, OUTQ) == 1) {
		nanosleep(&moment, NULL);
		move(fd, RECV_ALL);
	}
	return result;
}

static long poll_events(int fd)
{
	struct pollfd polled = { .fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP };

	return poll(&polled, 1, 0) < 0 ? -1 : polled.revents;
}

static long change_set(const struct stage *stage, const struct step *step)
{
	struct epoll_event event = { .events = (uint32_t)step->n, .data.u32 = (uint32_t)step->b };

	return epoll_ctl(stage->fds[step->a], step->op == ADD ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, stage->fds[step->b],
			 &event);
}

static long wait_set(int fd)
{
	struct epoll_event event;
	int n = epoll_wait(fd, &event, 1, 0);

	return n <= 0 ? n : (long)(event.events | event.data.u32 << 16);
}

static long raise_event(int fd, bool up)
{
	uint64_t one = 1;

	if (up)
		return write(fd, &one, sizeof(one));
	return read(fd, &one, sizeof(one)) < 0 ? -1 : (long)one;
}

static long set_linger(int fd)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	return setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

static long take_step(struct stage *stage, const struct step *step)
{
	static char data[8192];
	int *fd = &stage->fds[step->a];

	switch (step->op) {
	case LISTEN:
		return listen_at(stage, step->a);
	case CONNECT:
		return connect_to(stage, step);
	case ACCEPT:
		return accept_from(stage, step);
	case SEND:
		return send(*fd, data, (size_t)step->n, MSG_NOSIGNAL);
	case FILL:
		return fill(*fd);
	case RECV_ALL:
		return read_all(*fd, step->b ? stage->fds[step->b] : -1);
	case RECV:
	case PEEK:
		return recv(*fd, data, (size_t)step->n, step->op == PEEK ? MSG_PEEK : 0);
	case SHUT:
		return shutdown(*fd, step->n);
	case LINGER:
		return set_linger(*fd);
	case CLOSE:
		return close(*fd);
	case DUP:
		stage->fds[step->b] = dup3(*fd, 50, 0);
		return stage->fds[step->b] < 0 ? -1 : 0;
	case POLL:
		return poll_events(*fd);
	case EPOLL:
		*fd = epoll_create1(0);
		return 0;
	case ADD:
	case MODIFY:
		return change_set(stage, step);
	case WAIT:
		return wait_set(*fd);
	case OUTQ:
	case ERROR:
		return get_number(*fd, step->op);
	case EVENT:
		*fd = eventfd(0, EFD_NONBLOCK);
		return 0;
	default:
		return raise_event(*fd, step->op == RAISE);
	}
}

static long answer(struct stage *stage, const struct step *step)
{
	long result;

	errno = 0;
	result = take_step(stage, step);
	return result < 0 ? -errno : result;
}

/* --- running a script in a simulated process, and with the kernel --- */

static bool simulated;

static void *simulate(void *arg)
{
	(void)arg;
	for (size_t i = 0; i < SCRIPTS; i++) {
		struct stage stage = { .address = { .sin_family = AF_INET,
						    .sin_addr.s_addr = htonl(net_address(0, 0)) } };

		memset(stage.fds, 0xff, sizeof(stage.fds));
		for (size_t j = 0; j < STEPS && scripts[i][j].op; j++) {
			answers[i][j] = answer(&stage, &scripts[i][j]);
			thread_sleep(10 * SIM_MS);
		}
		for (int fd = 3; fd < 64; fd++)
			close(fd);
	}
	simulated = true;
	return NULL;
}

static bool is_simulated(void)
{
	return simulated;
}

/* Whether a step can be repeated without a side effect. */
static bool may_ask_again(const struct step *step, long result)
{
	return step->op == POLL || step->op == OUTQ || result == -EAGAIN || (step->op == WAIT && !result);
}

static int compare(size_t i, size_t j, struct stage *stage)
{
	time_t until = time(NULL) + PATIENCE_S;
	const struct step *step = &scripts[i][j];
	long result;

	do
		result = answer(stage, step);
	while (result != answers[i][j] && may_ask_again(step, result) && time(NULL) < until);
	if (result == answers[i][j])
		return 0;
	printf("script %zu step %zu: the kernel answers %ld, the simulation %ld\n", i, j, result, answers[i][j]);
	return 1;
}

int selfcheck(void)
{
	int different = 0;

	thread_new(process_new(net_host_new(1), 1), simulate, NULL);
	sched_run(is_simulated);
	for (size_t i = 0; i < SCRIPTS; i++) {
		struct stage stage = { .address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) } };

		memset(stage.fds, 0xff, sizeof(stage.fds));
		for (size_t j = 0; j < STEPS && scripts[i][j].op; j++)
			different += compare(i, j, &stage);
		for (int k = 0; k < FDS; k++)
			if (stage.fds[k] >= 0)
				close(stage.fds[k]);
	}
	printf("selfcheck: %zu scripts, %d answers differ\n", SCRIPTS, different);
	return different;
}

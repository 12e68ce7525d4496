/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that can fail on order, calls that sleep, and clocks. */
#include "front.h"
#include "measure.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

const char *const front_names[FRONT_CALLS] = {
	[FRONT_MEMORY] = "malloc",
	[FRONT_SOCKET] = "socket",
	[FRONT_ACCEPT] = "accept4",
	[FRONT_CONNECT] = "connect",
	[FRONT_BIND] = "bind",
	[FRONT_LISTEN] = "listen",
	[FRONT_SETSOCKOPT] = "setsockopt",
	[FRONT_GETSOCKNAME] = "getsockname",
	[FRONT_EPOLL_CREATE] = "epoll_create1",
	[FRONT_EPOLL_CTL] = "epoll_ctl",
	[FRONT_EVENTFD] = "eventfd",
	[FRONT_THREAD] = "pthread_create",
	[FRONT_RANDOM] = "getrandom",
};

static struct {
	_Atomic int call; /* the call to fail; -1 = none */
	_Atomic unsigned seen, first, last;
	_Atomic int err;
	_Atomic bool failed;
} front = { .call = -1 };

static _Atomic int64_t wall_seconds, clock_seconds;

void front_fail(enum front_call call, unsigned k, unsigned more, int err)
{
	atomic_store(&front.call, -1);
	atomic_store(&front.seen, 0);
	atomic_store(&front.first, k);
	atomic_store(&front.last, k + more);
	atomic_store(&front.err, err);
	atomic_store(&front.failed, false);
	atomic_store(&front.call, (int)call);
}

bool front_over(void)
{
	atomic_store(&front.call, -1);
	return atomic_load(&front.failed);
}

int front_verdict(enum front_call call)
{
	if (atomic_load_explicit(&front.call, memory_order_acquire) != (int)call)
		return 0;
	unsigned number = atomic_fetch_add(&front.seen, 1) + 1;
	if (number < atomic_load(&front.first) || number > atomic_load(&front.last))
		return 0;
	atomic_store(&front.failed, true);
	if (getenv("FAULTS_TRAP")) /* to print the caller */
		raise(SIGTRAP);
	return atomic_load(&front.err);
}

/* Looked up at the first call, which may come before anything else has run. */
static void *look_up(_Atomic(void *) *found, const char *name)
{
	void *address = atomic_load_explicit(found, memory_order_relaxed);

	if (!address) {
		address = dlsym(RTLD_NEXT, name);
		atomic_store_explicit(found, address, memory_order_relaxed);
	}
	return address;
}

/* The C library's function. */
#define BEHIND(name, result, ...)              \
	static _Atomic(void *) found;          \
	void *address = look_up(&found, name); \
	result (*behind)(__VA_ARGS__);         \
	memcpy((void *)&behind, &address, sizeof(behind));

#define FAIL_AS(call, result)                   \
	do {                                    \
		int err_ = front_verdict(call); \
		if (err_) {                     \
			errno = err_;           \
			return result;          \
		}                               \
	} while (0)

/* --- what is received --- */

#define COUNTED_FDS 1024

static _Atomic bool shortens;
static _Atomic size_t came[COUNTED_FDS]; /* over the connection of each descriptor */

void front_shorten(void)
{
	atomic_store(&shortens, true);
}

static void forget_what_came(int fd)
{
	if (fd >= 0 && fd < COUNTED_FDS)
		atomic_store(&came[fd], 0);
}

/* With names of their own, because the headers declare them with types that ISO C lacks. */
IN_FRONT int front_accept4(int fd, struct sockaddr *addr, socklen_t *bytes,
			   int flags) __asm__("accept4");
IN_FRONT int front_connect(int fd, const struct sockaddr *addr, socklen_t bytes) __asm__("connect");
IN_FRONT int front_bind(int fd, const struct sockaddr *addr, socklen_t bytes) __asm__("bind");
IN_FRONT int front_getsockname(int fd, struct sockaddr *addr,
			       socklen_t *bytes) __asm__("getsockname");
/* This one because the headers may define an inline function of that name. */
IN_FRONT int front_poll(struct pollfd *fds, nfds_t count, int ms) __asm__("poll");

IN_FRONT int socket(int domain, int type, int protocol)
{
	BEHIND("socket", int, int, int, int)
	FAIL_AS(FRONT_SOCKET, -1);
	return behind(domain, type, protocol);
}

int front_accept4(int fd, struct sockaddr *addr, socklen_t *bytes, int flags)
{
	BEHIND("accept4", int, int, struct sockaddr *, socklen_t *, int)
	FAIL_AS(FRONT_ACCEPT, -1);
	fd = behind(fd, addr, bytes, flags);
	forget_what_came(fd);
	return fd;
}

int front_connect(int fd, const struct sockaddr *addr, socklen_t bytes)
{
	BEHIND("connect", int, int, const struct sockaddr *, socklen_t)
	FAIL_AS(FRONT_CONNECT, -1);
	return behind(fd, addr, bytes);
}

int front_bind(int fd, const struct sockaddr *addr, socklen_t bytes)
{
	BEHIND("bind", int, int, const struct sockaddr *, socklen_t)
	FAIL_AS(FRONT_BIND, -1);
	return behind(fd, addr, bytes);
}

IN_FRONT int listen(int fd, int backlog)
{
	BEHIND("listen", int, int, int)
	FAIL_AS(FRONT_LISTEN, -1);
	return behind(fd, backlog);
}

IN_FRONT int setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
	BEHIND("setsockopt", int, int, int, int, const void *, socklen_t)
	FAIL_AS(FRONT_SETSOCKOPT, -1);
	return behind(fd, level, name, value, bytes);
}

int front_getsockname(int fd, struct sockaddr *addr, socklen_t *bytes)
{
	BEHIND("getsockname", int, int, struct sockaddr *, socklen_t *)
	FAIL_AS(FRONT_GETSOCKNAME, -1);
	return behind(fd, addr, bytes);
}

IN_FRONT int epoll_create1(int flags)
{
	BEHIND("epoll_create1", int, int)
	FAIL_AS(FRONT_EPOLL_CREATE, -1);
	return behind(flags);
}

IN_FRONT int epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
	BEHIND("epoll_ctl", int, int, int, int, struct epoll_event *)
	if (op == EPOLL_CTL_ADD) /* the others cannot fail */
		FAIL_AS(FRONT_EPOLL_CTL, -1);
	return behind(set, op, fd, event);
}

IN_FRONT int eventfd(unsigned value, int flags)
{
	BEHIND("eventfd", int, unsigned, int)
	FAIL_AS(FRONT_EVENTFD, -1);
	return behind(value, flags);
}

IN_FRONT int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attr,
			    void *(*run)(void *), void *restrict arg)
{
	BEHIND("pthread_create", int, pthread_t *, const pthread_attr_t *, void *(*)(void *),
	       void *)
	int err = front_verdict(FRONT_THREAD);
	return err ? err : behind(thread, attr, run, arg);
}

IN_FRONT ssize_t getrandom(void *bytes, size_t count, unsigned flags)
{
	BEHIND("getrandom", ssize_t, void *, size_t, unsigned)
	FAIL_AS(FRONT_RANDOM, -1);
	return behind(bytes, count, flags);
}

/* --- what is sent --- */

#define FLIP_BYTES 4096

static _Atomic bool flips;

void front_flip(void)
{
	atomic_store(&flips, true);
}

static void flip(const struct msghdr *msg)
{
	for (size_t i = 0; i < msg->msg_iovlen; i++)
		if (msg->msg_iov[i].iov_len >= FLIP_BYTES)
			((uint8_t *)msg->msg_iov[i].iov_base)[FLIP_BYTES / 2] ^= 1;
}

IN_FRONT ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	bool flipped = atomic_load(&flips);
	ssize_t sent;

	BEHIND("sendmsg", ssize_t, int, const struct msghdr *, int)
	if (flipped)
		flip(msg);
	sent = behind(fd, msg, flags);
	if (flipped)
		flip(msg);
	return sent;
}

static ssize_t count_what_came(int fd, ssize_t bytes, int flags)
{
	if (!atomic_load(&shortens) || bytes <= 0 || flags & MSG_PEEK || fd >= COUNTED_FDS)
		return bytes;
	if (atomic_fetch_add(&came[fd], (size_t)bytes) + (size_t)bytes >= FRONT_SHORT_BYTES) {
		shutdown(fd, SHUT_RDWR);
		forget_what_came(fd); /* the plugin gives the number to another one, if the kernel's was below 3 */
	}
	return bytes;
}

/* With names of their own, as above. */
IN_FRONT ssize_t front_recv(int fd, void *data, size_t bytes, int flags) __asm__("recv");

ssize_t front_recv(int fd, void *data, size_t bytes, int flags)
{
	BEHIND("recv", ssize_t, int, void *, size_t, int)
	return count_what_came(fd, behind(fd, data, bytes, flags), flags);
}

IN_FRONT ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	BEHIND("recvmsg", ssize_t, int, struct msghdr *, int)
	return count_what_came(fd, behind(fd, msg, flags), flags);
}

/* --- what sleeps --- */

static int64_t ns_of(const struct timespec *time)
{
	return time ? (int64_t)time->tv_sec * 1000000000 + time->tv_nsec : -1;
}

IN_FRONT int epoll_wait(int set, struct epoll_event *events, int count, int ms)
{
	BEHIND("epoll_wait", int, int, struct epoll_event *, int, int)
	measure_sleep(ms < 0 ? -1 : (int64_t)ms * 1000000);
	return behind(set, events, count, ms);
}

int front_poll(struct pollfd *fds, nfds_t count, int ms)
{
	BEHIND("poll", int, struct pollfd *, nfds_t, int)
	measure_sleep(ms < 0 ? -1 : (int64_t)ms * 1000000);
	return behind(fds, count, ms);
}

IN_FRONT int nanosleep(const struct timespec *time, struct timespec *left)
{
	BEHIND("nanosleep", int, const struct timespec *, struct timespec *)
	measure_sleep(ns_of(time));
	return behind(time, left);
}

IN_FRONT int usleep(useconds_t us)
{
	BEHIND("usleep", int, useconds_t)
	measure_sleep((int64_t)us * 1000);
	return behind(us);
}

/* --- clocks --- */

void front_wall_jump(int64_t seconds)
{
	atomic_fetch_add(&wall_seconds, seconds);
}

void front_clock_jump(int64_t seconds)
{
	atomic_fetch_add(&clock_seconds, seconds);
}

IN_FRONT int clock_gettime(clockid_t clock, struct timespec *now)
{
	BEHIND("clock_gettime", int, clockid_t, struct timespec *)
	int ret = behind(clock, now);

	if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
		now->tv_sec += atomic_load_explicit(&wall_seconds, memory_order_relaxed);
	else if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE ||
		 clock == CLOCK_MONOTONIC_RAW || clock == CLOCK_BOOTTIME)
		now->tv_sec += atomic_load_explicit(&clock_seconds, memory_order_relaxed);
	return ret;
}

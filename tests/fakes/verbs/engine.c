/* SPDX-License-Identifier: Apache-2.0 */
/* The lock, and the thread for everything that no caller does: timers, and input from the wire. It runs while a context
 * is open. A forked child starts with nothing, as with real devices. */
#include "fake.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_MAX 16
#define LOOK_MS    200 /* a filter (seccomp) may refuse the write */

struct fake fake;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t acked = PTHREAD_COND_INITIALIZER;

static struct {
	pthread_t thread;
	pid_t owner;
	bool running, stop;
	int epoll_fd, wake_fd;
} engine = { .epoll_fd = -1, .wake_fd = -1 };

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void close_fds(void)
{
	if (engine.epoll_fd >= 0)
		close(engine.epoll_fd);
	if (engine.wake_fd >= 0)
		close(engine.wake_fd);
	engine.epoll_fd = engine.wake_fd = -1;
}

static void forget_the_parent(void)
{
	pthread_mutex_init(&lock, NULL);
	pthread_cond_init(&acked, NULL);
	engine.running = engine.stop = false;
	close_fds();
	wire_forget();
	faults_forget();
	memset(&fake, 0, sizeof(fake));
}

void fake_lock(void)
{
	pid_t pid = getpid();
	pid_t owner = __atomic_load_n(&engine.owner, __ATOMIC_RELAXED);

	if (owner != pid) {
		if (owner)
			forget_the_parent();
		__atomic_store_n(&engine.owner, pid, __ATOMIC_RELAXED);
	}
	pthread_mutex_lock(&lock);
}

void fake_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void fake_wait_acks(void)
{
	pthread_cond_wait(&acked, &lock);
}

void fake_acked(void)
{
	pthread_cond_broadcast(&acked);
}

void engine_wake(void)
{
	uint64_t one = 1;
	ssize_t done = write(engine.wake_fd, &one, sizeof(one));

	(void)done; /* it can only fail if the thread is already awake */
}

int engine_watch(int fd, unsigned events, void *link)
{
	struct epoll_event event = { .events = events, .data.ptr = link };

	if (epoll_ctl(engine.epoll_fd, EPOLL_CTL_MOD, fd, &event) &&
	    epoll_ctl(engine.epoll_fd, EPOLL_CTL_ADD, fd, &event))
		return errno;
	return 0;
}

static int timeout_ms(uint64_t at_ns)
{
	uint64_t now = now_ns();

	if (at_ns == NEVER || at_ns > now + LOOK_MS * NS_PER_MS)
		return LOOK_MS;
	return at_ns <= now ? 0 : (int)((at_ns - now + NS_PER_MS - 1) / NS_PER_MS);
}

static uint64_t timers(void)
{
	uint64_t sends = requester_timers(), receives = responder_timers();

	return sends < receives ? sends : receives;
}

static void *engine_main(void *unused)
{
	struct epoll_event events[EVENTS_MAX];
	uint64_t drain;
	int timeout, count;

	(void)unused;
	for (;;) {
		fake_lock();
		timeout = timeout_ms(timers());
		if (engine.stop) {
			wire_close();
			fake_unlock();
			return NULL;
		}
		fake_unlock();
		count = epoll_wait(engine.epoll_fd, events, EVENTS_MAX, timeout);
		for (int i = 0; i < count; i++) {
			if (events[i].data.ptr)
				wire_turn(events[i].data.ptr, events[i].events);
			else if (read(engine.wake_fd, &drain, sizeof(drain)) < 0)
				continue;
		}
	}
}

int engine_start(void)
{
	int ret;

	while (engine.stop) /* the last thread is ending */
		fake_wait_acks();
	if (engine.running)
		return 0;
	engine.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	engine.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (engine.epoll_fd < 0 || engine.wake_fd < 0)
		ret = errno;
	else
		ret = engine_watch(engine.wake_fd, EPOLLIN, NULL);
	if (!ret)
		ret = wire_open();
	if (!ret) {
		ret = pthread_create(&engine.thread, NULL, engine_main, NULL);
		if (ret)
			wire_close();
	}
	if (ret)
		close_fds();
	engine.running = !ret;
	return ret;
}

void engine_stop(void)
{
	if (!engine.running)
		return;
	engine.running = false;
	engine.stop = true;
	engine_wake();
	fake_unlock();
	pthread_join(engine.thread, NULL);
	fake_lock();
	close_fds();
	engine.stop = false;
	fake_acked();
}

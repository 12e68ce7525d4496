/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optional I/O threads, a few per process whatever the number of comms. They help: whenever a rail
 * has become readable or writable they run the same turn that NCCL's own thread runs from test, under
 * the comm's lock. They start with the first comm and end with the last.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <nccl_net/log.h>

#include "registry.h"

#define THREADS_MAX     16
#define EVENTS_PER_TURN 32
#define WAKE_TOKEN      UINT64_MAX

static struct {
	pthread_mutex_t lock; /* adding and removing */
	int epfd, wakefd;
	pthread_t threads[THREADS_MAX];
	int thread_count;
	_Atomic bool stop;
	uint32_t used;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void serve(uint64_t token)
{
	struct anynet_comm *comm = registry_hold(token);

	if (comm && comm_try_enter(comm)) {
		if (!comm_error(comm))
			comm_turn(comm);
		comm_leave(comm);
	}
	registry_release();
}

static void *io_thread(void *arg)
{
	struct epoll_event events[EVENTS_PER_TURN];

	(void)arg;
	while (!atomic_load_explicit(&pool.stop, memory_order_acquire)) {
		int n = epoll_wait(pool.epfd, events, EVENTS_PER_TURN, -1);

		for (int i = 0; i < n; i++)
			if (events[i].data.u64 != WAKE_TOKEN)
				serve(events[i].data.u64);
	}
	return NULL;
}

/* Threads of NCCL may be bound to few cores; ours run where the process may. */
static void start_thread(int index)
{
	pthread_attr_t attr;
	cpu_set_t cpus;
	char name[16];

	pthread_attr_init(&attr);
	if (!sched_getaffinity(getpid(), sizeof(cpus), &cpus))
		pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus);
	if (!pthread_create(&pool.threads[index], &attr, io_thread, NULL)) {
		snprintf(name, sizeof(name), "anynet-io-%d", index);
		pthread_setname_np(pool.threads[index], name);
		pool.thread_count++;
	}
	pthread_attr_destroy(&attr);
}

static int pool_start(int threads)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = WAKE_TOKEN };
	sigset_t all, old;

	pool.epfd = epoll_create1(EPOLL_CLOEXEC);
	pool.wakefd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (pool.epfd < 0 || pool.wakefd < 0 ||
	    epoll_ctl(pool.epfd, EPOLL_CTL_ADD, pool.wakefd, &event)) {
		int err = -errno;

		if (pool.epfd >= 0)
			close(pool.epfd);
		if (pool.wakefd >= 0)
			close(pool.wakefd);
		return err;
	}
	atomic_store(&pool.stop, false);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (int i = 0; i < threads && i < THREADS_MAX && i == pool.thread_count; i++)
		start_thread(i);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	anynet_info("%d I/O threads", pool.thread_count);
	return pool.thread_count ? 0 : -EAGAIN;
}

static void pool_stop(void)
{
	uint64_t one = 1;

	atomic_store_explicit(&pool.stop, true, memory_order_release);
	/* Level-triggered and never read: it wakes every thread. */
	if (write(pool.wakefd, &one, sizeof(one)) < 0)
		anynet_warn("cannot wake the I/O threads");
	for (int i = 0; i < pool.thread_count; i++)
		pthread_join(pool.threads[i], NULL);
	pool.thread_count = 0;
	close(pool.epfd);
	close(pool.wakefd);
}

void io_threads_watch(struct anynet_comm *comm, int fd)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET,
				     .data.u64 = comm->io_token };

	if (comm->threaded)
		epoll_ctl(pool.epfd, EPOLL_CTL_ADD, fd, &event);
}

void io_threads_add(struct anynet_comm *comm)
{
	if (!anynet_net.io_threads)
		return;
	pthread_mutex_lock(&pool.lock);
	if (pool.thread_count || !pool_start(anynet_net.io_threads)) {
		pool.used++;
		comm->io_token = registry_token(comm);
		comm_enter(comm); /* the guardian may be at it already */
		comm->threaded = true;
		for (unsigned i = 0; i < comm->rail_count; i++)
			if (comm->rails[i] && comm->rails[i]->fd >= 0)
				io_threads_watch(comm, comm->rails[i]->fd);
		comm_leave(comm);
	}
	pthread_mutex_unlock(&pool.lock);
}

/* A thread may still come by with an old event: the registry tells it that the comm is gone. */
void io_threads_remove(struct anynet_comm *comm)
{
	if (!comm->threaded)
		return;
	pthread_mutex_lock(&pool.lock);
	comm_enter(comm);
	comm->threaded = false;
	for (unsigned i = 0; i < comm->rail_count; i++)
		if (comm->rails[i] && comm->rails[i]->fd >= 0)
			epoll_ctl(pool.epfd, EPOLL_CTL_DEL, comm->rails[i]->fd, NULL);
	comm_leave(comm);
	if (!--pool.used)
		pool_stop();
	pthread_mutex_unlock(&pool.lock);
}

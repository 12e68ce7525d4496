/* SPDX-License-Identifier: Apache-2.0 */
/* I/O threads; see io_threads.h. */
#include "service/io_threads.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <nccl_net/log.h>

#include "base/fd.h"
#include "base/libc_text.h"
#include "base/thread.h"
#include "session/registry.h"

#define THREADS_MAX     16
#define EVENTS_PER_TURN 32
#define STOP_TOKEN      UINT64_MAX

static struct {
	pthread_mutex_t lock; /* held while a comm is added or removed */
	/* Open while there are threads. stopfd, an eventfd, is always readable: the set looks at it when they have to end. */
	int epfd, stopfd;
	pthread_t threads[THREADS_MAX];
	int thread_count;
	uint32_t used; /* comms that the threads serve */
	bool warned;   /* that they cannot be started */
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER, .epfd = -1, .stopfd = -1 };

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
	int n;

	while ((n = epoll_wait(pool.epfd, events, EVENTS_PER_TURN, -1)) >= 0 || errno == EINTR) {
		for (int i = 0; i < n; i++) {
			if (events[i].data.u64 == STOP_TOKEN)
				return arg;
			serve(events[i].data.u64);
		}
	}
	return arg; /* it may not wait: NCCL's threads do the work */
}

static void close_descriptors(void)
{
	fd_close(&pool.epfd);
	fd_close(&pool.stopfd);
}

static int pool_start(int threads)
{
	struct epoll_event nothing = { .events = 0 };
	int ret;

	pool.epfd = fd_note(epoll_create1(EPOLL_CLOEXEC));
	pool.stopfd = fd_note(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
	ret = pool.epfd < 0 ? pool.epfd : pool.stopfd < 0 ? pool.stopfd : 0;
	if (!ret && epoll_ctl(pool.epfd, EPOLL_CTL_ADD, pool.stopfd, &nothing))
		ret = -errno;
	if (ret) {
		close_descriptors();
		return ret;
	}
	while (pool.thread_count < threads && pool.thread_count < THREADS_MAX) {
		char name[32];

		snprintf(name, sizeof(name), "anynet-io-%d", pool.thread_count);
		if (thread_start(&pool.threads[pool.thread_count], name, io_thread, NULL))
			break;
		pool.thread_count++;
	}
	if (!pool.thread_count) {
		close_descriptors();
		return -EAGAIN;
	}
	anynet_info("%d I/O threads", pool.thread_count);
	return 0;
}

static void pool_stop(void)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = STOP_TOKEN };

	/* The eventfd is level-triggered and never read, so it wakes every thread. Unlike a write, this is not refused, because
	 * the call that added it was not; unless the program has closed the descriptors. */
	if (epoll_ctl(pool.epfd, EPOLL_CTL_MOD, pool.stopfd, &event))
		anynet_warn("cannot wake the I/O threads: %s; close waits until data wakes them",
			    error_text(errno));
	for (int i = 0; i < pool.thread_count; i++)
		pthread_join(pool.threads[i], NULL);
	pool.thread_count = 0;
	close_descriptors();
}

void io_threads_add(struct anynet_comm *comm)
{
	int ret = 0;

	if (!anynet_net.io_threads)
		return;
	pthread_mutex_lock(&pool.lock);
	if (!pool.thread_count)
		ret = pool_start(anynet_net.io_threads);
	if (ret && !pool.warned)
		anynet_warn(
			"cannot start the I/O threads: %s; NCCL's threads do their work; check ulimit -u and -n",
			error_text(-ret));
	pool.warned |= ret;
	if (!ret) {
		pool.used++;
		comm_enter(comm); /* the background thread may already work on it */
		comm->session->io_epfd = pool.epfd;
		for (unsigned i = 0; i < comm->stream_count; i++)
			if (stream_stands(comm->streams[i]))
				comm_watch_by_threads(comm, comm->streams[i]);
		comm_leave(comm);
	}
	pthread_mutex_unlock(&pool.lock);
}

/* A thread may still get an old event of the comm; registry_hold then finds the comm only while it exists. */
void io_threads_remove(struct anynet_comm *comm)
{
	if (comm->session->io_epfd < 0)
		return;
	pthread_mutex_lock(&pool.lock);
	comm_enter(comm);
	comm->session->io_epfd = -1;
	for (unsigned i = 0; i < comm->stream_count; i++)
		if (stream_stands(comm->streams[i]))
			epoll_ctl(pool.epfd, EPOLL_CTL_DEL, comm->streams[i]->path.fd, NULL);
	comm_leave(comm);
	if (!--pool.used)
		pool_stop();
	pthread_mutex_unlock(&pool.lock);
}

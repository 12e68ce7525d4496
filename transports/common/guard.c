/* SPDX-License-Identifier: Apache-2.0 */
/* The guardian; see guard.h. */
#include "guard.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <nccl_net/log.h>

#include "links.h"
#include "listen.h"
#include "rail_link.h"
#include "registry.h"
#include "stats.h"

#define LOOK_MS       100 /* between two looks at every comm */
#define URGENT_MS     2   /* when a comm waits to be attended to */
#define ENDS_PER_LOOK 64  /* closed comms seen to their end in one look */

enum {
	EVENT_WAKE,
	EVENT_LINKS,
	EVENT_PORTS,
	EVENT_ENGINE
};

static struct {
	pthread_mutex_t lock; /* starting and ending */
	pthread_t thread;
	bool running;
	bool atexit;
	bool left; /* not running any more, not joined yet */
	pid_t pid; /* a forked child has no thread */
	unsigned comms;
	int epfd, wakefd;
	_Atomic uintptr_t life; /* of the thread that is to run; another one has to end */
} guard = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* --- the thread --- */

struct look {
	bool due;    /* it is time for a look at every comm */
	bool urgent; /* somebody has to be attended to soon */
	unsigned ended;
	struct anynet_comm *ends[ENDS_PER_LOOK];
};

/* Of a comm that nobody polls, so that nobody else attends to it. */
static void serve(struct anynet_comm *comm, struct look *look)
{
	if (!comm_try_enter(comm)) {
		look->urgent = true;
		return;
	}
	if (!comm_error(comm))
		comm_turn(comm);
	if (comm->closing && !comm->ended && look->ended < ENDS_PER_LOOK && linger_over(comm)) {
		comm->ended = true;
		look->ends[look->ended++] = comm;
	}
	look->urgent |= atomic_load(&comm->attention) || comm->closing;
	comm_leave(comm);
}

/* A caller who polls takes up the word himself; at the second visit it is clear that none does. */
static void visit(struct anynet_comm *comm, void *arg)
{
	struct look *look = arg;

	if (atomic_load(&comm->attention) || atomic_load(&comm->closing))
		serve(comm, look);
	else if (look->due)
		atomic_store(&comm->attention, true);
}

static void end_closed(struct look *look)
{
	for (unsigned i = 0; i < look->ended; i++) {
		guard_remove(look->ends[i]);
		comm_destroy(look->ends[i]);
	}
	if (look->ended)
		listen_trim();
}

static void visit_closed(struct anynet_comm *comm, void *arg)
{
	if (atomic_load(&comm->closing))
		serve(comm, arg);
}

void guard_look(void)
{
	struct look look = { 0 };

	registry_each(visit_closed, &look);
	end_closed(&look);
}

static void poke_all(struct anynet_comm *comm, void *arg)
{
	(void)arg;
	atomic_store(&comm->link_event, true);
	atomic_store(&comm->attention, true);
}

static void take_event(const struct epoll_event *event)
{
	uint64_t count;

	if (event->data.u32 == EVENT_WAKE && read(guard.wakefd, &count, sizeof(count)) < 0)
		return;
	if (event->data.u32 == EVENT_ENGINE)
		listen_turn();
	else if ((event->data.u32 == EVENT_LINKS && link_events_read()) ||
		 (event->data.u32 == EVENT_PORTS && ib_events_read()))
		registry_each(poke_all, NULL);
}

static void *guard_thread(void *arg)
{
	struct epoll_event events[4];
	uint64_t last = 0;
	bool urgent = false;
	unsigned engine = 0;

	stats_begin();
	while (atomic_load_explicit(&guard.life, memory_order_acquire) == (uintptr_t)arg) {
		struct look look = { 0 };
		uint64_t now;
		int n;

		listen_watch(guard.epfd, EVENT_ENGINE, &engine);
		n = epoll_wait(guard.epfd, events, 4, urgent ? URGENT_MS : LOOK_MS);
		for (int i = 0; i < n; i++)
			take_event(&events[i]);
		now = net_now_ms();
		look.due = now - last >= LOOK_MS;
		if (look.due) {
			last = now;
			listen_turn(); /* strangers whose time is over */
		}
		registry_each(visit, &look);
		if (look.due)
			stats_look();
		end_closed(&look);
		if (ib_chores())
			registry_each(poke_all, NULL);
		urgent = look.urgent;
	}
	return NULL;
}

/* --- its life --- */

/* The thread has ended, has not begun, or is the caller. */
static void close_descriptors(void)
{
	stats_end();
	link_events_close();
	if (guard.epfd >= 0)
		close(guard.epfd);
	if (guard.wakefd >= 0)
		close(guard.wakefd);
}

static int watch(int fd, uint32_t what)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = what };

	return epoll_ctl(guard.epfd, EPOLL_CTL_ADD, fd, &event);
}

static int open_descriptors(void)
{
	int links_fd = link_events_open(), ports_fd = ib_events_fd();

	guard.epfd = epoll_create1(EPOLL_CLOEXEC);
	guard.wakefd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (guard.epfd < 0 || guard.wakefd < 0 || watch(guard.wakefd, EVENT_WAKE)) {
		int err = -errno;

		close_descriptors();
		return err;
	}
	/* Without link events a lost link is noticed by the silence behind it. */
	if (links_fd >= 0)
		watch(links_fd, EVENT_LINKS);
	if (ports_fd >= 0)
		watch(ports_fd, EVENT_PORTS);
	return 0;
}

static void join(void)
{
	if (guard.pid == getpid())
		pthread_join(guard.thread, NULL);
	guard.left = false;
}

/* Tell the thread to end. */
static void dismiss(void)
{
	uint64_t one = 1;

	atomic_fetch_add_explicit(&guard.life, 1, memory_order_release);
	if (write(guard.wakefd, &one, sizeof(one)) < 0)
		anynet_warn("cannot wake the guardian: %s", strerror(errno));
}

static int start(void)
{
	pthread_attr_t attr;
	cpu_set_t cpus;
	sigset_t all, old;
	int ret;

	if (guard.left)
		join();
	ret = open_descriptors();
	if (ret)
		return ret;
	pthread_attr_init(&attr);
	/* NCCL's threads may be bound to few cores; ours runs where the process may. */
	if (!sched_getaffinity(getpid(), sizeof(cpus), &cpus))
		pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = -pthread_create(&guard.thread, &attr, guard_thread,
			      (void *)(atomic_load(&guard.life)));
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (ret) {
		close_descriptors();
		return ret;
	}
	pthread_setname_np(guard.thread, "anynet-guard");
	guard.running = true;
	guard.pid = getpid();
	return 0;
}

static void stop(void)
{
	if (guard.pid != getpid())
		return;
	dismiss();
	join();
	guard.running = false;
	close_descriptors();
}

/* The library may be unloaded while closed comms still send: their kernel sockets go on without us.
 * Registered after what the crypto library has registered: the thread must end before that does. The
 * thread may want the lock, so it is joined without. */
static void unload(void)
{
	bool running, joinable;

	if (guard.pid != getpid())
		return;
	pthread_mutex_lock(&guard.lock);
	running = guard.running;
	joinable = running || guard.left;
	if (running)
		dismiss();
	guard.running = guard.left = false;
	pthread_mutex_unlock(&guard.lock);
	if (joinable)
		pthread_join(guard.thread, NULL);
	if (running)
		close_descriptors();
	ib_chores_finish();
}

void guard_reap(void)
{
	bool running;

	pthread_mutex_lock(&guard.lock);
	running = guard.running;
	pthread_mutex_unlock(&guard.lock);
	if (!running)
		ib_chores_finish();
}

void guard_wake(void)
{
	uint64_t one = 1;
	bool running;

	pthread_mutex_lock(&guard.lock);
	running = guard.running;
	if (running && write(guard.wakefd, &one, sizeof(one)) < 0)
		anynet_warn("cannot wake the guardian: %s", strerror(errno));
	pthread_mutex_unlock(&guard.lock);
	if (!running)
		guard_look();
}

int guard_add(struct anynet_comm *comm)
{
	int ret = registry_add(comm);

	if (ret)
		return ret;
	pthread_mutex_lock(&guard.lock);
	if (!guard.atexit)
		guard.atexit = !atexit(unload);
	if (!guard.running && (ret = start()))
		anynet_warn("no thread to look after connections: %s; broken ones heal only while "
			    "NCCL polls them",
			    strerror(-ret));
	guard.comms++;
	pthread_mutex_unlock(&guard.lock);
	return 0;
}

/* By the guardian itself: it ends, and waits to be joined. */
static void leave(void)
{
	atomic_fetch_add_explicit(&guard.life, 1, memory_order_release);
	guard.running = false;
	guard.left = true;
	close_descriptors();
}

void guard_remove(struct anynet_comm *comm)
{
	if (comm->slot < 0)
		return;
	registry_remove(comm);
	pthread_mutex_lock(&guard.lock);
	guard.comms--;
	if (!guard.comms && guard.running) {
		if (pthread_equal(pthread_self(), guard.thread))
			leave();
		else
			stop();
	}
	pthread_mutex_unlock(&guard.lock);
}

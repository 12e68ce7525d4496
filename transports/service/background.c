/* SPDX-License-Identifier: Apache-2.0 */
/* The background thread; see background.h. */
#include "service/background.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <nccl_net/log.h>

#include "base/fd.h"
#include "base/libc_text.h"
#include "base/thread.h"
#include "device/carrier.h"
#include "device/ib_events.h"
#include "path/ib/ib_setup.h"
#include "service/stats.h"
#include "session/connect.h"
#include "session/listen.h"
#include "session/registry.h"

#define LOOK_MS       100  /* between two visits to every comm, or tries to start the thread */
#define GRACE_MS      10   /* a thread that polls a comm sees within this time that it needs attention */
#define URGENT_MS     2    /* between two rounds while a comm needs attention soon */
#define ENDS_PER_LOOK 64   /* closed comms destroyed in one round */
#define EXIT_DRAIN_MS 10000 /* at exit, for what was reported done */
#define EXIT_BUSY_MS  100   /* at exit, for a comm's lock that stays busy */
#define EXIT_WAIT_MS  2000  /* at exit, for each thread, which a disk or a driver may block */

enum {
	EVENT_WAKE,
	EVENT_CARRIER,
	EVENT_PORTS,
	EVENT_ENGINE
};

enum background_state {
	BACKGROUND_NONE, /* not needed yet, or it could not be started so far */
	BACKGROUND_RUNS,
	BACKGROUND_OVER /* the process exits */
};

static struct {
	pthread_mutex_t lock; /* protects these three */
	enum background_state state;
	uint64_t next_ms; /* the next try to start it; 0 = not tried so far */
	pthread_t thread;
	unsigned forks;          /* fd_forks when the thread was started */
	int epfd, wakefd;        /* open from the thread's start on, never closed afterwards */
	_Atomic bool asleep;     /* the thread waits, without timeout, for background_wake */
	_Atomic uint64_t end_ms; /* at exit: deadline for what was reported done; 0 = not exiting */
	uint64_t unsent_ms;      /* then: the first look, or the last one at which a comm had something to send */
} background = { .lock = PTHREAD_MUTEX_INITIALIZER, .epfd = -1, .wakefd = -1 };

bool background_runs(void)
{
	bool runs;

	pthread_mutex_lock(&background.lock);
	runs = background.state == BACKGROUND_RUNS;
	pthread_mutex_unlock(&background.lock);
	return runs;
}

/* --- the thread --- */

struct look {
	bool due;    /* LOOK_MS have passed: visit every comm */
	bool urgent; /* a comm needs attention soon */
	bool asked;  /* comms have been marked that nobody may poll */
	unsigned ended;
	struct anynet_comm *ends[ENDS_PER_LOOK];
};

/* A thread that polls the comm sees the flag at its next turn, and clears it. */
static void ask(struct anynet_comm *comm, struct look *look)
{
	atomic_store(&comm->attention, true);
	look->asked = true;
}

/* Take the turn of a comm that nobody polls, and see whether a closed one has drained. */
static void serve(struct anynet_comm *comm, struct look *look)
{
	if (!comm_try_enter(comm)) {
		look->urgent = true;
		return;
	}
	if (comm_error(comm))
		comm_attend(comm); /* its flag would stay set, and its peer without an answer */
	else
		comm_turn(comm);
	if (comm->session->closing && look->ended < ENDS_PER_LOOK && drain_over(comm))
		look->ends[look->ended++] = comm;
	look->urgent |= atomic_load(&comm->attention) || comm->session->closing;
	if (atomic_load(&comm->session->watch.out))
		ask(comm, look);
	comm_leave(comm);
}

/* If `attention` is still set at the second visit, nobody polls the comm. */
static void visit(struct anynet_comm *comm, void *arg)
{
	struct look *look = arg;
	bool closing = atomic_load(&comm->session->closing);

	if (closing && look->due)
		atomic_store(&comm->attention, true);
	if (closing || atomic_load(&comm->attention))
		serve(comm, look);
	else if (look->due || atomic_load(&comm->session->watch.out))
		ask(comm, look);
}

static void end_closed(struct look *look)
{
	for (unsigned i = 0; i < look->ended; i++) {
		registry_remove(look->ends[i]);
		listen_destroy_comm(look->ends[i]);
	}
}

static void poke_all(struct anynet_comm *comm, void *arg)
{
	(void)arg;
	atomic_store(&comm->session->carrier_event, true);
	atomic_store(&comm->attention, true);
}

/* Was it the accept engine's? */
static bool take_event(const struct epoll_event *event)
{
	bool engine = event->data.u32 == EVENT_ENGINE;
	uint64_t count;

	if (event->data.u32 == EVENT_WAKE && read(background.wakefd, &count, sizeof(count)) < 0)
		return false;
	if (engine)
		listen_turn();
	else if ((event->data.u32 == EVENT_CARRIER && carrier_events_read()) ||
		 (event->data.u32 == EVENT_PORTS && ib_events_read()))
		registry_each(poke_all, NULL);
	return engine;
}

void background_wake(void)
{
	uint64_t one = 1;

	if (write(background.wakefd, &one, sizeof(one)) < 0)
		anynet_warn("cannot wake the background thread: %s; broken connections recover "
			    "only while NCCL polls them", error_text(errno));
}

/* Comms at exit, also those that the program does not close. */
struct left {
	bool unsent, busy; /* one has unsent data; another thread has the lock of one */
};

static void look_at_left(struct anynet_comm *comm, void *arg)
{
	struct left *left = arg;

	if (atomic_load(&comm->session->closing)) {
		left->unsent = true;
	} else if (comm_try_enter(comm)) {
		left->unsent |= drain_has_unsent(comm);
		comm_leave(comm);
	} else {
		left->busy = true;
	}
}

/* A lock that stays busy may be held by a call that has called exit. */
static bool is_over(void)
{
	uint64_t end_ms = atomic_load(&background.end_ms), now;
	struct left left = { .unsent = false };

	if (!end_ms)
		return false;
	now = os_now_ms();
	registry_each(look_at_left, &left);
	if (left.unsent || !background.unsent_ms)
		background.unsent_ms = now;
	return (!left.unsent && !left.busy) || now >= background.unsent_ms + EXIT_BUSY_MS ||
	       now >= end_ms;
}

static bool nothing_to_do(void)
{
	return registry_is_empty() && !listen_in_use() && !ib_chores_pending();
}

/* There is nothing to do. A thread that adds a comm, or leaves something to destroy, after `asleep` is set wakes this
 * one. */
static void sleep_until_woken(void)
{
	struct pollfd woken = { .fd = background.wakefd, .events = POLLIN };

	stats_want(false);
	atomic_store(&background.asleep, true);
	if (nothing_to_do() && !atomic_load(&background.end_ms))
		poll(&woken, 1, -1);
	atomic_store(&background.asleep, false);
}

static void *background_thread(void *arg)
{
	struct epoll_event events[4];
	uint64_t last = 0;
	bool served = false;
	int pause_ms = LOOK_MS;

	while (!is_over()) {
		struct look look = { .urgent = atomic_load(&background.end_ms) };
		uint64_t now;
		int n;

		if (nothing_to_do()) {
			sleep_until_woken();
			last = os_now_ms();
		}
		/* NCCL's thread, in accept, serves the engine as well: many connections at once do not wake this one
		 * for each. */
		if (!served)
			listen_watch(background.epfd, EVENT_ENGINE);
		n = epoll_wait(background.epfd, events, 4, served ? URGENT_MS : pause_ms);
		served = false;
		for (int i = 0; i < n; i++)
			served |= take_event(&events[i]);
		now = os_now_ms();
		look.due = now - last >= LOOK_MS;
		if (look.due) {
			last = now;
			listen_turn(); /* unauthenticated connections that timed out */
			listen_look();
			connect_trim(NULL);
			listen_trim();
		}
		registry_each(visit, &look);
		if (look.due)
			stats_want(!registry_is_empty());
		end_closed(&look);
		if (ib_chores())
			registry_each(poke_all, NULL);
		pause_ms = look.urgent ? URGENT_MS : look.asked ? GRACE_MS : (int)(last + LOOK_MS - now);
	}
	stats_want(false);
	return arg;
}

/* --- its life --- */

static int watch(int fd, uint32_t what)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = what };

	return epoll_ctl(background.epfd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static void close_descriptors(void)
{
	carrier_events_close();
	fd_close(&background.epfd);
	fd_close(&background.wakefd);
}

static int open_descriptors(void)
{
	int carrier_fd = carrier_events_open(), ports_fd = ib_events_fd(), ret;

	background.epfd = fd_note(epoll_create1(EPOLL_CLOEXEC));
	background.wakefd = fd_note(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	ret = background.epfd < 0                   ? background.epfd
	      : background.wakefd < 0               ? background.wakefd
	      : ports_fd < 0 && ports_fd != -ENODEV ? ports_fd
						    : watch(background.wakefd, EVENT_WAKE);
	if (ret) {
		close_descriptors();
		return ret;
	}
	/* Errors are ignored: without events, a lost carrier is noticed because the peer becomes silent. */
	if (carrier_fd >= 0)
		watch(carrier_fd, EVENT_CARRIER);
	if (ports_fd >= 0)
		watch(ports_fd, EVENT_PORTS);
	return 0;
}

/* Exit handler. The thread must not use libcrypto after libcrypto's own exit handler. This one is registered later and
 * therefore runs before it. The descriptors stay open, because other threads of the program may still call the plugin.
 * The lock may be held for ever, by a thread that called exit within a function of the plugin. */
static void finish(void)
{
	bool runs;

	if (background.forks != fd_forks() || !thread_lock_within(&background.lock, EXIT_WAIT_MS))
		return;
	runs = background.state == BACKGROUND_RUNS;
	background.state = BACKGROUND_OVER;
	pthread_mutex_unlock(&background.lock);
	if (!runs)
		return;
	atomic_store(&background.end_ms, os_now_ms() + EXIT_DRAIN_MS);
	background_wake();
	thread_join_within(background.thread, EXIT_DRAIN_MS + EXIT_WAIT_MS);
	stats_leave(EXIT_WAIT_MS);
	ib_chores_leave(EXIT_WAIT_MS);
}

static int start(void)
{
	static bool finishes;
	int ret = open_descriptors();

	if (ret)
		return ret;
	ret = thread_start(&background.thread, "anynet-bg", background_thread, NULL);
	if (ret) {
		close_descriptors();
		return ret;
	}
	background.state = BACKGROUND_RUNS;
	background.forks = fd_forks();
	finishes = finishes || !atexit(finish);
	return 0;
}

/* With the lock. connect calls this each time that NCCL polls it, without a pause. */
static void try_to_start(void)
{
	uint64_t now = os_now_ms();
	int ret;

	if (now < background.next_ms)
		return;
	ret = start();
	if (ret && !background.next_ms)
		anynet_warn(
			"cannot start the background thread: %s; broken connections recover only "
			"while NCCL polls them; check ulimit -u",
			error_text(-ret));
	background.next_ms = now + LOOK_MS;
}

void background_rouse(void)
{
	pthread_mutex_lock(&background.lock);
	if (background.state == BACKGROUND_NONE)
		try_to_start();
	if (background.state == BACKGROUND_RUNS && atomic_exchange(&background.asleep, false))
		background_wake();
	pthread_mutex_unlock(&background.lock);
}

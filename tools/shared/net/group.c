/* SPDX-License-Identifier: Apache-2.0 */
/* Rank processes on one host: fork, watch, barrier. */
#include "group.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/shared/child.h"

#define LOOK_EVERY  1024 /* idle passes between two checks */
#define LOOK_YIELDS 16   /* the same with yields, of which one may take 50 ms on a busy host */
#define GRACE_NS    3000000000ull /* after a failure, time for the others to exit by themselves */
#define FROZEN_NS \
	10000000000ull /* beyond the deadline: the member is blocked inside a call of the net */
#define POLL_NS    200000000l /* parent: interval of heartbeat checks */
#define AREA_ALIGN 4096

struct group_shared {
	_Atomic int cancelled;
	_Atomic int said_once;
	_Atomic unsigned arrived, generation; /* of the barrier */
	_Atomic unsigned beats[GROUP_MAX];    /* heartbeat of each member's loop; [rank - first] */
};

struct member {
	pid_t pid;   /* 0 = exited */
	bool killed; /* by kill_all */
	unsigned beats;
	uint64_t seen_ns;
};

static void say(struct group *g, int rank, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));

static void say(struct group *g, int rank, const char *fmt, va_list ap)
{
	char who[100], text[1200];

	vsnprintf(text, sizeof(text), fmt, ap);
	if (g->say) {
		g->say(g, text);
		return;
	}
	if (rank < 0)
		snprintf(who, sizeof(who), "%s: ", g->who);
	else
		snprintf(who, sizeof(who), "%s: rank %d: ", g->who, rank);
	fflush(stdout);
	fprintf(stderr, "%s%s\n", who, text);
}

void group_say(struct group *g, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(g, g->rank, fmt, ap);
	va_end(ap);
}

void group_say_once(struct group *g, const char *fmt, ...)
{
	va_list ap;

	if (g->shared && atomic_exchange(&g->shared->said_once, 1))
		return;
	va_start(ap, fmt);
	say(g, -1, fmt, ap);
	va_end(ap);
}

static size_t shared_bytes(size_t area_bytes)
{
	return ((sizeof(struct group_shared) + AREA_ALIGN - 1) / AREA_ALIGN) * AREA_ALIGN +
	       area_bytes;
}

int group_create(struct group *g, const char *who, int size, size_t area_bytes)
{
	size_t bytes = shared_bytes(area_bytes);
	void *map;

	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return -errno;
	*g = (struct group){
		.who = who,
		.size = size,
		.here = size,
		.rank = -1,
		.deadline_ns = 60000000000ull,
		.yields = true,
		.area = (char *)map + shared_bytes(0),
		.shared = map,
		.map_bytes = bytes,
	};
	return 0;
}

void group_destroy(struct group *g)
{
	munmap(g->shared, g->map_bytes);
	g->shared = NULL;
	g->area = NULL;
}

int group_idle(struct group *g)
{
	uint64_t now;

	if (g->yields)
		sched_yield();
	if (++g->idle_passes % (g->yields ? LOOK_YIELDS : LOOK_EVERY))
		return 0;

	if (g->shared) {
		atomic_fetch_add_explicit(&g->shared->beats[g->rank - g->first], 1,
					  memory_order_relaxed);
		if (atomic_load_explicit(&g->shared->cancelled, memory_order_relaxed))
			return -ECANCELED;
	}
	now = now_ns();
	if (g->fed || !g->last_fed_ns) {
		g->fed = false;
		g->last_fed_ns = now;
	} else if (now - g->last_fed_ns > g->deadline_ns) {
		if (!g->say)
			group_say(g, "no progress for %.1f s; giving up",
				  (double)g->deadline_ns / 1e9);
		return -ETIMEDOUT;
	}
	return 0;
}

int group_barrier(struct group *g)
{
	struct group_shared *s = g->shared;
	unsigned generation = atomic_load(&s->generation);
	int ret;

	if (atomic_fetch_add(&s->arrived, 1) + 1 == (unsigned)g->here) {
		atomic_store(&s->arrived, 0);
		atomic_fetch_add(&s->generation, 1);
	}
	group_fed(g);
	while (atomic_load(&s->generation) == generation) {
		ret = group_idle(g);
		if (ret)
			return ret;
	}
	group_fed(g);
	return 0;
}

static int member_main(struct group *g, int rank, pid_t parent,
		       int (*body)(struct group *g, void *arg), void *arg)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	child_ends_with(parent);
	g->rank = rank;
	return body(g, arg);
}

static void cancel(struct group *g)
{
	atomic_store(&g->shared->cancelled, 1);
}

int group_worse(int a, int b)
{
	if (a == GROUP_ERROR || b == GROUP_ERROR)
		return GROUP_ERROR;
	return a > b ? a : b;
}

/* Returns the group's result for a member that exited with `status`. */
static int judge(struct group *g, const struct member *m, int rank, int status)
{
	if (WIFSIGNALED(status)) {
		if (!m->killed)
			group_say(g, "rank %d was killed by signal %d (%s)", rank, WTERMSIG(status),
				  strsignal(WTERMSIG(status)));
		return GROUP_ERROR;
	}
	switch (WEXITSTATUS(status)) {
	case GROUP_OK:
		return GROUP_OK;
	case GROUP_WRONG:
		return GROUP_WRONG;
	default:
		if (g->size > 1 && !atomic_load(&g->shared->cancelled))
			group_say(g, "rank %d failed; ending the others", rank);
		return GROUP_ERROR;
	}
}

static void kill_all(struct group *g, struct member *members)
{
	for (int i = 0; i < g->here; i++) {
		if (!members[i].pid || members[i].killed)
			continue;
		group_say(g, "rank %d does not exit; killing it", g->first + i);
		members[i].killed = true;
		kill(members[i].pid, SIGKILL);
	}
}

/* A member blocked inside a call cannot check its own deadline; the parent checks its heartbeat. */
static bool is_frozen(struct group *g, struct member *members)
{
	uint64_t now = now_ns();

	for (int i = 0; i < g->here; i++) {
		unsigned beats = atomic_load(&g->shared->beats[i]);
		struct member *m = &members[i];

		if (!m->pid)
			continue;
		if (!m->seen_ns || beats != m->beats) {
			m->beats = beats;
			m->seen_ns = now;
		} else if (now - m->seen_ns > g->deadline_ns + FROZEN_NS) {
			group_say(g, "rank %d is blocked inside a call", g->first + i);
			return true;
		}
	}
	return false;
}

static int reap(struct group *g, struct member *members, int *alive)
{
	int result = GROUP_OK;

	for (int i = 0; i < g->here; i++) {
		int code, status;

		if (!members[i].pid || waitpid(members[i].pid, &status, WNOHANG) <= 0)
			continue;
		members[i].pid = 0;
		(*alive)--;
		code = judge(g, &members[i], g->first + i, status);
		if (code == GROUP_ERROR)
			cancel(g);
		result = group_worse(result, code);
	}
	return result;
}

static int watch(struct group *g, struct member *members, int alive, const sigset_t *chld)
{
	const struct timespec poll = { .tv_nsec = POLL_NS };
	uint64_t cancelled_ns = 0;
	int result = GROUP_OK;

	for (;;) {
		result = group_worse(result, reap(g, members, &alive));
		if (!alive)
			return result;
		if (!cancelled_ns && is_frozen(g, members))
			cancel(g);
		if (!cancelled_ns && atomic_load(&g->shared->cancelled))
			cancelled_ns = now_ns();
		if (cancelled_ns && now_ns() - cancelled_ns > GRACE_NS)
			kill_all(g, members);
		sigtimedwait(chld, NULL, &poll);
	}
}

int group_run(struct group *g, int (*body)(struct group *g, void *arg), void *arg)
{
	struct member members[GROUP_MAX] = { 0 };
	pid_t parent = getpid();
	sigset_t chld, before;
	int alive = 0, result;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, &before);
	fflush(NULL);
	for (int i = 0; i < g->here; i++) {
		pid_t pid = fork();

		if (!pid)
			exit(member_main(g, g->first + i, parent, body, arg));
		if (pid < 0) {
			group_say(g, "cannot start rank %d: %s", g->first + i, strerror(errno));
			cancel(g);
			break;
		}
		members[i].pid = pid;
		alive++;
	}
	result = alive == g->here ? GROUP_OK : GROUP_ERROR;
	result = group_worse(result, watch(g, members, alive, &chld));
	sigprocmask(SIG_SETMASK, &before, NULL);
	return result;
}

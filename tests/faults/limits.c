/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The k-th allocation, socket, accept and so on fails, for every k: while connections are made, and while broken ones
 * recover. Nothing crashes, hangs or leaks, no byte is wrong, and what can be retried is retried.
 */
#include "attempt.h"
#include "front.h"
#include "hurt.h"
#include "scenario.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support/check.h>
#include <support/peer.h>
#include <support/proc.h>
#include <sys/wait.h>
#include <unistd.h>

#define K_MAX      2000
#define CLOSED_MS  12000

enum phase {
	SETTING_UP, /* listen, connect, accept, messages, close */
	RECOVERY     /* messages over connections that have all been shut down, close */
};

/* Exit status of a try: a set of these, above any other status. */
enum outcome {
	TRIED = 0x10,
	FAILED_ONCE = 0x20, /* the call has failed */
	GAVE_UP = 0x40      /* … and something returned an error */
};

struct limit {
	enum front_call call;
	int err;
	enum phase phase;
	unsigned more; /* number of calls in a row that fail */
	bool recovers; /* guaranteed: failed calls are retried, without an error */
};

static const struct limit limits[] = {
	{ FRONT_SOCKET, EMFILE, SETTING_UP, 0, false },
	{ FRONT_CONNECT, EADDRNOTAVAIL, SETTING_UP, 0, true },
	{ FRONT_ACCEPT, EMFILE, SETTING_UP, 0, true },
	{ FRONT_ACCEPT, ENOBUFS, SETTING_UP, 20, true },
	{ FRONT_BIND, EADDRINUSE, SETTING_UP, 0, false },
	{ FRONT_LISTEN, EADDRINUSE, SETTING_UP, 0, false },
	{ FRONT_SETSOCKOPT, ENOMEM, SETTING_UP, 0, false },
	{ FRONT_GETSOCKNAME, ENOBUFS, SETTING_UP, 0, false },
	{ FRONT_EPOLL_CREATE, EMFILE, SETTING_UP, 0, false },
	{ FRONT_EPOLL_CTL, ENOMEM, SETTING_UP, 0, false },
	{ FRONT_EVENTFD, ENFILE, SETTING_UP, 0, false },
	{ FRONT_THREAD, EAGAIN, SETTING_UP, 0, false },
	{ FRONT_RANDOM, EINTR, SETTING_UP, 0, false },
	{ FRONT_SOCKET, ENFILE, RECOVERY, 0, true },
	{ FRONT_SOCKET, EMFILE, RECOVERY, 20, true },
	{ FRONT_CONNECT, EADDRNOTAVAIL, RECOVERY, 0, true },
	{ FRONT_ACCEPT, EMFILE, RECOVERY, 0, true },
	{ FRONT_ACCEPT, ENFILE, RECOVERY, 20, true },
	{ FRONT_BIND, EADDRINUSE, RECOVERY, 0, true },
	{ FRONT_SETSOCKOPT, ENOMEM, RECOVERY, 0, true },
	{ FRONT_EPOLL_CTL, ENOMEM, RECOVERY, 0, true },
};
#define LIMITS (sizeof(limits) / sizeof(limits[0]))

static const struct limit memory_limits[] = {
	{ FRONT_MEMORY, ENOMEM, SETTING_UP, 0, false },
	{ FRONT_MEMORY, ENOMEM, RECOVERY, 0, true },
	{ FRONT_MEMORY, ENOMEM, RECOVERY, 10, true },
};
#define MEMORY_LIMITS (sizeof(memory_limits) / sizeof(memory_limits[0]))

static const char *phase_name(const struct limit *limit)
{
	return limit->phase == RECOVERY ? "recovery" : "setting up";
}

/* With all resources available again, the same process works. */
static void works_again(void)
{
	check(attempt_connect());
	check(attempt_exchange(2, false));
	attempt_close();
}

static int try_once(const struct job_plan *plan, const struct limit *limit, unsigned k)
{
	bool fine;

	size_t fds = proc_fds(NULL, 0);
	attempt_prepare(plan);
	attempt.net.driver = job_open(plan, &attempt.job, &attempt.net.ctx);
	if (limit->phase == SETTING_UP) {
		front_fail(limit->call, k, limit->more, limit->err);
		fine = attempt_connect() && attempt_exchange(1, false);
	} else {
		check(attempt_connect());
		check(attempt_exchange(1, false));
		front_fail(limit->call, k, limit->more, limit->err);
		hurt_all(HURT_SHUT);
		fine = attempt_exchange(3, true);
	}
	attempt_close();
	bool failed = front_over();
	works_again();
	check_ok(driver_finalize(attempt.net.driver, attempt.net.ctx));
	struct deadline deadline = deadline_in(CLOSED_MS, "descriptors to be closed");
	while (proc_fds(NULL, 0) > fds + BACKGROUND_FDS)
		deadline_turn(&deadline);
	return TRIED | (failed ? FAILED_ONCE : 0) | (fine ? 0 : GAVE_UP);
}

static int try_apart(const struct job_plan *plan, const struct limit *limit, unsigned k)
{
	int status;

	fflush(NULL);
	pid_t pid = fork();
	check(pid >= 0);
	if (!pid)
		exit(try_once(plan, limit, k)); /* including the work at exit */
	check_that(peer_reap(pid, 2 * ATTEMPT_MS, &status), "%s %u hangs", front_names[limit->call],
		   k);
	check_that(WIFEXITED(status) && WEXITSTATUS(status) & TRIED,
		   "%s, %s at call %u: status 0x%x", front_names[limit->call], phase_name(limit), k,
		   (unsigned)status);
	return WEXITSTATUS(status);
}

/* FAULTS_CALL in the environment: only that call; FAULTS_K: starts with that one. */
static bool is_wanted(const struct limit *limit)
{
	const char *call = getenv("FAULTS_CALL");
	return !call || !strcmp(call, front_names[limit->call]);
}

static void for_every_k(const struct job_plan *plan, const struct limit *limit)
{
	const char *from = getenv("FAULTS_K");
	unsigned k = from ? (unsigned)atoi(from) : 1, gave_up = 0;

	if (!is_wanted(limit))
		return;
	for (int outcome = FAILED_ONCE; outcome & FAILED_ONCE && k < K_MAX; k++) {
		outcome = try_apart(plan, limit, k);
		if (outcome & GAVE_UP && (limit->recovers || !(outcome & FAILED_ONCE)))
			check_failed(__FILE__, __LINE__,
				     "%s: call %u failed once and was not tried again",
				     front_names[limit->call], k);
		gave_up += (outcome & GAVE_UP) != 0;
	}
	check(k < K_MAX);
	check_that(k > 2 || from, "%s is never called while %s", front_names[limit->call],
		   phase_name(limit));
	printf("%-14s %-10s each of %u calls failed%s: %u times an error, else all was well\n",
	       front_names[limit->call], phase_name(limit), k - 2,
	       limit->more ? ", with those after it" : "", gave_up);
	fflush(stdout);
}

static struct job_plan limit_plan(const struct run *run)
{
	struct job_plan plan = run_plan(run);

	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=2");
	plan_set(&plan, "ANYNET_CONNECT_TIMEOUT=6s");
	plan_set(&plan, "ANYNET_PEER_TIMEOUT=2s");
	return plan;
}

static void limit_calls(const struct run *run)
{
	struct job_plan plan = limit_plan(run);

	for (size_t i = 0; i < LIMITS; i++)
		for_every_k(&plan, &limits[i]);
}

static void limit_memory(const struct run *run)
{
	struct job_plan plan = limit_plan(run);

	if (TEST_SANITIZED)
		check_skip("the sanitizer's malloc is in the way");
	for (size_t i = 0; i < MEMORY_LIMITS; i++)
		for_every_k(&plan, &memory_limits[i]);
}

const struct scenario limit_scenarios[] = {
	{ "limit-calls", limit_calls, 20 },
	{ "limit-memory", limit_memory, 15 },
	{ 0 },
};

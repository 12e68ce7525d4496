/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The k-th allocation, socket, accept and so on fails, for every k: while connections are made, and
 * while broken ones are healed. Nothing crashes or hangs, no byte is wrong, nothing leaks; and what
 * can be tried again is tried again.
 */
#include "front.h"
#include "hurt.h"
#include "scenario.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support/buffer.h>
#include <support/check.h>
#include <support/flow.h>
#include <support/link.h>
#include <support/peer.h>
#include <support/proc.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES      (200u * 1024)
#define COUNT      24
#define K_MAX      2000
#define ONCE_MS    60000
#define CONNECT_MS 6000

enum phase {
	SETTING_UP, /* listen, connect, accept, messages, close */
	HEALING     /* messages over connections that have all been shut, close */
};

/* Exit of one try: a set of these, above any other exit. */
enum outcome {
	TRIED = 0x10,
	FAILED_ONCE = 0x20, /* the call did fail */
	GAVE_UP = 0x40      /* … and something returned an error */
};

struct limit {
	enum front_call call;
	int err;
	enum phase phase;
	unsigned more; /* calls in a row that fail, after the first */
	bool recovers; /* promised: what fails is tried again, and nobody notices */
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
	{ FRONT_SOCKET, ENFILE, HEALING, 0, true },
	{ FRONT_SOCKET, EMFILE, HEALING, 20, true },
	{ FRONT_CONNECT, EADDRNOTAVAIL, HEALING, 0, true },
	{ FRONT_ACCEPT, EMFILE, HEALING, 0, true },
	{ FRONT_ACCEPT, ENFILE, HEALING, 20, true },
	{ FRONT_BIND, EADDRINUSE, HEALING, 0, true },
	{ FRONT_SETSOCKOPT, ENOMEM, HEALING, 0, true },
	{ FRONT_EPOLL_CTL, ENOMEM, HEALING, 0, true },
};
#define LIMITS (sizeof(limits) / sizeof(limits[0]))

static const struct limit memory_limits[] = {
	{ FRONT_MEMORY, ENOMEM, SETTING_UP, 0, false },
	{ FRONT_MEMORY, ENOMEM, HEALING, 0, true },
	{ FRONT_MEMORY, ENOMEM, HEALING, 10, true },
};
#define MEMORY_LIMITS (sizeof(memory_limits) / sizeof(memory_limits[0]))

static const char *phase_name(const struct limit *limit)
{
	return limit->phase == HEALING ? "healing" : "setting up";
}

/* All memory of a try, taken before anything may fail. */
static struct {
	struct job_state job;
	struct test_net net;
	struct link link;
	struct buffer from, to;
	struct transfer sends[COUNT], recvs[COUNT];
	struct flow flows[2];
} try;

static bool connect_both(void)
{
	struct deadline deadline = deadline_in(CONNECT_MS * 2, "a connection or an error");
	struct test_net *net = &try.net;
	struct link *link = &try.link;

	memset(link, 0, sizeof(*link));
	if (driver_listen(net->driver, net->ctx, 0, link_handle(link), &link->listener))
		return false;
	memcpy(link_copy(link), link_handle(link), DRIVER_HANDLE_BYTES);
	while (!link->send || !link->recv) {
		if (!link->send &&
		    driver_connect(net->driver, net->ctx, 0, link_copy(link), &link->send))
			return false;
		if (!link->recv && driver_accept(net->driver, link->listener, &link->recv))
			return false;
		deadline_turn(&deadline);
	}
	return true;
}

static void new_flows(uint64_t seed)
{
	pattern_fill(try.from.data, BYTES, seed);
	buffer_blank(&try.to);
	for (size_t i = 0; i < COUNT; i++) {
		size_t bytes = i % 3 ? BYTES : 100;
		try.sends[i] = transfer_of(try.from.data, bytes, 0, NULL);
		try.recvs[i] = transfer_of(try.to.data + i * BYTES, bytes, 0, NULL);
	}
	try.flows[0] = (struct flow){
		.comm = try.link.send, .is_send = true, .transfers = try.sends, .count = COUNT
	};
	try.flows[1] =
		(struct flow){ .comm = try.link.recv, .transfers = try.recvs, .count = COUNT };
}

/* True if all arrived; false if there was an error, which both ends need not have. */
static bool exchange(uint64_t seed, bool hurt)
{
	struct deadline deadline = deadline_in(ONCE_MS / 2, "messages or an error");

	new_flows(seed);
	for (bool over = false; !over;) {
		bool sent = flow_step(&try.net, &try.flows[0]);
		bool received = flow_step(&try.net, &try.flows[1]);
		if (hurt && try.flows[1].done > COUNT / 2) {
			hurt_all(HURT_SHUT);
			hurt = false;
		}
		if (try.flows[0].error || try.flows[1].error)
			return false;
		over = sent && received;
		deadline_turn(&deadline);
	}
	for (size_t i = 0; i < COUNT; i++)
		pattern_check(try.recvs[i].data[0], (size_t)try.recvs[i].sizes[0], seed);
	return true;
}

static void close_both(void)
{
	struct test_net *net = &try.net;

	check_ok(driver_close_send(net->driver, try.link.send));
	check_ok(driver_close_recv(net->driver, try.link.recv));
	check_ok(driver_close_listen(net->driver, try.link.listener));
}

/* With every resource there again, the same process works. */
static void works_again(void)
{
	check(connect_both());
	check(exchange(2, false));
	close_both();
}

static void prepare(const struct job_plan *plan)
{
	job_environment(plan);
	buffer_alloc(&try.from, BYTES);
	buffer_alloc(&try.to, BYTES * COUNT);
	try.net.driver = job_open(plan, &try.job, &try.net.ctx);
}

static int try_once(const struct job_plan *plan, const struct limit *limit, unsigned k)
{
	bool fine;

	size_t fds = proc_fds(NULL, 0);
	prepare(plan);
	if (limit->phase == SETTING_UP) {
		front_fail(limit->call, k, limit->more, limit->err);
		fine = connect_both() && exchange(1, false);
	} else {
		check(connect_both());
		check(exchange(1, false));
		front_fail(limit->call, k, limit->more, limit->err);
		hurt_all(HURT_SHUT);
		fine = exchange(3, true);
	}
	close_both();
	bool failed = front_over();
	works_again();
	check_ok(driver_finalize(try.net.driver, try.net.ctx));
	struct deadline deadline = deadline_in(CONNECT_MS * 2, "descriptors to be closed");
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
		exit(try_once(plan, limit, k)); /* with what is done at exit */
	check_that(peer_reap(pid, 2 * ONCE_MS, &status), "%s %u hangs", front_names[limit->call],
		   k);
	check_that(WIFEXITED(status) && WEXITSTATUS(status) & TRIED,
		   "%s, %s at call %u: status 0x%x", front_names[limit->call], phase_name(limit), k,
		   (unsigned)status);
	return WEXITSTATUS(status);
}

/* FAULTS_CALL in the environment: only that call; FAULTS_K: beginning with that one. */
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

	plan_set(&plan, "ANYNET_TCP_RAILS=2");
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

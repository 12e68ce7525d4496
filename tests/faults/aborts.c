/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of calls in ncclCommAbort (net-api.md §3.10) at every stage of a connection's life, both ends in one
 * process. Connections in progress are abandoned; then deregMr, with requests in flight, and close. Nothing blocks, no
 * descriptor or thread is left, memory is not accessed again, and the next connection works.
 */
#include "hurt.h"
#include "measure.h"
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support/buffer.h>
#include <support/check.h>
#include <support/flow.h>
#include <support/link.h>
#include <support/proc.h>

#define COUNT      WINDOW
#define MIB        (1024u * 1024)
#define DRAINS     12
#define STEPS_MAX  200
#define TURNS_MAX  12
#define WOUNDS_MAX 24
/* Listeners that NCCL abandons hold the process's listening socket, its epoll instance and the reserve descriptor. */
#define LISTENING 3

#define GONE_MS      TEST_PATIENCE_MS
#define DRAIN_BYTES  3000 /* they fit into the replay memory */

static struct job_state job; /* descriptors and threads of this process */

struct pair {
	struct test_net net;
	struct link link;
	struct buffer from, to;
	void *from_mr, *to_mr;
	struct transfer sends[COUNT], recvs[COUNT];
	struct flow flows[2];
};

static void open_plugin(struct pair *pair, const struct job_plan *plan)
{
	job_environment(plan);
	*pair = (struct pair){ .net.dev = 0 };
	pair->net.driver = job_open(plan, &job, &pair->net.ctx);
}

static void prepare(struct pair *pair, size_t bytes)
{
	buffer_alloc(&pair->from, bytes);
	buffer_alloc(&pair->to, bytes * COUNT);
	pattern_fill(pair->from.data, bytes, 5);
	pair->from_mr = flow_reg(&pair->net, pair->link.send, pair->from.data, bytes);
	pair->to_mr = flow_reg(&pair->net, pair->link.recv, pair->to.data, bytes * COUNT);
	for (size_t i = 0; i < COUNT; i++) {
		pair->sends[i] = transfer_of(pair->from.data, bytes, 0, pair->from_mr);
		pair->recvs[i] = transfer_of(pair->to.data + i * bytes, bytes, 0, pair->to_mr);
	}
	pair->flows[0] = (struct flow){
		.comm = pair->link.send, .is_send = true, .transfers = pair->sends, .count = COUNT
	};
	pair->flows[1] =
		(struct flow){ .comm = pair->link.recv, .transfers = pair->recvs, .count = COUNT };
}

static void turns(struct pair *pair, int count)
{
	for (int i = 0; i < count; i++) {
		flow_step(&pair->net, &pair->flows[0]);
		flow_step(&pair->net, &pair->flows[1]);
		yield_at_times();
	}
}

/* One end, as NCCL's service thread closes it after an abort. Its memory may be reused then. */
static void abort_end(struct pair *pair, bool send_side)
{
	struct test_net *net = &pair->net;
	struct link *link = &pair->link;

	if (send_side) {
		if (pair->from.data)
			measured(&job,
				 check_ok(driver_dereg_mr(net->driver, link->send, pair->from_mr)));
		if (pair->from.data)
			buffer_blank(&pair->from);
		measured(&job, check_ok(driver_close_send(net->driver, link->send)));
		link->send = NULL;
		return;
	}
	if (pair->to.data)
		measured(&job, check_ok(driver_dereg_mr(net->driver, link->recv, pair->to_mr)));
	if (pair->to.data)
		buffer_blank(&pair->to);
	measured(&job, check_ok(driver_close_recv(net->driver, link->recv)));
	link->recv = NULL;
	measured(&job, check_ok(driver_close_listen(net->driver, link->listener)));
	link->listener = NULL;
}

/* After both ends: nothing is left. */
static void finish(struct pair *pair)
{
	if (pair->to.data) {
		blank_check(pair->to.data, pair->to.bytes);
		buffer_free(&pair->to);
		buffer_free(&pair->from);
	}
	measure_check(&job);
}

/* --- during set-up --- */

/* True when both ends are connected within `steps` steps. The listener's end makes the first step of every second pair,
 * so that hellos wait, and welcomes. */
static bool set_up(struct pair *pair, int steps)
{
	bool connected = false, accepted = false;

	link_listen(&pair->net, &pair->link);
	for (int i = 0; i < steps && !(connected && accepted); i++) {
		if (i % 3 != 2)
			connected = link_connect_step(&pair->net, &pair->link);
		if (i % 3 != 0)
			accepted = link_accept_step(&pair->net, &pair->link);
	}
	return connected && accepted;
}

/* Connects and accepts in progress get no close call. */
static void drop_or_abort(struct pair *pair, int variant)
{
	bool first = variant & 1;

	for (int i = 0; i < 2; i++) {
		bool send_side = first == !i;
		void *comm = send_side ? pair->link.send : pair->link.recv;
		if (comm || variant & 2)
			abort_end(pair, send_side);
	}
}

static void works(struct pair *pair)
{
	unsigned char from[1000], to[1000];
	struct link link;

	link_open(&pair->net, &link);
	pattern_fill(from, sizeof(from), 9);
	check_int(link_exchange(&pair->net, &link, from, sizeof(from), to, sizeof(to)),
		  sizeof(from));
	pattern_check(to, sizeof(to), 9);
	link_close(&pair->net, &link);
}

/* Everything else that the plugin opened is closed, at the latest after its own time-out. */
static void await_nothing_left(struct pair *pair, size_t fds, size_t threads)
{
	struct deadline deadline = deadline_in(GONE_MS, "descriptors and threads to go");

	check_ok(driver_finalize(pair->net.driver, pair->net.ctx));
	fds += BACKGROUND_FDS;
	threads += BACKGROUND_THREADS;
	while (proc_fds(NULL, 0) > fds || (!TEST_SANITIZED && proc_threads(NULL, 0) > threads))
		deadline_turn(&deadline);
}

static void abort_setting_up(const struct run *run)
{
	struct job_plan plan = run_plan(run);
	struct pair pair;
	int stages = 0;

	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=4");
	plan_set(&plan, "ANYNET_CONNECT_TIMEOUT=2s");
	plan_set(&plan, "ANYNET_PEER_TIMEOUT=1s");
	size_t threads = proc_threads(NULL, 0), fds = proc_fds(NULL, 0);
	open_plugin(&pair, &plan);
	for (int variant = 0; variant < 4; variant++) {
		bool whole = false;
		for (int steps = 0; !whole && steps < STEPS_MAX; steps++, stages++) {
			whole = set_up(&pair, steps);
			drop_or_abort(&pair, variant);
			finish(&pair);
			memset(&pair.link, 0, sizeof(pair.link));
		}
		check(whole);
		works(&pair);
	}
	await_nothing_left(&pair, fds + LISTENING, threads);
	printf("dropped or aborted at %d stages of setting up\n", stages);
}

/* --- once connected --- */

static void open_pair(struct pair *pair, size_t bytes)
{
	link_open(&pair->net, &pair->link);
	prepare(pair, bytes);
	/* One normal round, so that buffers and streams are in use. */
	flows_run(&pair->net, pair->flows, 2);
	for (size_t i = 0; i < 2; i++)
		pair->flows[i].prepared = pair->flows[i].posted = pair->flows[i].done = 0;
}

static void abort_both(struct pair *pair, bool send_first)
{
	abort_end(pair, send_first);
	abort_end(pair, !send_first);
	finish(pair);
}

static void abort_in_flight(struct pair *pair, size_t bytes)
{
	for (int step = 0; step < TURNS_MAX; step++) {
		open_pair(pair, bytes);
		if (step)
			turns(pair, step - 1);
		abort_both(pair, step & 1);
	}
}

/* All its connections break; then some time passes, with or without calls. */
static void abort_wounded(struct pair *pair, size_t bytes, unsigned what)
{
	for (int step = 0; step < WOUNDS_MAX; step++) {
		open_pair(pair, bytes);
		turns(pair, step % 3);
		check(hurt_all(what) > 0);
		uint64_t end = real_ns() + (uint64_t)(step / 3 * step) * 300000u;
		while (real_ns() < end) {
			if (step & 1)
				turns(pair, 1);
			turn_idle();
		}
		abort_both(pair, step & 2);
	}
}

/* Sends are done, the receiver has not read them, and the sender has closed: it drains. */
static void abort_draining(struct pair *pair)
{
	for (int step = 0; step < 4; step++) {
		link_open(&pair->net, &pair->link);
		prepare(pair, DRAIN_BYTES);
		flows_run(&pair->net, pair->flows, 1);
		abort_end(pair, true);
		if (step & 1)
			hurt_all(HURT_SHUT);
		if (step & 2)
			abort_end(pair, false);
		else
			link_close(&pair->net, &pair->link);
		buffer_blank(&pair->to);
		finish(pair);
	}
}

static void abort_standing(const struct run *run)
{
	const size_t sizes[] = { 1000, MIB };
	struct job_plan plan = run_plan(run);
	struct pair pair;

	plan_set(&plan, "ANYNET_PEER_TIMEOUT=1s");
	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=2");
	size_t threads = proc_threads(NULL, 0), fds = proc_fds(NULL, 0);
	open_plugin(&pair, &plan);
	for (size_t i = 0; i < 2; i++) {
		abort_in_flight(&pair, sizes[i]);
		abort_wounded(&pair, sizes[i], HURT_SHUT);
		abort_wounded(&pair, sizes[i], HURT_SHUT_HALF);
	}
	abort_draining(&pair);
	works(&pair);
	await_nothing_left(&pair, fds, threads);
	printf("aborted in flight, wounded and draining; longest call that slept %.1f ms\n",
	       ms_of(atomic_load(&job.slept_ns)));
}

/* Sends reported as done arrive, even if the connections break after the sender has closed. */
static void draining(const struct run *run)
{
	struct job_plan plan = run_plan(run);
	struct pair pair;

	plan_set(&plan, "ANYNET_PEER_TIMEOUT=5s");
	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=2");
	open_plugin(&pair, &plan);
	for (int step = 0; step < DRAINS; step++) {
		link_open(&pair.net, &pair.link);
		prepare(&pair, DRAIN_BYTES);
		flows_run(&pair.net, pair.flows, 1);
		if (step & 1)
			hurt_all(step & 2 ? HURT_SHUT_HALF : HURT_SHUT);
		abort_end(&pair, true);
		if (!(step & 1))
			hurt_all(step & 2 ? HURT_SHUT_HALF : HURT_SHUT);
		flows_run(&pair.net, &pair.flows[1], 1);
		for (size_t i = 0; i < COUNT; i++)
			pattern_check(pair.to.data + i * DRAIN_BYTES, DRAIN_BYTES, 5);
		abort_end(&pair, false);
		finish(&pair);
	}
	check_ok(driver_finalize(pair.net.driver, pair.net.ctx));
	printf("%d closed senders' last messages arrived over new connections\n", DRAINS);
}

const struct scenario abort_scenarios[] = {
	{ "abort-setting-up", abort_setting_up, 5 },
	{ "abort-standing", abort_standing, 8 },
	{ "cut-draining", draining, 4 },
	{ 0 },
};

/* SPDX-License-Identifier: Apache-2.0 */
/* TCP connections that break between healthy hosts: sockets of either process are shut down, half or completely, or
 * reset, without the plugin. Everything arrives, once, and the job continues. */
#include "hurt.h"
#include "scenario.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <support/check.h>

#define CUTS     75 /* breaks of each side, unless a time is given */
#define NAPS_MS  6000
#define NAP_MS   2000 /* far below ANYNET_RECOVERY_TIMEOUT here */
#define EVERY_US 10000
#define KIB      1024u

/* Heartbeats are far apart: nothing here may depend on one. */
static struct job_plan cut_plan(const struct run *run)
{
	struct job_plan plan = run_plan(run);

	plan_set(&plan, "ANYNET_PEER_TIMEOUT=120s");
	return plan;
}

/* Breaks connections of both jobs at once when `side` is 2. */
static void hurt_both(const struct run *run, struct duo *duo, int side, unsigned what, unsigned us,
		      uint64_t cuts)
{
	for (int i = 0; i < 2; i++) {
		if (side == i || side == 2)
			duo_hurt(duo, i, what, us);
	}
	duo_run(duo, run_ms(run, 0));
	for (int i = 0; i < 2; i++) {
		if (side == i || side == 2)
			duo_await_hurts(duo, i, cuts);
	}
	duo_move(duo, 1, SETTLED_MS);
	for (int i = 0; i < 2; i++)
		duo_hurt(duo, i, 0, 0);
}

static void cut(const struct run *run, struct job_plan plan, int side, unsigned what,
		const char *name)
{
	struct duo duo;

	duo_start(&duo, &plan);
	hurt_both(run, &duo, side, what, EVERY_US, CUTS);
	duo_finish(&duo, name);
}

static void cut_one_stream(const struct run *run)
{
	cut(run, cut_plan(run), 0, HURT_SHUT, "sender");
	cut(run, cut_plan(run), 1, HURT_SHUT, "receiver");
}

static void cut_four_streams(const struct run *run)
{
	struct job_plan plan = cut_plan(run);

	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=4");
	cut(run, plan, 0, HURT_SHUT, "sender");
	cut(run, plan, 1, HURT_SHUT, "receiver");
}

/* One direction at a time: what still arrives has to be used or dropped, not waited for. */
static void cut_half(const struct run *run)
{
	struct job_plan plan = cut_plan(run);

	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=2");
	cut(run, plan, 0, HURT_SHUT_HALF, "sender");
	cut(run, plan, 1, HURT_SHUT_HALF, "receiver");
}

static void cut_reset(const struct run *run)
{
	struct job_plan plan = cut_plan(run);

	if (!hurt_can_reset())
		check_skip("the kernel ends no sockets on demand here: %s", strerror(errno));
	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=2");
	cut(run, plan, 0, HURT_RESET, "sender");
	cut(run, plan, 1, HURT_RESET, "receiver");
}

/* Small messages are reported done when they are copied: they must be retransmitted from the copy. */
static void cut_small(const struct run *run)
{
	struct job_plan plan = cut_plan(run);

	plan.bytes = 1000;
	cut(run, plan, 2, HURT_SHUT, "1000 bytes");
	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=3");
	cut(run, plan, 2, HURT_SHUT, "1000 bytes, 3 streams");
}

/* Announced messages and their CTS, out of order, over connections that break. */
static void cut_tags(const struct run *run)
{
	struct job_plan plan = cut_plan(run);

	plan.tags = 4;
	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=2");
	cut(run, plan, 2, HURT_SHUT | HURT_SHUT_HALF, "4 tags");
	plan.bytes = 64 * KIB;
	plan.grouped = true;
	cut(run, plan, 2, HURT_SHUT | HURT_SHUT_HALF, "groups of 4");
}

/* Several comms each way, a caller that pauses at times, breaks at both ends. */
static void cut_many(const struct run *run)
{
	struct job_plan plan = cut_plan(run);
	struct duo duo;

	plan.streams[0] = 3;
	plan.streams[1] = 3;
	plan.tags = 2;
	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=2");
	duo_start(&duo, &plan);
	atomic_store(&duo.shared->nap_ms[0], 30);
	atomic_store(&duo.shared->nap_ms[1], 30);
	hurt_both(run, &duo, 2, HURT_SHUT | HURT_SHUT_HALF | HURT_RESET, EVERY_US, 4 * CUTS);
	duo_finish(&duo, "6 streams");
}

static void cut_threads(const struct run *run)
{
	struct job_plan plan = cut_plan(run);

	plan.streams[1] = 1;
	plan_set(&plan, "ANYNET_IO_THREADS=2");
	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=2");
	cut(run, plan, 2, HURT_SHUT, "I/O threads");
}

static void cut_zerocopy(const struct run *run)
{
	struct job_plan plan = cut_plan(run);

	plan_set(&plan, "ANYNET_TCP_ZEROCOPY=on");
	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=2");
	cut(run, plan, 2, HURT_SHUT | HURT_RESET, "MSG_ZEROCOPY");
}

/* Large sends are done before they are acknowledged: NCCL reuses the buffer, and fills it again. */
static void cut_keep(const struct run *run)
{
	struct job_plan plan = cut_plan(run);

	plan_set(&plan, "ANYNET_TCP_KEEP=2m");
	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=2");
	cut(run, plan, 2, HURT_SHUT | HURT_RESET, "large sends kept");
}

static void cut_checksum(const struct run *run)
{
	struct job_plan plan = cut_plan(run);

	plan_set(&plan, "ANYNET_CHECKSUM=1");
	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=2");
	cut(run, plan, 2, HURT_SHUT | HURT_SHUT_HALF, "with checksums");
}

/* All connections break while nothing is in flight. The next messages arrive. */
static void cut_idle(const struct run *run)
{
	struct job_plan plan = cut_plan(run);
	struct duo duo;

	plan.streams[1] = 1;
	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=2");
	duo_start(&duo, &plan);
	for (int i = 0; i < 6; i++) {
		duo_move(&duo, 8, SETTLED_MS);
		duo_hold(&duo);
		duo_hurt(&duo, i & 1, HURT_SHUT, 1000);
		duo_run(&duo, 50 * (i + 1));
		duo_hurt_end(&duo, i & 1);
		duo_go(&duo);
	}
	duo_move(&duo, 8, SETTLED_MS);
	duo_finish(&duo, "idle");
}

/* NCCL need not call while a kernel computes: the connections have recovered by its next call. */
static void cut_napping(const struct run *run)
{
	struct job_plan plan = cut_plan(run);
	struct duo duo;

	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=2");
	plan_set(&plan, "ANYNET_RECOVERY_TIMEOUT=6s");
	duo_start(&duo, &plan);
	for (int side = 0; side < 2; side++)
		atomic_store(&duo.shared->nap_ms[side], NAP_MS);
	duo_hurt(&duo, 0, HURT_SHUT, EVERY_US * 10);
	duo_run(&duo, run_ms(run, NAPS_MS));
	for (int side = 0; side < 2; side++)
		atomic_store(&duo.shared->nap_ms[side], 0);
	duo_hurt_end(&duo, 0);
	duo_finish(&duo, "callers that rest");
}

const struct scenario cut_scenarios[] = {
	{ "cut-1-stream", cut_one_stream, 7 }, { "cut-4-streams", cut_four_streams, 7 },
	{ "cut-half", cut_half, 7 },           { "cut-reset", cut_reset, 7 },
	{ "cut-small", cut_small, 7 },         { "cut-tags", cut_tags, 7 },
	{ "cut-many", cut_many, 7 },           { "cut-threads", cut_threads, 4 },
	{ "cut-zerocopy", cut_zerocopy, 4 },   { "cut-keep", cut_keep, 4 },
	{ "cut-checksum", cut_checksum, 4 },   { "cut-idle", cut_idle, 5 },
	{ "cut-napping", cut_napping, 7 },     { 0 },
};

/* SPDX-License-Identifier: Apache-2.0 */
/* Figures for bench/recovery.sh: rates with and without faults, alternating, on one connection. It reads the lines that
 * begin with "figure". */
#include "scenario.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <support/check.h>

#define KIB       1024u
#define TURN_MS   1000
#define WARM_MS   500
#define TURNS     4
#define EVERY_US  20000
#define MBIT      1000
#define TURNS_MAX 256
#define JUMP_MS   4000
#define OUTAGE_MS 500

#define STALLS_MAX     1000
#define STALL_MESSAGES 20
#define BETWEEN_MS     1200 /* for a second an alarm that was taken for false delays the next one of its path */
#define STALL_LONG_MS  200  /* longer ones are printed */
#define SEEN_MS        200  /* within which a path in use carries a message */
#define LOSS_PERMILLE  50

static double rate(struct duo *duo, int ms)
{
	uint64_t bytes = duo_bytes(duo), began = real_ns();

	duo_run(duo, ms);
	return (double)(duo_bytes(duo) - bytes) / (double)(real_ns() - began);
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), ascending);
	return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static void stream(const struct run *run)
{
	struct job_plan plan = run_plan(run);
	struct duo duo;

	plan.bytes = 512 * KIB;
	plan.fast = true;
	duo_start(&duo, &plan);
	duo_run(&duo, WARM_MS);
	printf("figure rate GB/s %.3f\n", rate(&duo, run_ms(run, TURN_MS)));
	duo_finish(&duo, "stream");
}

/* seconds= is the time with faults; the whole takes twice as long. */
static void cut_rates(const struct run *run, int side)
{
	struct job_plan plan = run_plan(run);
	double whole[TURNS_MAX], cut[TURNS_MAX], ratio[TURNS_MAX];
	int count = run_ms(run, TURNS * TURN_MS) / TURN_MS;
	struct duo duo;

	plan.bytes = 512 * KIB;
	plan.fast = true;
	count = count < TURNS_MAX ? count : TURNS_MAX;
	duo_start(&duo, &plan);
	duo_run(&duo, WARM_MS);
	for (int i = 0; i < count; i++) {
		whole[i] = rate(&duo, TURN_MS);
		duo_hurt(&duo, side, HURT_SHUT, EVERY_US);
		cut[i] = rate(&duo, TURN_MS);
		duo_hurt_end(&duo, side);
		ratio[i] = cut[i] / whole[i];
	}
	printf("figure cut-%s GB/s %.3f of %.3f ratio %.3f\n", side ? "receiver" : "sender",
	       median(cut, count), median(whole, count), median(ratio, count));
	duo_finish(&duo, "cut");
}

static void cut_rates_sender(const struct run *run)
{
	cut_rates(run, 0);
}

static void cut_rates_receiver(const struct run *run)
{
	cut_rates(run, 1);
}

/* One of two links fails permanently: the remaining rate, against that of one link alone. */
static void lost_rate(const struct run *run)
{
	struct job_plan plan = run_plan(run);
	struct world world;
	struct duo duo, alone;

	world_make(&world, 2, MBIT);
	plan.netns[0] = world.host[0];
	plan.netns[1] = world.host[1];
	plan.bytes = 512 * KIB;
	plan.fast = true;
	plan.ifname = "=" WORLD_IFNAME "0";
	duo_start(&alone, &plan);
	duo_run(&alone, WARM_MS);
	double one = rate(&alone, run_ms(run, TURN_MS));
	duo_finish(&alone, "one link");
	plan.ifname = WORLD_IFNAME;
	duo_start(&duo, &plan);
	duo_run(&duo, WARM_MS);
	double two = rate(&duo, run_ms(run, TURN_MS));
	duo_reset_stall(&duo);
	world_link(&world, 0, 1, false);
	duo_move(&duo, 10, SETTLED_MS);
	double stall = ms_of(duo_stall_ns(&duo));
	duo_run(&duo, WARM_MS);
	double left = rate(&duo, run_ms(run, TURN_MS));
	printf("figure lost GB/s %.4f of two, %.4f of one; stall %.0f ms, then %.4f = %.3f of one\n",
	       two, one, stall, left, left / one);
	duo_finish(&duo, "one of two links");
}

/* --- stalls --- */

struct trouble {
	const char *name;
	void (*change)(const struct world *world, int side, unsigned path, bool well);
	bool both; /* both sides at once, not by turns */
};

static void blackhole(const struct world *world, int side, unsigned path, bool well)
{
	world_drop(world, side, path, !well);
}

static void rst(const struct world *world, int side, unsigned path, bool well)
{
	if (!well)
		check_that(world_rst(world, side, path, SEEN_MS), "no traffic on path %u", path);
}

static void half_open(const struct world *world, int side, unsigned path, bool well)
{
	(void)side;
	if (well)
		world_remember(world);
	else
		check_that(world_forget(world, path, SEEN_MS), "no traffic on path %u", path);
}

static const struct trouble troubles[] = {
	{ "carrier lost", world_carrier, false },
	{ "RST", rst, false },
	{ "blackhole in one direction", blackhole, false },
	{ "blackhole in both directions", blackhole, true },
	{ "half-open", half_open, true },
};

/* A path that carries messages, the requested one if it does: streams return to it after a while. */
static unsigned path_in_use(const struct world *world, unsigned path)
{
	struct deadline deadline = deadline_in(SETTLED_MS, "messages on a path");
	unsigned port[2];

	for (; !world_see_data(world, path, SEEN_MS, port); path = !path)
		deadline_turn(&deadline);
	return path;
}

/* Two paths fail alternately, each at one side and then at the other; messages of all sizes continue. */
static void stalls_of(struct duo *duo, const struct world *world, const struct trouble *trouble, int ms)
{
	double stalls[STALLS_MAX];
	int count = 0;

	for (uint64_t end = real_ns() + (uint64_t)ms * 1000000u; real_ns() < end && count < STALLS_MAX; count++) {
		int side = trouble->both ? WORLD_BOTH : count >> 1 & 1;
		unsigned path;

		duo_run(duo, BETWEEN_MS);
		world_settle(world); /* or both paths are down at once */
		path = path_in_use(world, count & 1);
		duo_reset_stall(duo);
		trouble->change(world, side, path, false);
		duo_move(duo, STALL_MESSAGES, SETTLED_MS);
		stalls[count] = ms_of(duo_stall_ns(duo));
		if (stalls[count] > STALL_LONG_MS)
			printf("stall of %.0f ms until %.3f s: %s, side %d, path %u\n", stalls[count],
			       (double)real_ns() / 1e9, trouble->name, side, path);
		trouble->change(world, side, path, true);
	}
	qsort(stalls, (size_t)count, sizeof(stalls[0]), ascending);
	printf("figure stall ms %s: %d faults, p50 %.0f, p99 %.0f, p99.9 %.0f, most %.0f\n",
	       trouble->name, count, stalls[count / 2], stalls[count * 99 / 100],
	       stalls[count * 999 / 1000], stalls[count - 1]);
	fflush(stdout);
}

static void stalls(const struct run *run)
{
	int ms = run_ms(run, TURN_MS * 10) / (int)(sizeof(troubles) / sizeof(troubles[0]));
	struct job_plan plan = run_plan(run);
	struct world world;
	struct duo duo;

	world_make(&world, 2, MBIT);
	plan.netns[0] = world.host[0];
	plan.netns[1] = world.host[1];
	plan.bytes = SIZES_MIX;
	plan.ifname = WORLD_IFNAME;
	duo_start(&duo, &plan);
	for (size_t i = 0; i < sizeof(troubles) / sizeof(troubles[0]); i++)
		stalls_of(&duo, &world, &troubles[i], ms);
	duo_finish(&duo, "stalls");
}

/* Packets are lost on both of two paths, which stay in use. */
static void lossy(const struct run *run)
{
	struct job_plan plan = run_plan(run);
	struct world world;
	struct duo duo;

	world_make(&world, 2, MBIT);
	plan.netns[0] = world.host[0];
	plan.netns[1] = world.host[1];
	plan.bytes = SIZES_MIX;
	plan.ifname = WORLD_IFNAME;
	duo_start(&duo, &plan);
	duo_run(&duo, WARM_MS);
	for (unsigned path = 0; path < 2; path++)
		world_lose(&world, path, LOSS_PERMILLE);
	duo_reset_stall(&duo);
	printf("figure lossy GB/s %.4f\n", rate(&duo, run_ms(run, TURN_MS * 4)));
	duo_finish(&duo, "packets lost on both paths");
}

/* Clock jumps do no harm. */
static void clock_jumps(const struct run *run)
{
	struct job_plan plan = run_plan(run);
	struct duo duo;

	plan.streams[1] = 1;
	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=2");
	plan_set(&plan,
		 "ANYNET_PEER_TIMEOUT=60s"); /* far below an hour, far above the sum of the jumps */
	plan_set(&plan, "ANYNET_STALL_WARN=60s");
	duo_start(&duo, &plan);
	for (int side = 0; side < 2; side++)
		duo_hurt(&duo, side, HURT_WALL | HURT_CLOCK, 50000);
	duo_run(&duo, run_ms(run, JUMP_MS) / 2);
	/* … also while streams are down. */
	for (int side = 0; side < 2; side++)
		duo_hurt(&duo, side, HURT_WALL | HURT_CLOCK | HURT_SHUT, 20000);
	duo_run(&duo, run_ms(run, JUMP_MS) / 2);
	for (int side = 0; side < 2; side++)
		duo_hurt(&duo, side, HURT_WALL | HURT_CLOCK, 20000);
	duo_hold(&duo);
	duo_run(&duo, OUTAGE_MS);
	duo_go(&duo);
	duo_move(&duo, 8, SETTLED_MS);
	for (int side = 0; side < 2; side++) {
		duo_hurt_end(&duo, side);
		if (duo_warns(&duo, side, NULL))
			duo_failed(&duo, "WARNs because a clock jumped");
	}
	duo_finish(&duo, "jumping clocks");
}

const struct scenario figure_scenarios[] = {
	{ "stream", stream, 3 },
	{ "figure-cut-sender", cut_rates_sender, 10 },
	{ "figure-cut-receiver", cut_rates_receiver, 10 },
	{ "figure-lost", lost_rate, 6 },
	{ "figure-stalls", stalls, 20 },
	{ "figure-lossy", lossy, 8 },
	{ "clock-jumps", clock_jumps, 6 },
	{ 0 },
};

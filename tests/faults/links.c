/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that break between healthy hosts: links down and up at either end, cables pulled, packets lost, resets by a
 * middlebox; with one path or several. */
#include "scenario.h"
#include "world.h"

#include <stdio.h>
#include <string.h>
#include <support/buffer.h>
#include <support/check.h>

#define MBIT      1000
#define KIB       1024u
#define DOWN_MS   1200
#define PEER_MS   1000 /* ANYNET_PEER_TIMEOUT here */
#define SEEN_MS   5000 /* time for a segment to pass while messages flow */
#define FLAPS     20   /* unless a time is given */
#define RST_TRIES 20

static struct job_plan world_plan(const struct run *run, const struct world *world)
{
	struct job_plan plan = run_plan(run);

	plan.ifname = WORLD_IFNAME;
	plan.netns[0] = world->host[0];
	plan.netns[1] = world->host[1];
	plan.bytes = 512 * KIB;
	return plan;
}

/* A way for a link to fail. */
struct loss {
	const char *name;
	void (*change)(const struct world *world, int side, unsigned path, bool up);
	int side;
};

static const struct loss losses[] = {
	{ "sender's link down", world_link, 0 },
	{ "receiver's link down", world_link, 1 },
	{ "sender's carrier lost", world_carrier, 0 },
	{ "receiver's carrier lost", world_carrier, 1 },
	{ "both carriers lost", world_carrier, WORLD_BOTH },
};
#define LOSSES (sizeof(losses) / sizeof(losses[0]))

/* --- the only link --- */

static double time_to_resume(struct duo *duo, const struct world *world, const struct loss *loss,
			     int down_ms)
{
	duo_move(duo, 8, SETTLED_MS);
	loss->change(world, loss->side, 0, false);
	duo_run(duo, down_ms);
	uint64_t messages = duo_messages(duo), up = real_ns();
	loss->change(world, loss->side, 0, true);
	struct deadline deadline = deadline_in(SETTLED_MS, "traffic over the link");
	while (duo_messages(duo) < messages + 3) {
		if (deadline_passed(&deadline))
			duo_failed(duo, "%s: no traffic %d ms after the link is back", loss->name,
				   SETTLED_MS);
		duo_turn(duo);
	}
	return ms_of(real_ns() - up);
}

static void link_only(const struct run *run)
{
	struct world world;
	struct duo duo;

	world_make(&world, 1, MBIT);
	struct job_plan plan = world_plan(run, &world);
	duo_start(&duo, &plan);
	for (size_t i = 0; i < LOSSES; i++)
		printf("%s: resumed %.0f ms after it is back\n", losses[i].name,
		       time_to_resume(&duo, &world, &losses[i], run_ms(run, DOWN_MS)));
	duo_finish(&duo, "the only link");
}

/* --- one of two links --- */

static double stall_at_loss(struct duo *duo, const struct world *world, const struct loss *loss)
{
	duo_move(duo, 50, SETTLED_MS);
	duo_reset_stall(duo);
	loss->change(world, loss->side, 1, false);
	duo_move(duo, 100, SETTLED_MS);
	double ms = ms_of(duo_stall_ns(duo));
	loss->change(world, loss->side, 1, true);
	return ms;
}

static void link_one_of_two(const struct run *run)
{
	struct world world;
	struct duo duo;

	world_make(&world, 2, MBIT);
	struct job_plan plan = world_plan(run, &world);
	duo_start(&duo, &plan);
	for (size_t i = 0; i < LOSSES; i++) {
		printf("%s, one of two: stall of %.0f ms\n", losses[i].name,
		       stall_at_loss(&duo, &world, &losses[i]));
		duo_run(&duo, 1000); /* time for the stream to return */
	}
	duo_finish(&duo, "one of two links");
}

/* --- links that flap --- */

static void flap(const struct world *world, uint64_t *random, bool up[WORLD_PATHS_MAX],
		 const struct loss *how[WORLD_PATHS_MAX])
{
	unsigned path = (unsigned)random_below(random, world->paths);

	if (up[path])
		how[path] = &losses[random_below(random, LOSSES)];
	up[path] = !up[path];
	how[path]->change(world, how[path]->side, path, up[path]);
}

static void link_flaps(const struct run *run)
{
	bool up[WORLD_PATHS_MAX] = { true, true, true, true };
	const struct loss *how[WORLD_PATHS_MAX] = { 0 };
	uint64_t random = run->seed;
	struct world world;
	struct duo duo;
	unsigned flaps = 0;

	world_make(&world, 4, MBIT / 4);
	struct job_plan plan = world_plan(run, &world);
	plan.bytes = SIZES_MIX;
	plan.streams[1] = 1;
	duo_start(&duo, &plan);
	for (uint64_t end = real_ns() + (uint64_t)run_ms(run, 0) * 1000000u;
	     flaps < FLAPS || real_ns() < end; flaps++) {
		flap(&world, &random, up, how);
		duo_run(&duo, 20 + (int)random_below(&random, 300));
	}
	for (unsigned path = 0; path < world.paths; path++) {
		if (!up[path])
			how[path]->change(&world, how[path]->side, path, true);
	}
	duo_move(&duo, 3, SETTLED_MS);
	printf("%u links changed\n", flaps);
	duo_finish(&duo, "four flapping links");
}

/* --- lost packets --- */

/* Of the NICs that NCCL wants to connect, packets vanish. Any other pair of them is on two networks. */
static void blackhole_at_setup(const struct run *run)
{
	struct world world;

	world_make(&world, 2, MBIT);
	struct job_plan plan = world_plan(run, &world);
	for (int side = 0; side <= WORLD_BOTH; side++) {
		struct duo duo;

		world_drop(&world, side, 0, true);
		duo_start(&duo, &plan);
		duo_move(&duo, 20, SETTLED_MS);
		world_drop(&world, side, 0, false);
		duo_finish(&duo, "connected while one of two paths was a blackhole");
	}
}

/* No end is notified. The other path takes over after the time-out at the latest. */
static void blackhole_one_of_two(const struct run *run)
{
	struct world world;
	struct duo duo;

	world_make(&world, 2, MBIT);
	struct job_plan plan = world_plan(run, &world);
	plan_set(&plan, "ANYNET_PEER_TIMEOUT=1s");
	duo_start(&duo, &plan);
	for (int side = 0; side <= WORLD_BOTH; side++) {
		duo_move(&duo, 50, SETTLED_MS);
		duo_reset_stall(&duo);
		world_drop(&world, side, 0, true);
		duo_move(&duo, 100, SETTLED_MS);
		printf("packets to %s vanish on one of two paths: stall of %.0f ms\n",
		       side == 0   ? "the sender"
		       : side == 1 ? "the receiver"
				   : "both",
		       ms_of(duo_stall_ns(&duo)));
		world_drop(&world, side, 0, false);
		duo_run(&duo, PEER_MS);
	}
	duo_finish(&duo, "blackhole on one of two paths");
}

/* A pause shorter and one longer than the time-out, in each direction and in both. */
static void blackhole_only(const struct run *run)
{
	struct world world;
	struct duo duo;

	world_make(&world, 1, MBIT);
	struct job_plan plan = world_plan(run, &world);
	plan_set(&plan, "ANYNET_PEER_TIMEOUT=1s");
	duo_start(&duo, &plan);
	for (int side = 0; side <= WORLD_BOTH; side++) {
		for (int ms = PEER_MS / 4; ms <= PEER_MS * 2; ms += PEER_MS * 7 / 4) {
			duo_move(&duo, 8, SETTLED_MS);
			world_drop(&world, side, 0, true);
			duo_run(&duo, ms);
			uint64_t back = real_ns();
			world_drop(&world, side, 0, false);
			duo_move(&duo, 3, SETTLED_MS);
			printf("%d ms without packets to %s: resumed after %.0f ms\n", ms,
			       side == 0   ? "the sender"
			       : side == 1 ? "the receiver"
					   : "both",
			       ms_of(real_ns() - back));
		}
	}
	duo_finish(&duo, "blackhole on the only path");
}

/* --- resets by a middlebox --- */

static void reset_paths(const struct run *run, unsigned paths)
{
	struct world world;
	struct duo duo;
	unsigned sent = 0;

	world_make(&world, paths, MBIT / 2);
	struct job_plan plan = world_plan(run, &world);
	plan.bytes = SIZES_MIX;
	plan_set(&plan, "ANYNET_PEER_TIMEOUT=120s"); /* no heartbeat helps */
	duo_start(&duo, &plan);
	for (unsigned i = 0; i < RST_TRIES; i++) {
		sent += world_rst(&world, (int)(i & 1), i / 2 % paths, SEEN_MS);
		duo_move(&duo, 1, SETTLED_MS);
	}
	check_that(sent > RST_TRIES / 2, "only %u resets sent", sent);
	printf("%u resets from the middle\n", sent);
	duo_finish(&duo, paths > 1 ? "resets on two paths" : "resets on one path");
}

static void reset_from_middle(const struct run *run)
{
	reset_paths(run, 1);
}

static void reset_from_middle_two(const struct run *run)
{
	reset_paths(run, 2);
}

/* The first path with traffic while `quiet` makes the sender wait: its connection is reset at the receiver, once the
 * receiver has everything. */
static bool reset_when_silent(const struct world *world, struct duo *duo,
			      void (*quiet)(struct duo *duo), void (*loud)(struct duo *duo))
{
	struct world_tap taps[WORLD_PATHS_MAX];
	bool sent = false;

	for (unsigned path = 0; path < world->paths; path++)
		taps[path] = world_tap(world, 1, path);
	quiet(duo);
	for (unsigned path = 0; path < world->paths; path++) {
		sent = sent || world_rst_silent(&taps[path], 200);
		world_untap(&taps[path]);
	}
	loud(duo);
	return sent;
}

static void stop_receiver(struct duo *duo)
{
	duo_stop(duo, 1);
}

static void continue_receiver(struct duo *duo)
{
	duo_continue(duo, 1);
}

/* The receiver can no longer report what it has; the sender waits for its acknowledgement on a connection that looks
 * established. */
static void reset_unnoticed(const struct run *run, unsigned paths)
{
	struct world world;
	struct duo duo;
	unsigned sent = 0;

	world_make(&world, paths, MBIT / 2);
	struct job_plan plan = world_plan(run, &world);
	plan.bytes = 1000;
	plan_set(&plan, "ANYNET_PEER_TIMEOUT=120s"); /* no heartbeat helps */
	duo_start(&duo, &plan);
	for (unsigned i = 0; i < RST_TRIES && sent < 4; i++) {
		duo_move(&duo, 8, SETTLED_MS);
		sent += i & 1 ? reset_when_silent(&world, &duo, duo_hold, duo_go)
			      : reset_when_silent(&world, &duo, stop_receiver, continue_receiver);
	}
	duo_move(&duo, 8, SETTLED_MS);
	check_that(sent > 1, "only %u resets sent", sent);
	printf("%u resets that one side did not notice\n", sent);
	duo_finish(&duo, paths > 1 ? "unnoticed resets on two paths" : "unnoticed resets");
}

static void reset_unnoticed_one(const struct run *run)
{
	reset_unnoticed(run, 1);
}

static void reset_unnoticed_two(const struct run *run)
{
	reset_unnoticed(run, 2);
}

const struct scenario link_scenarios[] = {
	{ "link-only", link_only, 12 },
	{ "link-one-of-two", link_one_of_two, 12 },
	{ "link-flaps", link_flaps, 9 },
	{ "blackhole-at-setup", blackhole_at_setup, 9 },
	{ "blackhole-one-of-two", blackhole_one_of_two, 10 },
	{ "blackhole-only", blackhole_only, 12 },
	{ "reset-from-middle", reset_from_middle, 5 },
	{ "reset-from-middle-2", reset_from_middle_two, 5 },
	{ "reset-unnoticed", reset_unnoticed_one, 5 },
	{ "reset-unnoticed-2", reset_unnoticed_two, 5 },
	{ 0 },
};

/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that are established and deliver nothing: the network passes handshakes only, data is always corrupted,
 * every connection ends before one piece has arrived. Either the job continues, or both ends get an error in time, and
 * a few log lines say why. */
#include "scenario.h"
#include "world.h"

#include <nccl_net/wire.h>
#include <stdio.h>
#include <support/check.h>

#define MBIT      1000
#define KIB       1024u
#define RECOVERY_MS   3000 /* ANYNET_RECOVERY_TIMEOUT here */
#define WARNS_MAX 12   /* breaks of a connection that is replaced during that time */

static const char *const roles[] = { "sender", "receiver" };

static struct job_plan vain_plan(const struct run *run)
{
	struct job_plan plan = run_plan(run);

	plan.bytes = 512 * KIB;
	plan_set(&plan, "ANYNET_PEER_TIMEOUT=3s");
	plan_set(&plan, "ANYNET_RECOVERY_TIMEOUT=3s");
	return plan;
}

static struct job_plan world_plan(const struct run *run, const struct world *world)
{
	struct job_plan plan = vain_plan(run);

	plan.ifname = WORLD_IFNAME;
	plan.netns[0] = world->host[0];
	plan.netns[1] = world->host[1];
	return plan;
}

/* Both fail; one of them logs `why`, and neither logs much. */
static void both_give_up(struct duo *duo, uint64_t began, const char *why)
{
	for (int side = 0; side < 2; side++) {
		duo_await_error(duo, side, SETTLED_MS);
		printf("the %s gave up after %.0f ms, %u WARNs\n", roles[side],
		       ms_of(real_ns() - began), duo_warns(duo, side, NULL));
		if (duo_warns(duo, side, NULL) > WARNS_MAX)
			duo_failed(duo, "%u WARNs", duo_warns(duo, side, NULL));
		for (unsigned i = 0; i < WARNS_KEPT && duo->shared->jobs[side].warn[i][0]; i++)
			printf("  %s\n", duo->shared->jobs[side].warn[i]);
	}
	if (!duo_warns(duo, 0, why) && !duo_warns(duo, 1, why))
		duo_failed(duo, "no WARN says '%s'", why);
	for (int side = 0; side < 2; side++) {
		duo_abort(duo, side);
		duo_reap(duo, side);
		check_int(atomic_load(&duo->shared->jobs[side].wrong_bytes), 0);
	}
}

/* The only path loses packets of full size: it continues with smaller ones. */
static void size_only(const struct run *run)
{
	struct world world;
	struct duo duo;

	world_make(&world, 1, MBIT);
	struct job_plan plan = world_plan(run, &world);
	duo_start(&duo, &plan);
	duo_move(&duo, 8, SETTLED_MS);
	duo_reset_stall(&duo);
	world_drop_large(&world, 0);
	duo_move(&duo, 20, SETTLED_MS);
	if (duo_warns(&duo, 0, "full-size packets do not get through") != 1)
		duo_failed(&duo, "not one WARN about the size of packets");
	duo_finish(&duo, "packets over 1023 bytes lost on the only path");
}

/* The other path takes over: at once, and while the first one is retried. */
static void one_of_two(const struct run *run, bool large, const char *what)
{
	struct world world;
	struct duo duo;

	world_make(&world, 2, MBIT);
	struct job_plan plan = world_plan(run, &world);
	duo_start(&duo, &plan);
	duo_move(&duo, 8, SETTLED_MS);
	duo_reset_stall(&duo);
	if (large)
		world_drop_large(&world, 0);
	else
		world_drop_data(&world, 0, sizeof(struct anynet_wire_hello));
	duo_move(&duo, 20, SETTLED_MS);
	printf("stall of %.0f ms\n", ms_of(duo_stall_ns(&duo)));
	duo_run(&duo, run_ms(run, RECOVERY_MS * 2));
	struct deadline deadline = deadline_in(SETTLED_MS, "smaller packets on the first path");
	while (large && !duo_warns(&duo, 0, "full-size packets do not get through")) {
		if (deadline_passed(&deadline))
			duo_failed(&duo, "the first path was not tried with smaller packets");
		duo_move(&duo, 1, SETTLED_MS);
	}
	duo_finish(&duo, what);
}

static void size_one_of_two(const struct run *run)
{
	one_of_two(run, true, "packets over 1023 bytes lost on one of two paths");
}

static void handshakes_one_of_two(const struct run *run)
{
	one_of_two(run, false, "all but handshakes lost on one of two paths");
}

static void handshakes_only(const struct run *run)
{
	struct world world;
	struct duo duo;

	world_make(&world, 1, MBIT);
	struct job_plan plan = world_plan(run, &world);
	duo_start(&duo, &plan);
	duo_move(&duo, 8, SETTLED_MS);
	uint64_t began = real_ns();
	world_drop_data(&world, 0, sizeof(struct anynet_wire_hello));
	both_give_up(&duo, began, "the network passes handshakes only");
}

/* The sender's memory, or its NIC, changes a bit of every piece. */
static void corrupt_always(const struct run *run)
{
	struct job_plan plan = vain_plan(run);
	struct duo duo;

	plan_set(&plan, "ANYNET_CHECKSUM=1");
	duo_start(&duo, &plan);
	duo_move(&duo, 8, SETTLED_MS);
	uint64_t began = real_ns();
	duo_hurt(&duo, 0, HURT_FLIP, 1000);
	both_give_up(&duo, began, "its checksum is always wrong");
}

/* No connection delivers as much as a piece that counts only as a whole. */
static void reset_always(const struct run *run)
{
	struct job_plan plan = vain_plan(run);
	struct duo duo;

	plan_set(&plan, "ANYNET_CHECKSUM=1");
	plan_set(&plan, "ANYNET_TCP_RCVBUF=32k"); /* so that the data does not arrive at once */
	duo_start(&duo, &plan);
	duo_move(&duo, 8, SETTLED_MS);
	uint64_t began = real_ns();
	duo_hurt(&duo, 1, HURT_SHORT, 1000);
	both_give_up(&duo, began, "connections in a row");
}

/* If less than a piece counts as well it continues. */
static void reset_often(const struct run *run)
{
	struct job_plan plan = vain_plan(run);
	struct duo duo;

	duo_start(&duo, &plan);
	duo_move(&duo, 8, SETTLED_MS);
	duo_hurt(&duo, 1, HURT_SHORT, 1000);
	duo_run(&duo, run_ms(run, RECOVERY_MS * 2));
	duo_move(&duo, 8, SETTLED_MS);
	for (int side = 0; side < 2; side++)
		if (duo_warns(&duo, side, NULL))
			duo_failed(&duo, "WARNs, although it goes on");
	duo_finish(&duo, "connections that bring 64 KiB");
}

const struct scenario vain_scenarios[] = {
	{ "size-only", size_only, 8 },
	{ "size-one-of-two", size_one_of_two, 12 },
	{ "handshakes-only", handshakes_only, 8 },
	{ "handshakes-one-of-two", handshakes_one_of_two, 12 },
	{ "corrupt-always", corrupt_always, 6 },
	{ "reset-always", reset_always, 6 },
	{ "reset-often", reset_often, 8 },
	{ 0 },
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random faults. A soak is a sequence of episodes, each with its own jobs, paths and settings, during which faults
 * occur; most end normally, some with a death. The seed determines all of it, so the same seed gives the same faults in
 * the same order; soak-episode repeats one.
 */
#include "hurt.h"
#include "scenario.h"
#include "world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support/buffer.h>
#include <support/check.h>
#include <support/peer.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOAK_MS      8000
#define FAULTS_MAX   24 /* of an episode */
#define EPISODE_S    120
#define PEER_MS      2000 /* ANYNET_PEER_TIMEOUT here */
#define ERROR_MS     1000
#define CLOSE_MS     50
#define PATIENCE_MS  60000
#define KIB          1024u
#define STARTED_MS   300
#define DOWN_MS_MAX  1500
#define DROP_MS_MAX  3000
#define FAULT_MS_MAX 900

/* Totals of all episodes; shared with them. */
struct totals {
	_Atomic uint64_t messages, bytes, faults, deaths;
	_Atomic uint64_t stall_ms;
};

struct episode {
	uint64_t random;
	struct duo duo;
	struct world world; /* paths 0 = loopback */
	bool resets;        /* the kernel can end sockets */
	struct totals *totals;
	char setting[6][40];
	unsigned faults;
};

static unsigned below(struct episode *episode, unsigned bound)
{
	return (unsigned)random_below(&episode->random, bound);
}

static void set_random(struct episode *episode, struct job_plan *plan, int place, const char *name,
		       unsigned value, const char *unit)
{
	snprintf(episode->setting[place], sizeof(episode->setting[place]), "%s=%u%s", name, value,
		 unit);
	plan_set(plan, episode->setting[place]);
}

static struct job_plan random_plan(struct episode *episode, const struct run *run)
{
	static const size_t sizes[] = { SIZES_MIX, SIZES_MIX, SIZES_MIX, 8,
					1000,      64 * KIB,  512 * KIB };
	struct job_plan plan = run_plan(run);

	plan.seed = random_next(&episode->random);
	plan.streams[0] = 1 + below(episode, 3);
	plan.streams[1] = below(episode, 3);
	plan.bytes = sizes[below(episode, sizeof(sizes) / sizeof(sizes[0]))];
	plan.tags = below(episode, 3) ? 0 : 2 + 2 * below(episode, 2);
	plan.grouped = plan.tags && plan.bytes && below(episode, 2);
	set_random(episode, &plan, 0, "ANYNET_TCP_CONNECTIONS", 1 + below(episode, 4), "");
	set_random(episode, &plan, 1, "ANYNET_IO_THREADS", below(episode, 4) ? 0 : 2, "");
	set_random(episode, &plan, 2, "ANYNET_CHECKSUM", !below(episode, 4), "");
	set_random(episode, &plan, 3, "ANYNET_TCP_ZEROCOPY", !below(episode, 4), "");
	set_random(episode, &plan, 4, "ANYNET_PEER_TIMEOUT", PEER_MS, "ms");
	if (below(episode, 2))
		set_random(episode, &plan, 5, "ANYNET_TCP_EAGER", below(episode, 3) * 4, "k");
	return plan;
}

/* --- faults that must be survived --- */

static unsigned random_hurt(struct episode *episode)
{
	static const unsigned kinds[] = { HURT_SHUT, HURT_SHUT_HALF, HURT_RESET, HURT_WALL,
					  HURT_CLOCK };
	unsigned what = 0;

	while (!what) {
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			what |= below(episode, 3) ? 0 : kinds[i];
		what &= episode->resets ? ~0u : ~HURT_RESET;
	}
	return what;
}

static void fault_hurt(struct episode *episode)
{
	int side = (int)below(episode, 2);

	duo_hurt(&episode->duo, side, random_hurt(episode), 1000 * (4 + below(episode, 100)));
	duo_run(&episode->duo, (int)below(episode, FAULT_MS_MAX));
	if (below(episode, 2))
		duo_hurt(&episode->duo, side, 0, 0);
}

/* A connection that this side shuts down while it waits for the stopped peer's answer looks as if the peer had closed
 * it, again and again: that fault is not meant here. */
static void fault_stop(struct episode *episode)
{
	int side = (int)below(episode, 2);
	_Atomic unsigned *hurt = &episode->duo.shared->hurt[!side];
	unsigned before = atomic_load(hurt);

	atomic_store(hurt, before & ~(HURT_SHUT | HURT_SHUT_HALF));
	duo_stop(&episode->duo, side);
	duo_run(&episode->duo, (int)below(episode, 2 * PEER_MS));
	duo_continue(&episode->duo, side);
	atomic_store(hurt, before);
}

static void fault_nap(struct episode *episode)
{
	atomic_store(&episode->duo.shared->nap_ms[below(episode, 2)], below(episode, 200));
}

static void fault_idle(struct episode *episode)
{
	for (int side = 0; side < 2; side++)
		atomic_store(&episode->duo.shared->nap_ms[side], 0);
	duo_hold(&episode->duo);
	duo_run(&episode->duo, (int)below(episode, FAULT_MS_MAX));
	duo_go(&episode->duo);
}

static void fault_link(struct episode *episode)
{
	int side = (int)below(episode, 3);
	unsigned path = below(episode, episode->world.paths);
	void (*change)(const struct world *, int, unsigned, bool) =
		below(episode, 2) ? world_link : world_carrier;

	change(&episode->world, side, path, false);
	duo_run(&episode->duo, (int)below(episode, DOWN_MS_MAX));
	change(&episode->world, side, path, true);
}

static void fault_drop(struct episode *episode)
{
	int side = (int)below(episode, 3);
	unsigned path = below(episode, episode->world.paths);

	world_drop(&episode->world, side, path, true);
	duo_run(&episode->duo, (int)below(episode, DROP_MS_MAX));
	world_drop(&episode->world, side, path, false);
}

static void fault_rst(struct episode *episode)
{
	int side = (int)below(episode, 2);
	unsigned path = below(episode, episode->world.paths);

	world_rst(&episode->world, side, path, FAULT_MS_MAX / 4);
}

static void one_fault(struct episode *episode)
{
	static void (*const anywhere[])(struct episode *) = { fault_hurt, fault_hurt, fault_stop,
							      fault_nap, fault_idle };
	static void (*const on_paths[])(struct episode *) = { fault_link, fault_drop, fault_rst };

	episode->faults++;
	if (episode->world.paths && below(episode, 2))
		on_paths[below(episode, 3)](episode);
	else
		anywhere[below(episode, 5)](episode);
}

/* --- ends --- */

static void end_well(struct episode *episode)
{
	struct duo *duo = &episode->duo;

	for (int side = 0; side < 2; side++) {
		atomic_store(&duo->shared->nap_ms[side], 0);
		duo_hurt(duo, side, 0, 0);
	}
	duo_move(duo, 1, PATIENCE_MS);
	uint64_t hurts = 0, stall = duo_stall_ns(duo) / 1000000u;
	for (int side = 0; side < 2; side++)
		hurts += atomic_load(&duo->shared->jobs[side].hurts);
	duo_hold(duo);
	atomic_fetch_add(&episode->totals->messages, duo_messages(duo));
	atomic_fetch_add(&episode->totals->bytes, duo_bytes(duo));
	atomic_fetch_add(&episode->totals->faults, hurts + episode->faults);
	if (stall > atomic_load(&episode->totals->stall_ms))
		atomic_store(&episode->totals->stall_ms, stall);
	duo_finish(duo, "episode");
}

/* One job dies or aborts meanwhile; the other one is notified, and gets away. */
static void end_badly(struct episode *episode)
{
	struct duo *duo = &episode->duo;
	int side = (int)below(episode, 2);
	bool gives_up = below(episode, 2);

	duo_run(duo, 0); /* no error so far */
	atomic_fetch_add(&episode->totals->messages, duo_messages(duo));
	atomic_fetch_add(&episode->totals->bytes, duo_bytes(duo));
	atomic_fetch_add(&episode->totals->faults, episode->faults);
	atomic_fetch_add(&episode->totals->deaths, 1);
	atomic_store(&duo->shared->nap_ms[!side], 0);
	if (gives_up) {
		duo_abort(duo, side);
		duo_reap(duo, side);
	} else {
		duo_kill(duo, side);
	}
	double error = ms_of(duo_await_error(duo, !side, PATIENCE_MS));
	double closed = ms_of(duo_abort(duo, !side));
	duo_reap(duo, !side);
	if (atomic_load(&duo->shared->jobs[!side].wrong_bytes))
		duo_failed(duo, "wrong bytes");
	printf("job %d %s: the other knew after %.0f ms, and closed in %.1f ms%s\n", side,
	       gives_up ? "gave up" : "killed", error, closed,
	       error > ERROR_MS || closed > CLOSE_MS ? " (late)" : "");
}

static void run_episode(const struct run *run, uint64_t seed, struct totals *totals)
{
	struct episode episode = { .random = seed, .totals = totals, .resets = hurt_can_reset() };
	unsigned paths = below(&episode, 6);

	if (paths && paths <= WORLD_PATHS_MAX)
		world_make(&episode.world, paths, 100 + below(&episode, 1000));
	struct job_plan plan = random_plan(&episode, run);
	for (int side = 0; side < 2 && episode.world.paths; side++)
		plan.netns[side] = episode.world.host[side];
	if (episode.world.paths)
		plan.ifname = WORLD_IFNAME;
	duo_start(&episode.duo, &plan);
	duo_run(&episode.duo, STARTED_MS);
	for (unsigned left = 1 + below(&episode, FAULTS_MAX); left; left--)
		one_fault(&episode);
	if (below(&episode, 5))
		end_well(&episode);
	else
		end_badly(&episode);
}

static struct totals *new_totals(void)
{
	struct totals *totals = mmap(NULL, sizeof(*totals), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(totals != MAP_FAILED);
	return totals;
}

static bool episode_apart(const struct run *run, uint64_t seed, struct totals *totals)
{
	int status = 0;

	fflush(NULL);
	pid_t pid = fork();
	check(pid >= 0);
	if (!pid) {
		run_episode(run, seed, totals);
		exit(0);
	}
	bool ended = peer_reap(pid, EPISODE_S * 1000, &status);
	if (!ended) {
		printf("not over after %d s; ", EPISODE_S);
		kill(pid, SIGKILL); /* its jobs are killed with it */
		waitpid(pid, &status, 0);
	}
	if (ended && WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIPPED)
		_exit(TEST_SKIPPED);
	return ended && WIFEXITED(status) && !WEXITSTATUS(status);
}

static void soak(const struct run *run)
{
	struct totals *totals = new_totals();
	uint64_t state = run->seed, began = real_ns();
	uint64_t end = began + (uint64_t)run_ms(run, SOAK_MS) * 1000000u;
	unsigned episodes = 0, lost = 0;

	for (; real_ns() < end; episodes++) {
		uint64_t seed = random_next(&state);
		printf("%6.0f s episode %u seed %lu: ", (double)(real_ns() - began) / 1e9, episodes,
		       (unsigned long)seed);
		if (!episode_apart(run, seed, totals)) {
			lost++;
			printf("LOST; again: faults soak-episode seed=%lu\n", (unsigned long)seed);
		}
	}
	printf("soak: seed %lu, %u episodes, %lu messages, %.1f GB, %lu faults, %lu deaths, longest stall %lu ms, %u lost\n",
	       (unsigned long)run->seed, episodes, (unsigned long)atomic_load(&totals->messages),
	       (double)atomic_load(&totals->bytes) / 1e9,
	       (unsigned long)atomic_load(&totals->faults),
	       (unsigned long)atomic_load(&totals->deaths),
	       (unsigned long)atomic_load(&totals->stall_ms), lost);
	fflush(stdout);
	if (lost)
		_exit(TEST_FAILED);
}

static void soak_episode(const struct run *run)
{
	run_episode(run, run->seed, new_totals());
}

const struct scenario soak_scenarios[] = {
	{ "soak", soak, 20 },
	{ "soak-episode", soak_episode, EPISODE_S },
	{ 0 },
};

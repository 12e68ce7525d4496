/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that are gone, or seem to be: killed, stopped, cut off. Dead peers are detected, living ones are waited for,
 * and an aborting rank gets away at once. */
#include "measure.h"
#include "scenario.h"
#include "world.h"

#include <stdio.h>
#include <string.h>
#include <support/check.h>

#define MIB       (1024u * 1024)
#define MBIT      500
#define BUSY_MS   300
#define STOP_MS   2500 /* longer than PEER_TIMEOUT and RECOVERY_TIMEOUT together */
#define EXPECTED  8    /* receives without a message */
#define FROZEN_MS 100

static const char *const roles[] = { "sender", "receiver" };

static void tell(const char *what, int survivor, double ms)
{
	printf("%s, the %s is left: %.1f ms\n", what, roles[survivor], ms);
	fflush(stdout);
}

/* --- dead peers --- */

enum state {
	BUSY,
	IDLE,      /* nothing in flight; used again after the death */
	EXPECTING, /* receives posted, nothing sent */
	STATES
};

static const char *const state_names[] = { "killed while busy", "killed while idle",
					   "killed while expected to send" };

static double close_after_error(struct duo *duo, int survivor)
{
	double ms = ms_of(duo_abort(duo, survivor));

	duo_reap(duo, survivor);
	measure_check(&duo->shared->jobs[survivor]);
	check_int(atomic_load(&duo->shared->jobs[survivor].wrong_bytes), 0);
	return ms;
}

static void start_for_death(struct duo *duo, const struct run *run, int state)
{
	struct job_plan plan = run_plan(run);

	plan.bytes = MIB;
	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=2");
	duo_start(duo, &plan);
	duo_move(duo, 8, SETTLED_MS);
	if (state == BUSY)
		return;
	duo_hold(duo);
	atomic_store(&duo->shared->ahead, state == EXPECTING ? EXPECTED : 0);
	while (state == EXPECTING && atomic_load(&duo->shared->jobs[1].streams[0].posted) <
					     atomic_load(&duo->shared->limit) + EXPECTED)
		duo_turn(duo);
}

static double time_to_error(const struct run *run, int survivor, int state)
{
	struct duo duo;

	start_for_death(&duo, run, state);
	uint64_t began = real_ns();
	duo_kill(&duo, !survivor);
	if (state == IDLE)
		duo_go(&duo);
	duo_await_error(&duo, survivor, SETTLED_MS);
	double ms = ms_of(real_ns() - began);
	check_int(duo_error(&duo, survivor), 6); /* ncclRemoteError */
	double close_ms = close_after_error(&duo, survivor);
	printf("  then closed in %.1f ms, %u WARNs\n", close_ms, duo_warns(&duo, survivor, NULL));
	return ms;
}

static void killed(const struct run *run)
{
	for (int state = 0; state < STATES; state++) {
		for (int survivor = state == EXPECTING ? 1 : 0; survivor < 2; survivor++)
			tell(state_names[state], survivor, time_to_error(run, survivor, state));
	}
}

/* --- closing without a peer --- */

enum absence {
	FROZEN,
	DEAD,
	FROZEN_THREADS, /* … with I/O threads here */
	ABSENCES
};

static const char *const absence_names[] = { "closed with the peer frozen mid-message",
					     "closed with the peer dead mid-message",
					     "closed with the peer frozen, I/O threads" };

static void await_waiting(struct duo *duo, int side)
{
	struct stream_state *state = &duo->shared->jobs[side].streams[0];
	struct deadline deadline = deadline_in(SETTLED_MS, "requests to wait");

	for (;;) {
		uint64_t since = atomic_load(&state->waits_since_ns), now = real_ns();
		if (since && now > since && now - since > FROZEN_MS * 1000000u)
			return;
		if (deadline_passed(&deadline))
			duo_failed(duo, "nothing waits for the frozen peer");
		duo_turn(duo);
	}
}

static double time_to_close(const struct run *run, int survivor, int absence)
{
	struct job_plan plan = run_plan(run);
	struct duo duo;

	plan.bytes = 4 * MIB;
	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=4");
	if (absence == FROZEN_THREADS)
		plan_set(&plan, "ANYNET_IO_THREADS=2");
	duo_start(&duo, &plan);
	duo_move(&duo, 4, SETTLED_MS);
	if (absence == DEAD) {
		duo_kill(&duo, !survivor);
		return close_after_error(&duo, survivor);
	}
	duo_stop(&duo, !survivor);
	await_waiting(&duo, survivor);
	double ms = close_after_error(&duo, survivor);
	duo_continue(&duo, !survivor);
	duo_await_error(&duo, !survivor, SETTLED_MS);
	atomic_store(&duo.shared->jobs[!survivor].slept_ns, 0); /* it was stopped in a call */
	close_after_error(&duo, !survivor);
	return ms;
}

static void close_alone(const struct run *run)
{
	for (int absence = 0; absence < ABSENCES; absence++) {
		for (int survivor = 0; survivor < 2; survivor++)
			tell(absence_names[absence], survivor,
			     time_to_close(run, survivor, absence));
	}
}

static struct world world; /* one for all attempts: this process enters it once */

static struct job_plan world_plan(const struct run *run)
{
	struct job_plan plan = run_plan(run);

	plan.ifname = WORLD_IFNAME;
	plan.netns[0] = world.host[0];
	plan.netns[1] = world.host[1];
	plan.bytes = MIB;
	return plan;
}

static double time_to_close_cut_off(const struct run *run, int survivor)
{
	struct job_plan plan = world_plan(run);
	struct duo duo;

	duo_start(&duo, &plan);
	duo_move(&duo, 4, SETTLED_MS);
	world_drop(&world, WORLD_BOTH, 0, true);
	await_waiting(&duo, survivor);
	double ms = close_after_error(&duo, survivor);
	world_drop(&world, WORLD_BOTH, 0, false);
	duo_await_error(&duo, !survivor, SETTLED_MS);
	close_after_error(&duo, !survivor);
	return ms;
}

static void close_cut_off(const struct run *run)
{
	world_make(&world, 1, MBIT);
	for (int survivor = 0; survivor < 2; survivor++)
		tell("closed in a blackhole, requests in flight", survivor,
		     time_to_close_cut_off(run, survivor));
}

/* --- silence --- */

/* The other host is lost without notice. */
static void silent_host(const struct run *run)
{
	static const struct {
		const char *setting;
		int least_ms;
	} cases[] = {
		{ "ANYNET_RECOVERY_TIMEOUT=0", 0 },
		{ "ANYNET_RECOVERY_TIMEOUT=1s", 1000 },
	};

	world_make(&world, 1, MBIT);
	for (size_t i = 0; i < 2; i++) {
		struct job_plan plan = world_plan(run);
		struct duo duo;
		plan_set(&plan, "ANYNET_PEER_TIMEOUT=1s");
		plan_set(&plan, cases[i].setting);
		duo_start(&duo, &plan);
		duo_move(&duo, 8, SETTLED_MS);
		uint64_t began = real_ns();
		world_drop(&world, WORLD_BOTH, 0, true);
		for (int side = 0; side < 2; side++) {
			duo_await_error(&duo, side, SETTLED_MS);
			double ms = ms_of(real_ns() - began);
			printf("host lost, PEER_TIMEOUT 1 s, %s: the %s knew within %.0f ms\n",
			       cases[i].setting, roles[side], ms);
			check(ms >= cases[i].least_ms);
			check_int(duo_warns(&duo, side, NULL), 1);
		}
		for (int side = 0; side < 2; side++)
			close_after_error(&duo, side);
		world_drop(&world, WORLD_BOTH, 0, false);
	}
}

/* The WARN that a job gives after 1 s, and no other. */
static void await_warn(const struct duo *duo, int side)
{
	struct deadline deadline = deadline_in(SETTLED_MS, "a WARN");

	while (!duo_warns(duo, side, NULL)) {
		if (deadline_passed(&deadline))
			duo_failed(duo, "no WARN of the %s's", roles[side]);
		duo_turn(duo);
	}
}

/* A stopped process is not dead, however long. */
static void stopped(const struct run *run)
{
	for (int side = 0; side < 2; side++) {
		struct job_plan plan = run_plan(run);
		struct duo duo;
		plan_set(&plan, "ANYNET_PEER_TIMEOUT=1s");
		plan_set(&plan, "ANYNET_RECOVERY_TIMEOUT=1s");
		plan_set(&plan, "ANYNET_STALL_WARN=1s");
		plan_set(&plan, "ANYNET_TCP_CONNECTIONS=2");
		duo_start(&duo, &plan);
		duo_move(&duo, 8, SETTLED_MS);
		duo_stop(&duo, side);
		duo_forget_warns(&duo);
		duo_run(&duo, run_ms(run, STOP_MS));
		await_warn(&duo, !side);
		unsigned warns = duo_warns(&duo, !side, NULL);
		duo_continue(&duo, side);
		duo_move(&duo, 8, SETTLED_MS);
		if (warns != 1)
			duo_failed(&duo, "%u WARNs instead of one while the peer was stopped",
				   warns);
		printf("%s\n", duo.shared->jobs[!side].warn[0]);
		duo_finish(&duo, side ? "stopped receiver" : "stopped sender");
	}
}

/* Both at once, as when a whole job is suspended. */
static void stopped_both(const struct run *run)
{
	struct job_plan plan = run_plan(run);
	struct duo duo;

	plan.streams[1] = 1;
	plan_set(&plan, "ANYNET_PEER_TIMEOUT=1s");
	plan_set(&plan, "ANYNET_RECOVERY_TIMEOUT=1s");
	duo_start(&duo, &plan);
	duo_move(&duo, 8, SETTLED_MS);
	duo_stop(&duo, 0);
	duo_stop(&duo, 1);
	duo_run(&duo, run_ms(run, STOP_MS));
	duo_continue(&duo, 1);
	duo_run(&duo, BUSY_MS);
	duo_continue(&duo, 0);
	duo_move(&duo, 8, SETTLED_MS);
	duo_finish(&duo, "both stopped");
}

/* A receiver that waits for a healthy peer that sends nothing: one warning, no more. */
static void stall_warn(const struct run *run)
{
	struct job_plan plan = run_plan(run);
	struct duo duo;
	char pid[16];

	plan_set(&plan, "ANYNET_STALL_WARN=1s");
	plan_set(&plan, "ANYNET_PEER_TIMEOUT=1s");
	duo_start(&duo, &plan);
	duo_move(&duo, 8, SETTLED_MS);
	duo_hold(&duo);
	duo_forget_warns(&duo);
	atomic_store(&duo.shared->ahead, EXPECTED);
	duo_run(&duo, STOP_MS);
	await_warn(&duo, 1);
	snprintf(pid, sizeof(pid), "%d", (int)duo.pids[0]);
	if (duo_warns(&duo, 1, NULL) != 1 || duo_warns(&duo, 1, pid) != 1 ||
	    duo_warns(&duo, 0, NULL))
		duo_failed(&duo, "not one WARN that names the peer's pid %s", pid);
	printf("%s\n", duo.shared->jobs[1].warn[0]);
	atomic_store(&duo.shared->ahead, 0);
	duo_go(&duo);
	duo_move(&duo, 8, SETTLED_MS);
	duo_finish(&duo, "an idle sender");
}

/* --- aborts --- */

/* The only link fails permanently. */
static void recovery_timeout(const struct run *run)
{
	struct job_plan plan;
	struct duo duo;
	char pid[2][16];

	world_make(&world, 1, MBIT);
	plan = world_plan(run);
	plan_set(&plan, "ANYNET_PEER_TIMEOUT=1s");
	plan_set(&plan, "ANYNET_RECOVERY_TIMEOUT=2s");
	duo_start(&duo, &plan);
	duo_move(&duo, 8, SETTLED_MS);
	uint64_t began = real_ns();
	world_link(&world, 0, 0, false);
	for (int side = 0; side < 2; side++) {
		duo_await_error(&duo, side, SETTLED_MS);
		double ms = ms_of(real_ns() - began);
		printf("the %s gave up after %.0f ms: %s\n", roles[side], ms,
		       duo.shared->jobs[side].warn[0]);
		check_that(ms > 1900, "%.0f ms", ms);
		check_int(duo_error(&duo, side), 6);
		snprintf(pid[side], sizeof(pid[side]), "%d", (int)duo.pids[!side]);
		if (duo_warns(&duo, side, NULL) != 1 || duo_warns(&duo, side, pid[side]) != 1 ||
		    duo_warns(&duo, side, "10.78.0.") != 1)
			duo_failed(&duo, "not one WARN with the peer's pid %s and addresses",
				   pid[side]);
	}
	for (int side = 0; side < 2; side++)
		close_after_error(&duo, side);
}

/* Recovery disabled: the first break is the end. */
static void recovery_off(const struct run *run)
{
	for (int side = 0; side < 2; side++) {
		struct job_plan plan = run_plan(run);
		struct duo duo;
		plan_set(&plan, "ANYNET_RECOVERY_TIMEOUT=0");
		plan_set(&plan, "ANYNET_TCP_CONNECTIONS=2");
		duo_start(&duo, &plan);
		duo_move(&duo, 8, SETTLED_MS);
		duo_hurt(&duo, side, HURT_SHUT, 1000);
		duo_await_error(&duo, 0, SETTLED_MS);
		duo_await_error(&duo, 1, SETTLED_MS);
		for (int i = 0; i < 2; i++) {
			check_int(duo_error(&duo, i), 6);
			check_int(duo_warns(&duo, i, NULL), 1);
		}
		for (int i = 0; i < 2; i++)
			close_after_error(&duo, i);
	}
}

const struct scenario peer_scenarios[] = {
	{ "killed", killed, 10 },
	{ "close-alone", close_alone, 10 },
	{ "close-cut-off", close_cut_off, 8 },
	{ "silent-host", silent_host, 10 },
	{ "stopped", stopped, 9 },
	{ "stopped-both", stopped_both, 5 },
	{ "stall-warn", stall_warn, 5 },
	{ "recovery-timeout", recovery_timeout, 8 },
	{ "recovery-off", recovery_off, 3 },
	{ 0 },
};

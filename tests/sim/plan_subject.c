/* SPDX-License-Identifier: Apache-2.0 */
/* Runs about one subject each: a condition that holds from the beginning to the end, beside which faults occur. */
#include "sim/plan.h"

static bool is_free(const struct plan *plan, const struct plan_limits *limits)
{
	return !plan->turns && !limits->stalls && !limits->window && !limits->quiet_seconds;
}

/* All paths lead through a switch with a small MTU that nobody reports. */
static void draw_narrow(struct plan *plan, const struct plan_limits *limits)
{
	struct sim_random random = plan_stream(plan->seed, "a narrow network");

	if (is_free(plan, limits) && !plan->brief && !limits->ib && random_chance(&random, 60000)) {
		plan->narrow = NARROW_BYTES;
		plan->lossy = 0;
	}
}

/* A network of one host is dead from the beginning on, for longer than a comm may take that uses another one. */
static void draw_dead(struct plan *plan, const struct plan_limits *limits)
{
	struct sim_random random = plan_stream(plan->seed, "dead at set-up");

	plan->dead = is_free(plan, limits) && !plan->brief && !limits->ib && plan->nics > 1 && !plan->narrow &&
		     random_chance(&random, 60000);
	if (plan->dead)
		plan->lossy = 0;
}

/* Comms are set up and closed, again and again, and nothing is sent. */
static void draw_empty(struct plan *plan, const struct plan_limits *limits)
{
	struct sim_random random = plan_stream(plan->seed, "no messages");

	if (is_free(plan, limits) && random_chance(&random, 40000)) {
		plan->messages = 0;
		plan->rounds = ONE_OF(&random, 2, 4, 8);
	}
}

/* The first network has no RDMA, and carries the TCP connections of all comms. Only it fails. */
static void draw_apart(struct plan *plan, const struct plan_limits *limits)
{
	struct sim_random random = plan_stream(plan->seed, "control network apart");

	plan->apart = is_free(plan, limits) && !plan->brief && limits->ib && plan->nics > 1 &&
		      random_chance(&random, 60000);
	if (!plan->apart)
		return;
	plan->rounds = 1;
	/* The end of a TCP connection must not overtake a BYE by more than the time-outs. */
	if (plan->bytes_max > 65536)
		plan->bytes_max = 65536;
}

void plan_draw_subject(struct plan *plan, const struct plan_limits *limits)
{
	draw_narrow(plan, limits);
	draw_dead(plan, limits);
	draw_empty(plan, limits);
	draw_apart(plan, limits);
}

/* Two paths that fail by turns: each works at least while the other one does not. */
uint64_t plan_draw_turns(struct plan *plan)
{
	struct sim_random random = plan_stream(plan->seed, "turns");
	uint64_t span_ns = ONE_OF(&random, 20, 60) * SIM_S;

	plan->hosts = 2;
	plan->nics = 2;
	plan->ranks_per_host = plan->rounds = 1;
	plan->lossy = 0;
	plan->messages = ONE_OF(&random, 200, 600, 2000);
	plan->bytes_max = ONE_OF(&random, 4096, 65536, 1048576);
	plan->bytes_per_ms = 125000;
	plan->mbps = 1000;
	plan->setting_count = 0;
	plan->peer_timeout_ns = 30 * SIM_S;
	plan->gap_ns = span_ns * plan->block / plan->messages;
	return span_ns;
}

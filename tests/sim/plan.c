/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws a run. Each seed turns kinds of faults and of settings on and off, so that rare mixtures come up
 * (swarm testing). See plan.h.
 */
#include "sim/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUTAGE_MOST (35 * SIM_S) /* of all faults together, below the least ANYNET_RECOVERY_TIMEOUT */
#define STALL_MOST  (8 * SIM_S)
#define PATIENCE    (60 * SIM_S) /* after the last fault */

const char *const fault_names[FAULT_KINDS] = {
	"carrier", "silent", "deaf", "dumb", "cut",  "parted", "lossy", "slow", "late", "narrow",
	"reset",   "half",   "stop", "nap",  "fork", "calls",  "abort", "kill", "power",
};

static void setting(struct plan *plan, const char *name, unsigned value)
{
	snprintf(plan->settings[plan->setting_count++], PLAN_ENV_BYTES, "%s=%u", name, value);
}

static unsigned one_of(struct sim_random *random, const unsigned *values, unsigned count)
{
	return values[random_below(random, count)];
}

#define ONE_OF(random, ...) \
	one_of(random, (const unsigned[]){ __VA_ARGS__ }, sizeof((unsigned[]){ __VA_ARGS__ }) / sizeof(unsigned))

static void draw_settings(struct plan *plan, struct sim_random *random)
{
	if (random_chance(random, 300000))
		setting(plan, "ANYNET_TCP_CONNECTIONS", ONE_OF(random, 1, 2, 3, 4, 8));
	if (random_chance(random, 200000))
		setting(plan, "ANYNET_TCP_EAGER", ONE_OF(random, 0, 64, 1000, 65536));
	if (random_chance(random, 200000))
		setting(plan, "ANYNET_TCP_REPLAY", ONE_OF(random, 4096, 16384, 1048576));
	if (random_chance(random, 200000))
		setting(plan, "ANYNET_TCP_KEEP", ONE_OF(random, 0, 65536, 8388608));
	if (random_chance(random, 200000))
		setting(plan, "ANYNET_TCP_CHUNK", ONE_OF(random, 4096, 32768, 1048576));
	if (random_chance(random, 200000))
		setting(plan, "ANYNET_CHECKSUM", 1);
	if (random_chance(random, 200000))
		setting(plan, "ANYNET_IO_THREADS", ONE_OF(random, 1, 2, 4));
	if (random_chance(random, 200000))
		setting(plan, "ANYNET_TCP_SNDBUF", ONE_OF(random, 4096, 65536));
	if (random_chance(random, 200000))
		setting(plan, "ANYNET_TCP_RCVBUF", ONE_OF(random, 4096, 65536));
	if (random_chance(random, 150000))
		snprintf(plan->settings[plan->setting_count++], PLAN_ENV_BYTES, "ANYNET_TCP_STRIPE=on");
	}

static void draw_timeouts(struct plan *plan, struct sim_random *random)
{
	unsigned peer = random_chance(random, 500000) ? 30 : ONE_OF(random, 2, 5, 10);

	plan->peer_timeout_ns = peer * SIM_S;
	plan->recovery_timeout_ns = 60 * SIM_S;
	if (peer != 30)
		setting(plan, "ANYNET_PEER_TIMEOUT", peer);
}

static void draw_network(struct plan *plan, struct sim_random *random)
{
	plan->bytes_per_ms = ONE_OF(random, 12500, 125000, 1250000, 12500000); /* 100 Mb/s to 100 Gb/s */
	plan->mbps = (unsigned)(plan->bytes_per_ms * 8 / 1000);
	plan->latency_ns = ONE_OF(random, 1000, 5000, 50000, 2000000) * UINT64_C(1);
	plan->jitter_ns = random_chance(random, 300000) ? random_below(random, 200 * SIM_US) : 0;
	plan->lossy = random_chance(random, 200000) ? (unsigned)random_below(random, 10000) : 0;
	plan->shortens = random_chance(random, 300000) ? ONE_OF(random, 10000, 300000, 900000) : 0;
	plan->preempts = random_chance(random, 300000) ? ONE_OF(random, 1000, 20000) : 0;
}

static void draw_traffic(struct plan *plan, struct sim_random *random)
{
	plan->messages = ONE_OF(random, 16, 64, 200);
	plan->bytes_max = ONE_OF(random, 4096, 4096, 65536, 65536, 262144, 1048576);
	plan->rounds = random_chance(random, 200000) ? 2 : 1;
	plan->window = 8;
	plan->tags = random_chance(random, 400000);
	plan->group = plan->tags ? ONE_OF(random, 1, 2, 4) : 1;
	plan->barrier = random_chance(random, 660000);
	plan->abi = (int)ONE_OF(random, 5, 6, 7, 8, 8, 9, 10, 11, 12, 12);
}

/* --- who sends to whom --- */

static void add_edge(struct plan *plan, unsigned from, unsigned to)
{
	struct plan_edge *edge = &plan->edges[plan->edge_count];

	if (plan->edge_count == PLAN_EDGES_MAX)
		return;
	*edge = (struct plan_edge){ from, to, plan->edge_count % plan->nics, plan->edge_count % plan->nics };
	plan->edge_count++;
}

static void draw_edges(struct plan *plan, uint64_t pattern)
{
	unsigned ranks = plan->hosts * plan->ranks_per_host;

	for (unsigned i = 0; i < ranks; i++) {
		add_edge(plan, i, (i + 1) % ranks);
		if (pattern % 3 == 1)
			add_edge(plan, (i + 1) % ranks, i);
		for (unsigned j = 2; pattern % 3 == 2 && ranks <= 4 && j < ranks; j++)
			add_edge(plan, i, (i + j) % ranks);
	}
}

/* --- faults --- */

/* As long as they last the peer may be out of reach: together they must be shorter than what ends a comm. */
static bool is_outage(enum fault_kind kind)
{
	return kind <= FAULT_PARTED || kind == FAULT_LOSSY || kind == FAULT_NARROW || kind == FAULT_RESET ||
	       kind == FAULT_HALF || kind == FAULT_CALLS || kind == FAULT_LATE || kind == FAULT_SLOW;
}

static uint64_t draw_duration(struct sim_random *random)
{
	switch (random_below(random, 4)) {
	case 0:
		return random_between(random, 1, 100) * SIM_MS;
	case 1:
		return random_between(random, 100, 2000) * SIM_MS;
	default:
		return random_between(random, 1000, 8000) * SIM_MS;
	}
}

static void draw_faults(struct plan *plan, struct sim_random *random)
{
	bool on[FAULT_KINDS] = { false }, deadly = random_chance(random, 150000);
	unsigned kinds = (unsigned)random_below(random, 4), span_s = ONE_OF(random, 5, 20, 60);
	uint64_t outage = 0;

	for (unsigned i = 0; i < kinds; i++)
		on[random_below(random, FAULTS_GENTLE)] = true;
	if (deadly)
		on[random_between(random, FAULTS_GENTLE, FAULT_KINDS - 1)] = true;
	plan->fault_count = (unsigned)random_between(random, 1, 24);
	/* Messages as long as there are faults, and a little longer or shorter. */
	plan->gap_ns = random_between(random, 0, 1500) * SIM_MS * span_s / (plan->messages / 4);
	for (unsigned i = 0; i < plan->fault_count; i++) {
		struct plan_fault *fault = &plan->faults[i];
		enum fault_kind kind = (enum fault_kind)random_below(random, FAULT_KINDS);

		for (unsigned j = 0; !on[kind] && j < FAULT_KINDS; j++)
			kind = (kind + 1) % FAULT_KINDS;
		*fault = (struct plan_fault){ .kind = kind,
					      .at_ns = random_below(random, span_s * SIM_S),
					      .for_ns = draw_duration(random),
					      .host = random_next(random) >> 8,
					      .other = random_next(random) >> 8,
					      .nic = random_next(random) >> 8,
					      .pick = random_next(random) >> 8 };
		if (kind == FAULT_CARRIER)
			fault->at_ns += SIM_S; /* what has none at the start is no device */
		if (!on[kind] || (is_outage(kind) && outage + fault->for_ns > OUTAGE_MOST))
			fault->for_ns = 0; /* left out */
		else if (is_outage(kind))
			outage += fault->for_ns;
	}
}

/* --- what the command line takes away --- */

static void keep_some_faults(struct plan *plan, const struct plan_limits *limits)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < plan->fault_count; i++) {
		const struct plan_fault *fault = &plan->faults[i];

		if (!fault->for_ns || (limits->some_faults && !(limits->faults >> i & 1)) ||
		    (limits->kind >= 0 && fault->kind != (enum fault_kind)limits->kind))
			plan->faults[i].for_ns = 0;
		else
			kept++;
	}
	if (!kept)
		plan->fault_count = 0;
}

static void summarize(struct plan *plan)
{
	plan->only_kind = -1;
	plan->deadly = false;
	plan->faults_end_ns = 0;
	for (unsigned i = 0; i < plan->fault_count; i++) {
		const struct plan_fault *fault = &plan->faults[i];
		uint64_t end = fault->at_ns + fault->for_ns;

		if (!fault->for_ns)
			continue;
		plan->deadly |= fault->kind >= FAULTS_GENTLE;
		plan->only_kind = plan->only_kind == -1 || plan->only_kind == (int)fault->kind ? (int)fault->kind : -2;
		plan->faults_end_ns = end > plan->faults_end_ns ? end : plan->faults_end_ns;
	}
}

/* Everything is sent after that time, if nothing is in the way; slow networks take longer. */
static uint64_t traffic_ns(const struct plan *plan)
{
	uint64_t blocks = (plan->messages + 3) / 4, bytes = plan->messages * plan->bytes_max * plan->edge_count;

	return plan->rounds * (blocks * plan->gap_ns + 3 * bytes * SIM_MS / plan->bytes_per_ms +
			       plan->messages * 8 * plan->latency_ns + (plan->lossy ? plan->messages * SIM_S : 0));
}

static void draw_quiet(struct plan *plan, unsigned seconds)
{
	plan->hosts = 2;
	plan->nics = 1;
	plan->ranks_per_host = plan->rounds = 1;
	plan->tags = false;
	plan->group = 1;
	plan->setting_count = plan->fault_count = 0;
	plan->lossy = plan->shortens = plan->preempts = 0;
	plan->jitter_ns = 0;
	plan->bytes_per_ms = 1250000;
	plan->mbps = 10000;
	plan->latency_ns = 5000;
	plan->bytes_max = 65536;
	plan->abi = 12;
	plan->peer_timeout_ns = 30 * SIM_S;
	plan->messages = 4 * seconds;
	plan->gap_ns = SIM_S;
}

static void draw_all(struct plan *plan, struct sim_random *random)
{
	plan->hosts = ONE_OF(random, 2, 2, 2, 2, 3, 4, 5, 8);
	plan->nics = ONE_OF(random, 1, 1, 2, 2, 4);
	plan->ranks_per_host = random_chance(random, 100000) ? 2 : 1;
	draw_traffic(plan, random);
	draw_network(plan, random);
	draw_timeouts(plan, random);
	draw_settings(plan, random);
	draw_faults(plan, random);
}

/* A network so slow that something is always in flight: faults meet messages in the middle. */
static void slow_down(struct plan *plan)
{
	uint64_t rate = 1250 + 8 * plan->bytes_max * SIM_MS / (plan->gap_ns + SIM_MS);

	if (rate < plan->bytes_per_ms)
		plan->bytes_per_ms = rate;
}

static void limit(unsigned *value, unsigned most)
{
	if (most && *value > most)
		*value = most;
}

void plan_draw(struct plan *plan, uint64_t seed, const struct plan_limits *limits)
{
	/* What was added later draws from a stream of its own: the seeds stay what they were. */
	struct sim_random random = { seed }, later = { ~seed };

	memset(plan, 0, sizeof(*plan));
	plan->seed = seed;
	random.state = random_next(&random) ^ seed << 32; /* else neighbours have the same numbers, shifted by one */
	draw_all(plan, &random);
	limit(&plan->hosts, limits->hosts);
	limit(&plan->nics, limits->nics);
	limit(&plan->messages, limits->messages);
	limit(&plan->rounds, limits->rounds);
	if (limits->bytes && plan->bytes_max > limits->bytes)
		plan->bytes_max = limits->bytes;
	if (limits->plain) {
		plan->setting_count = 0;
		plan->peer_timeout_ns = 30 * SIM_S;
		plan->tags = false;
		plan->group = plan->ranks_per_host = 1;
	}
	if (limits->together)
		plan->shortens = plan->preempts = 0;
	if (!limits->plain && random_chance(&later, 600000))
		slow_down(plan);
	if (limits->quiet_seconds)
		draw_quiet(plan, limits->quiet_seconds);
	keep_some_faults(plan, limits);
	draw_edges(plan, random_next(&random));
	summarize(plan);
	plan->limit_ns = traffic_ns(plan) > plan->faults_end_ns ? traffic_ns(plan) : plan->faults_end_ns;
	plan->limit_ns += plan->rounds * PATIENCE;
	plan->stall_ns = STALL_MOST + 16 * plan->edge_count * plan->window * plan->bytes_max * SIM_MS / plan->bytes_per_ms +
			 (plan->lossy ? 2 * STALL_MOST : 0);
	if (plan->deadly)
		plan->limit_ns += plan->rounds * (plan->peer_timeout_ns + plan->recovery_timeout_ns + 2 * PATIENCE);
}

bool plan_outage(const struct plan *plan, uint64_t from_ns, uint64_t to_ns)
{
	for (unsigned i = 0; i < plan->fault_count; i++) {
		const struct plan_fault *fault = &plan->faults[i];

		if (fault->for_ns && is_outage(fault->kind) && fault->at_ns <= to_ns &&
		    fault->at_ns + fault->for_ns >= from_ns)
			return true;
	}
	return false;
}

uint64_t plan_calm_since(const struct plan *plan, uint64_t now_ns)
{
	uint64_t last_ns = 0;

	for (unsigned i = 0; i < plan->fault_count; i++) {
		const struct plan_fault *fault = &plan->faults[i];
		uint64_t end_ns = fault->at_ns + fault->for_ns;

		if (!fault->for_ns || fault->at_ns > now_ns)
			continue;
		if (end_ns > now_ns)
			return 0;
		last_ns = end_ns > last_ns ? end_ns : last_ns;
	}
	return last_ns;
}

void plan_print(const struct plan *plan)
{
	printf("seed %" PRIu64 ": %u hosts with %u NICs of %u Mb/s (%" PRIu64 " bytes a ms), %u edges, "
	       "%u x %u messages of up to %zu bytes, net api v%d%s\n",
	       plan->seed, plan->hosts, plan->nics, plan->mbps, plan->bytes_per_ms, plan->edge_count, plan->rounds,
	       plan->messages, plan->bytes_max, plan->abi, plan->tags ? ", tags" : "");
	printf("  latency %" PRIu64 " us, jitter %" PRIu64 " us, loss %u, shortened %u, held up %u per million; "
	       "gap %" PRIu64 " ms\n",
	       plan->latency_ns / SIM_US, plan->jitter_ns / SIM_US, plan->lossy, plan->shortens, plan->preempts,
	       plan->gap_ns / SIM_MS);
	for (unsigned i = 0; i < plan->setting_count; i++)
		printf("  %s\n", plan->settings[i]);
	for (unsigned i = 0; i < plan->fault_count; i++)
		if (plan->faults[i].for_ns)
			printf("  fault %u: %s of host %" PRIu64 " (%" PRIu64 ") nic %" PRIu64 " from %.3f s for %.3f s\n", i,
			       fault_names[plan->faults[i].kind], plan->faults[i].host % plan->hosts,
			       plan->faults[i].other % plan->hosts, plan->faults[i].nic % plan->nics,
			       (double)plan->faults[i].at_ns / 1e9, (double)plan->faults[i].for_ns / 1e9);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws a run. Each seed turns kinds of faults and of settings on and off, so that rare combinations occur (swarm
 * testing). See plan.h.
 */
#include "sim/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define STALL_MOST    (8 * SIM_S)
#define SPARE_MOST    SIM_S
#define BYTES_MOST    (UINT64_C(64) << 20)
#define QUEUED_LITTLE (10 * SIM_MS)
#define PATIENCE      (60 * SIM_S) /* after the last fault */

struct sim_random plan_stream(uint64_t seed, const char *purpose)
{
	struct sim_random random = { seed }, name = { 0 };

	while (*purpose)
		name.state = random_next(&name) ^ (unsigned char)*purpose++;
	random.state = random_next(&random) ^ random_next(&name);
	return random;
}

unsigned plan_one_of(struct sim_random *random, const unsigned *values, unsigned count)
{
	return values[random_below(random, count)];
}

/* --- the network and its traffic --- */

static void draw_network(struct plan *plan)
{
	struct sim_random random = plan_stream(plan->seed, "network");

	plan->hosts = ONE_OF(&random, 2, 2, 2, 2, 2, 2, 3, 4, 5, 8);
	plan->nics = ONE_OF(&random, 1, 1, 2, 2, 4);
	plan->ranks_per_host = random_chance(&random, 100000) ? 2 : 1;
	plan->bytes_per_ms = ONE_OF(&random, 12500, 125000, 1250000, 12500000); /* 100 Mb/s to 100 Gb/s */
	plan->mbps = (unsigned)(plan->bytes_per_ms * 8 / 1000);
	plan->latency_ns = ONE_OF(&random, 1000, 5000, 50000, 2000000);
	plan->jitter_ns = random_chance(&random, 300000) ? random_below(&random, 200 * SIM_US) : 0;
	plan->lossy = random_chance(&random, 100000) ? (unsigned)random_below(&random, 10000) : 0;
	plan->shortens = random_chance(&random, 500000) ? ONE_OF(&random, 10000, 300000, 900000) : 0;
	plan->preempts = random_chance(&random, 300000) ? ONE_OF(&random, 1000, 20000) : 0;
	plan->sndbuf = ONE_OF(&random, 87040, 2621440, 2621440);
	plan->rcvbuf = ONE_OF(&random, 131072, 3145728, 3145728);
	plan->ack_delays = random_chance(&random, 400000) ? ONE_OF(&random, 10000, 500000) : 0;
}

static void draw_traffic(struct plan *plan)
{
	struct sim_random random = plan_stream(plan->seed, "traffic"),
			  groups = plan_stream(plan->seed, "groups of one tag"),
			  receives = plan_stream(plan->seed, "queue depth");

	plan->messages = ONE_OF(&random, 16, 64, 200, 600);
	plan->bytes_max = ONE_OF(&random, 64, 4096, 4096, 65536, 65536, 262144, 1048576);
	if (plan->messages > 200 && plan->bytes_max > 65536)
		plan->bytes_max = 65536;
	plan->rounds = random_chance(&random, 200000) ? 2 : 1;
	plan->block = ONE_OF(&random, 4, 4, 8, 16, 64, 128);
	if (plan->block >= 64 && plan->bytes_max > 4096)
		plan->bytes_max = 4096;
	plan->tags = random_chance(&random, 400000) ? ONE_OF(&random, 2, 4, 4, 8) : 1;
	if (plan->tags > plan->block)
		plan->tags = plan->block;
	if (plan->block >= 64 && (plan->hosts > 2 || plan->tags > 1))
		plan->block = 16;
	plan->group = plan->tags > 1 ? ONE_OF(&random, 1, 2, 4, 8) : ONE_OF(&groups, 1, 1, 1, 2, 4);
	plan->receives = random_chance(&receives, 200000) ? ONE_OF(&receives, 1, 2, 4) : 0;
	plan->tags_from = random_chance(&random, 500000) ? (unsigned)random_below(&random, 6) : 0;
	plan->barrier = random_chance(&random, 500000);
	plan->abi = (int)ONE_OF(&random, 5, 6, 7, 8, 8, 9, 10, 11, 12, 12);
}

/* As with NCCL's channels: many comms between two ranks. */
static void draw_channels(struct plan *plan)
{
	struct sim_random random = plan_stream(plan->seed, "number of channels");

	plan->channels = 1;
	if (plan->hosts > 3 || plan->turns || !random_chance(&random, 150000))
		return;
	plan->channels = ONE_OF(&random, 2, 4, 8);
	plan->messages /= plan->channels;
	plan->messages -= plan->messages % plan->block;
	if (!plan->messages)
		plan->messages = plan->block;
}

/* Makes the network so slow that data is always in flight: then faults hit messages in mid-transfer. */
static void slow_down(struct plan *plan)
{
	uint64_t rate = 1250 + 2 * plan->block * plan->bytes_max * SIM_MS / (plan->gap_ns + SIM_MS);

	if (rate < plan->bytes_per_ms)
		plan->bytes_per_ms = rate;
}

/* Spreads the messages over about the time in which faults occur. */
static uint64_t draw_pace(struct plan *plan)
{
	struct sim_random random = plan_stream(plan->seed, "pace");
	uint64_t span_ns = ONE_OF(&random, 3, 10, 30) * SIM_S, blocks = plan->messages / plan->block;

	if (plan->apart)
		span_ns *= 10;
	plan->gap_ns = random_between(&random, 500, 1500) * span_ns / 1000 / (blocks ? blocks : 1);
	if (random_chance(&random, 600000) && !plan->apart)
		slow_down(plan);
	return span_ns;
}

static void draw_set_up(struct plan *plan)
{
	struct sim_random random = plan_stream(plan->seed, "set-up");

	plan->together = random_chance(&random, 600000);
}

/* --- who sends to whom --- */

static void add_edge(struct plan *plan, unsigned from, unsigned to)
{
	struct plan_edge *edge = &plan->edges[plan->edge_count];
	unsigned dev = plan->edge_count % plan_devices(plan);

	if (plan->edge_count == PLAN_EDGES_MAX)
		return;
	*edge = (struct plan_edge){ from, to, dev, dev };
	plan->edge_count++;
}

static void draw_edges(struct plan *plan, uint64_t pattern)
{
	unsigned ranks = plan->hosts * plan->ranks_per_host;

	for (unsigned n = 0; n < ranks * plan->channels; n++) {
		unsigned i = n % ranks;

		add_edge(plan, i, (i + 1) % ranks);
		if (pattern % 3 == 1)
			add_edge(plan, (i + 1) % ranks, i);
		for (unsigned j = 2; pattern % 3 == 2 && ranks <= 4 && j < ranks; j++)
			add_edge(plan, i, (i + j) % ranks);
	}
}

/* --- restrictions by the command line --- */

static void keep_some_faults(struct plan *plan, const struct plan_limits *limits)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < plan->fault_count; i++) {
		const struct plan_fault *fault = &plan->faults[i];

		if (!fault->for_ns || (fault->kind == FAULT_FLIP && !plan->checksum) ||
		    (limits->some_faults && !(limits->faults >> i & 1)) ||
		    (limits->kind >= 0 && fault->kind != (enum fault_kind)limits->kind))
			plan->faults[i].for_ns = 0;
		else
			kept++;
	}
	if (!kept)
		plan->fault_count = 0;
	if ((limits->some_faults && !(limits->faults >> (PLAN_FAULTS_MAX - 1))) || limits->kind >= 0)
		memset(plan->aims, 0, sizeof(plan->aims));
}

static void summarize(struct plan *plan)
{
	plan->only_kind = -1;
	plan->deadly = false;
	for (int event = 0; event < EVENTS; event++)
		if (plan->aims[event].per_million) {
			plan->only_kind = -2;
			plan->deadly |= plan->aims[event].kind >= FAULTS_GENTLE;
		}
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

/* The time by which everything is sent if nothing delays it; longer on slow networks. */
static uint64_t traffic_ns(const struct plan *plan)
{
	uint64_t blocks = plan->messages / plan->block + 1, bytes = plan->messages * plan->bytes_max * plan->edge_count;

	return plan->rounds * (blocks * plan->gap_ns + 3 * bytes * SIM_MS / plan->bytes_per_ms +
			       plan->messages * 8 * plan->latency_ns +
			       (plan_loses(plan) ? plan->messages * SIM_S : 0));
}

static void limit(unsigned *value, unsigned most)
{
	if (most && *value > most)
		*value = most;
}

static void take_away(struct plan *plan, const struct plan_limits *limits)
{
	limit(&plan->hosts, limits->hosts);
	limit(&plan->nics, limits->nics);
	limit(&plan->messages, limits->messages);
	limit(&plan->rounds, limits->rounds);
	if (limits->bytes && plan->bytes_max > limits->bytes)
		plan->bytes_max = limits->bytes;
	if (limits->plain) {
		plan->setting_count = 0;
		plan->checksum = false;
		plan->peer_timeout_ns = 30 * SIM_S;
		plan->tags = plan->group = plan->ranks_per_host = 1;
	}
	if (limits->together)
		plan->shortens = plan->preempts = plan->ack_delays = 0;
	keep_some_faults(plan, limits);
	if (limits->quiet_seconds)
		plan_draw_quiet(plan, limits->quiet_seconds);
}

/* One window passes per round trip. */
static uint64_t rate_of(const struct plan *plan)
{
	uint64_t window = plan->sndbuf < plan->rcvbuf ? plan->sndbuf : plan->rcvbuf;
	uint64_t round_trip_ns = 4 * plan->latency_ns + SIM_US, rate;

	for (unsigned i = 0; i < plan->setting_count; i++)
		if (strstr(plan->settings[i], "BUF=4096"))
			window = 4096;
		else if (strstr(plan->settings[i], "BUF=65536") && window > 65536)
			window = 65536;
	rate = window * SIM_MS / round_trip_ns + 1;
	return rate < plan->bytes_per_ms ? rate : plan->bytes_per_ms;
}

/* Shrinks messages so large that a run would take seconds of processor time, or longer than its faults. */
static void limit_bytes(struct plan *plan, uint64_t span_ns)
{
	uint64_t most = rate_of(plan) * (span_ns / SIM_MS) * plan->nics,
		 edges = plan->hosts * plan->ranks_per_host * plan->channels;

	if (most > BYTES_MOST)
		most = BYTES_MOST;
	while (plan->bytes_max > 64 && plan->bytes_max * plan->messages * edges / 4 > most)
		plan->bytes_max /= 2;
}

static void set_bounds(struct plan *plan)
{
	uint64_t queued_ns = 8 * plan->edge_count * plan->block * plan->bytes_max * SIM_MS / rate_of(plan);

	plan->limit_ns = traffic_ns(plan) > plan->faults_end_ns ? traffic_ns(plan) : plan->faults_end_ns;
	plan->limit_ns += plan->rounds * PATIENCE + (plan->only_kind == -2 ? PATIENCE : 0);
	plan->stall_ns = STALL_MOST + 4 * queued_ns + (plan_loses(plan) ? 2 * STALL_MOST : 0);
	/* Data that was copied, and written only in part, leaves when the background thread runs. */
	plan->spare_ns = SPARE_MOST + queued_ns + (plan->shortens ? 2 * SPARE_MOST : 0);
	/* Only the queue pair itself reports that its path is dead, and only after its retransmissions. */
	plan->stall_ns += 2 * plan_give_up_ns(plan);
	plan->spare_ns += plan_give_up_ns(plan);
	plan->roomy = queued_ns < QUEUED_LITTLE;
	if (plan->deadly)
		plan->limit_ns += plan->rounds * (plan->peer_timeout_ns + plan->recovery_timeout_ns + 2 * PATIENCE);
}

void plan_draw(struct plan *plan, uint64_t seed, const struct plan_limits *limits)
{
	struct sim_random random = plan_stream(seed, "shape");
	uint64_t span_ns;

	memset(plan, 0, sizeof(*plan));
	plan->seed = seed;
	plan->turns = random_chance(&random, 100000) || limits->turns;
	plan->brief = limits->brief;
	plan->turns &= !plan->brief;
	draw_network(plan);
	draw_traffic(plan);
	draw_channels(plan);
	plan_draw_subject(plan, limits);
	plan_draw_settings(plan);
	draw_set_up(plan);
	if (limits->ib)
		plan_draw_verbs(plan);
	span_ns = plan->turns ? plan_draw_turns(plan) : draw_pace(plan);
	limit_bytes(plan, span_ns);
	plan_draw_faults(plan, span_ns);
	take_away(plan, limits);
	if (limits->stalls)
		plan_draw_stalls(plan, limits->kind < 0 ? FAULT_CARRIER : (enum fault_kind)limits->kind);
	if (limits->window)
		plan_draw_window(plan, limits->hosts);
	draw_edges(plan, limits->window ? 1 : random_next(&random));
	summarize(plan);
	set_bounds(plan);
}

void plan_print(const struct plan *plan)
{
	printf("seed %" PRIu64 ": %u hosts with %u NICs of %u Mb/s (%" PRIu64 " bytes a ms), %u edges, "
	       "%u x %u messages of up to %zu bytes, net api v%d%s\n",
	       plan->seed, plan->hosts, plan->nics, plan->mbps, plan->bytes_per_ms, plan->edge_count, plan->rounds,
	       plan->messages, plan->bytes_max, plan->abi, plan->turns ? ", paths fail by turns" : "");
	if (plan->together)
		printf("  nothing is sent before accept has returned\n");
	if (plan->dead)
		printf("  one path is dead from the beginning on\n");
	if (plan->apart)
		printf("  the first network has no RDMA\n");
	if (plan->narrow)
		printf("  segments of more than %u bytes are lost\n", plan->narrow);
	printf("  latency %" PRIu64 " us, jitter %" PRIu64
	       " us, loss %u, shortened %u, held up %u per million; "
	       "gap %" PRIu64 " ms; blocks of %u, %u tags, groups of %u, %u receives at a time\n",
	       plan->latency_ns / SIM_US, plan->jitter_ns / SIM_US, plan->lossy, plan->shortens,
	       plan->preempts, plan->gap_ns / SIM_MS, plan->block, plan->tags, plan->group,
	       plan->receives);
	if (plan->verbs.hosts)
		printf("  %s at hosts 0x%" PRIx64 ", time-outs %u times shorter, %u bytes inline, %u pieces%s\n",
		       plan->verbs.infiniband ? "InfiniBand" : "RoCE", plan->verbs.hosts, plan->verbs.hurry,
		       plan->verbs.inline_bytes, plan->verbs.sges,
		       plan->verbs.by_caller ? ", requests leave at once" : "");
	for (unsigned i = 0; i < plan->setting_count; i++)
		printf("  %s\n", plan->settings[i]);
	for (int event = 0; event < EVENTS; event++)
		if (plan->aims[event].per_million)
			printf("  at %u of a million events %d: %s of up to %.3f s\n",
			       plan->aims[event].per_million, event, fault_names[plan->aims[event].kind],
			       (double)plan->aims[event].for_most_ns / 1e9);
	for (unsigned i = 0; i < plan->fault_count; i++)
		if (plan->faults[i].for_ns)
			printf("  fault %u: %s of host %" PRIu64 " (%" PRIu64 ") nic %" PRIu64 " from %.3f s for %.3f s\n",
			       i, fault_names[plan->faults[i].kind], plan->faults[i].host % plan->hosts,
			       plan->faults[i].other % plan->hosts, plan->faults[i].nic % plan->nics,
			       (double)plan->faults[i].at_ns / 1e9, (double)plan->faults[i].for_ns / 1e9);
}

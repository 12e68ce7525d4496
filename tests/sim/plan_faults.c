/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the faults of a run, and answers what was at fault at which time. See plan.h. */
#include "sim/plan.h"

#define OUTAGE_MOST (35 * SIM_S) /* of all faults together: shorter than ANYNET_RECOVERY_TIMEOUT */
#define BRIEF_MOST  300          /* ms of a fault, where time-outs are short */
#define COUNT_MOST  12           /* per kind */
#define SET_UP_NS   (600 * SIM_MS)
#define CALM_NS     (10 * SIM_S)
#define SHORT_RARE  50 /* there are so many more short writes than other events */

const char *const fault_names[FAULT_KINDS] = {
	"carrier", "silent", "deaf",   "dumb",  "cut",   "parted", "lossy",
	"slow",    "late",   "narrow", "flip",  "reset", "half",   "stop",
	"nap",     "fork",   "calls",  "port",  "gid",   "device", "qp",
	"verbs",   "pinned", "switch", "abort", "kill",  "power",  "outage",
};

/* Runs of a thousand in which this kind occurs. */
static const unsigned chances[FAULT_KINDS] = {
	[FAULT_CARRIER] = 150, [FAULT_SILENT] = 150, [FAULT_DEAF] = 100,   [FAULT_DUMB] = 100,
	[FAULT_CUT] = 70,      [FAULT_PARTED] = 70,  [FAULT_LOSSY] = 100,  [FAULT_SLOW] = 70,
	[FAULT_LATE] = 70,     [FAULT_NARROW] = 50,  [FAULT_FLIP] = 500,   [FAULT_RESET] = 400,
	[FAULT_HALF] = 300,    [FAULT_STOP] = 100,   [FAULT_NAP] = 100,    [FAULT_FORK] = 50,
	[FAULT_CALLS] = 100,   [FAULT_PORT] = 300,   [FAULT_GID] = 200,    [FAULT_DEVICE] = 150,
	[FAULT_QP] = 250,      [FAULT_VERBS] = 500,  [FAULT_PINNED] = 100, [FAULT_ABORT] = 60,
	[FAULT_KILL] = 60,     [FAULT_POWER] = 30,   [FAULT_OUTAGE] = 40,
};

/* Faults during which the peer may be unreachable: their sum must be shorter than the time-out that ends a comm. */
static bool is_outage(enum fault_kind kind)
{
	return kind <= FAULT_HALF || kind == FAULT_CALLS || kind == FAULT_SWITCH;
}

static bool is_of_verbs(enum fault_kind kind)
{
	return kind >= FAULT_PORT && kind <= FAULT_PINNED;
}

/* Faults that another, working path compensates for. */
static bool is_of_a_path(enum fault_kind kind)
{
	return kind <= FAULT_PARTED || kind == FAULT_SWITCH;
}

static uint64_t draw_duration(const struct plan *plan, struct sim_random *random)
{
	if (plan->brief)
		return random_between(random, 1, BRIEF_MOST) * SIM_MS;
	switch (random_below(random, 4)) {
	case 0:
		return random_between(random, 1, 100) * SIM_MS;
	case 1:
	case 2:
		return random_between(random, 100, 2000) * SIM_MS;
	default:
		return random_between(random, 1000, 8000) * SIM_MS;
	}
}

static void add(struct plan *plan, const struct plan_fault *fault)
{
	if (plan->fault_count < PLAN_FAULTS_MAX - PLAN_AIMED_MAX)
		plan->faults[plan->fault_count++] = *fault;
}

static void draw_kind(struct plan *plan, enum fault_kind kind, uint64_t span_ns, uint64_t *outage)
{
	struct sim_random random = plan_stream(plan->seed, fault_names[kind]);
	unsigned count;

	if (!random_chance(&random, chances[kind] * 1000) || (kind == FAULT_FLIP && !plan->checksum) ||
	    (is_of_verbs(kind) && !plan->verbs.hosts))
		return;
	count = kind >= FAULTS_GENTLE ? 1 : (unsigned)random_between(&random, 1, COUNT_MOST);
	for (unsigned i = 0; i < count; i++) {
		bool early = random_chance(&random, 150000);
		struct plan_fault fault = { .kind = kind,
					    .at_ns = random_below(&random,
								  early ? SET_UP_NS : span_ns),
					    .for_ns = draw_duration(plan, &random),
					    .host = random_next(&random) >> 8,
					    .other = random_next(&random) >> 8,
					    .nic = random_next(&random) >> 8,
					    .pick = random_next(&random) >> 8 };

		if (kind == FAULT_OUTAGE)
			fault.for_ns =
				plan->recovery_timeout_ns * random_between(&random, 8, 64) / 8;
		else if (kind >= FAULTS_GENTLE)
			fault.for_ns = 1; /* the end of a comm, a process or a host is a moment */
		if (kind == FAULT_CARRIER || is_of_verbs(kind))
			fault.at_ns += SIM_S; /* a NIC without a carrier at the start is not used as a device */
		if (is_outage(kind) && *outage + fault.for_ns > OUTAGE_MOST)
			continue;
		if (is_outage(kind))
			*outage += fault.for_ns;
		add(plan, &fault);
	}
}

/* One path fails for a moment, then the other one: each time both have recovered before. */
static void draw_turns(struct plan *plan, uint64_t span_ns)
{
	struct sim_random random = plan_stream(plan->seed, "turns of paths");
	uint64_t at_ns = SIM_S + random_below(&random, SIM_S), host = random_below(&random, plan->hosts);
	enum fault_kind kind = (enum fault_kind)random_below(&random, FAULT_PARTED + 1);
	bool mixed = random_chance(&random, 300000);

	for (uint64_t i = 0; at_ns < span_ns && i < PLAN_FAULTS_MAX - PLAN_AIMED_MAX; i++) {
		struct plan_fault fault = { .kind = kind, .at_ns = at_ns, .host = host, .other = host + 1, .nic = i };

		fault.for_ns = ONE_OF(&random, 5, 20, 50, 100, 200, 500, 1000, 2000) *
			       (SIM_MS / 2 + random_below(&random, SIM_MS / 2));
		add(plan, &fault);
		at_ns += fault.for_ns + random_between(&random, 300, 2000) * SIM_MS;
		if (mixed) {
			kind = (enum fault_kind)random_below(&random, FAULT_PARTED + 1);
			host = random_below(&random, plan->hosts);
		}
	}
}

static void draw_aims(struct plan *plan)
{
	static const char *const purposes[EVENTS] = { "at connect",	"at the end",  "at close", "at breaks",
						      "at recovery", "at dial",	   "at short writes" };

	for (int event = 0; event < EVENTS; event++) {
		struct sim_random random = plan_stream(plan->seed, purposes[event]);

		if (random_chance(&random, 250000))
			plan->aims[event] = (struct plan_aim){
				.per_million = ONE_OF(&random, 50000, 300000, 1000000) /
					       (event == EVENT_SHORT ? SHORT_RARE : 1),
				.kind = (enum fault_kind)ONE_OF(&random, FAULT_RESET, FAULT_HALF,
								FAULT_RESET, FAULT_HALF,
								FAULT_SILENT, FAULT_DEAF,
								FAULT_DUMB, FAULT_CARRIER,
								FAULT_STOP, FAULT_NAP),
				.for_most_ns =
					ONE_OF(&random, 1, 100, plan->brief ? BRIEF_MOST : 1500) *
					SIM_MS,
			};
	}
}

/* In half of the runs with RDMA NICs the target is one of these. */
static void draw_aims_at_verbs(struct plan *plan)
{
	struct sim_random random = plan_stream(plan->seed, "aims at verbs");

	for (int event = 0; event < EVENTS; event++) {
		unsigned kind = ONE_OF(&random, FAULT_PORT, FAULT_GID, FAULT_DEVICE, FAULT_QP, FAULT_VERBS, FAULT_VERBS,
				       FAULT_PINNED);

		if (plan->aims[event].per_million && random_chance(&random, 500000))
			plan->aims[event].kind = (enum fault_kind)kind;
	}
}

/* The end of a comm or a process, while data is on its way. */
static void draw_deadly_aims(struct plan *plan)
{
	struct sim_random random = plan_stream(plan->seed, "ends of comms");
	enum plan_event event = (enum plan_event)ONE_OF(&random, EVENT_SHORT, EVENT_BROKE,
							EVENT_RECOVERED, EVENT_DIALS);

	if (random_chance(&random, 60000))
		plan->aims[event] = (struct plan_aim){
			.per_million = ONE_OF(&random, 50000, 300000, 1000000) /
				       (event == EVENT_SHORT ? SHORT_RARE : 1),
			.kind = (enum fault_kind)ONE_OF(&random, FAULT_ABORT, FAULT_ABORT,
							FAULT_ABORT, FAULT_KILL),
			.for_most_ns = 1,
		};
}

/* Comms are set up while one path is dead. Nothing else happens. */
static void draw_dead(struct plan *plan)
{
	struct sim_random random = plan_stream(plan->seed, "a dead path");
	struct plan_fault fault = { .kind = (enum fault_kind)ONE_OF(&random, FAULT_SILENT,
								    FAULT_DEAF, FAULT_DUMB,
								    FAULT_CUT, FAULT_PARTED) };

	fault.for_ns = random_between(&random, 30, 50) * SIM_S;
	fault.host = random_next(&random) >> 8;
	fault.other = random_next(&random) >> 8;
	fault.nic = random_next(&random) >> 8;
	add(plan, &fault);
}

/* The control network fails once, for longer than the time-outs. Meanwhile a process may be killed. */
static void draw_apart(struct plan *plan)
{
	struct sim_random random = plan_stream(plan->seed, "a dead control network");
	struct plan_fault fault = {
		.kind = (enum fault_kind)ONE_OF(&random, FAULT_CARRIER, FAULT_SILENT, FAULT_DEAF,
						FAULT_DUMB, FAULT_CUT, FAULT_PARTED)
	};

	fault.at_ns = random_between(&random, 3, 10) * SIM_S;
	fault.for_ns = random_between(&random, 30, 200) * SIM_S;
	fault.host = random_next(&random) >> 8;
	fault.other = random_next(&random) >> 8;
	add(plan, &fault);
	if (!random_chance(&random, 200000))
		return;
	fault.kind = FAULT_KILL;
	fault.at_ns += random_below(&random, fault.for_ns);
	fault.for_ns = 1;
	fault.pick = random_next(&random) >> 8;
	add(plan, &fault);
}

void plan_draw_faults(struct plan *plan, uint64_t span_ns)
{
	uint64_t outage = 0;

	if (plan->turns) {
		draw_turns(plan, span_ns);
		return;
	}
	if (plan->dead) {
		draw_dead(plan);
		return;
	}
	if (plan->apart) {
		draw_apart(plan);
		return;
	}
	for (int kind = 0; kind < FAULT_KINDS; kind++)
		draw_kind(plan, (enum fault_kind)kind, span_ns, &outage);
	draw_aims(plan);
	draw_deadly_aims(plan);
	if (plan->verbs.hosts)
		draw_aims_at_verbs(plan);
}

/* --- faults by time --- */

static bool overlaps(const struct plan_fault *fault, uint64_t from_ns, uint64_t to_ns)
{
	return fault->for_ns && fault->at_ns <= to_ns && fault->at_ns + fault->for_ns >= from_ns;
}

bool plan_outage(const struct plan *plan, uint64_t from_ns, uint64_t to_ns)
{
	for (unsigned i = 0; i < plan->fault_count; i++)
		if (plan->faults[i].kind < FAULTS_GENTLE && plan->faults[i].kind != FAULT_FORK &&
		    overlaps(&plan->faults[i], from_ns, to_ns))
			return true;
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

bool plan_is_calm(const struct plan *plan, uint64_t now_ns)
{
	for (unsigned i = 0; i < plan->fault_count; i++)
		if (overlaps(&plan->faults[i], now_ns > CALM_NS ? now_ns - CALM_NS : 0, now_ns) ||
		    (plan->faults[i].kind >= FAULTS_GENTLE && plan->faults[i].at_ns <= now_ns))
			return false;
	return true;
}

/* True if every network has a fault, at some host, while this fault lasts. */
static bool all_fail_with(const struct plan *plan, const struct plan_fault *fault)
{
	unsigned failing = 0;

	for (unsigned i = 0; i < plan->fault_count; i++)
		if (overlaps(&plan->faults[i], fault->at_ns, fault->at_ns + fault->for_ns))
			failing |= 1u << plan->faults[i].nic % plan->nics;
	return failing == (1u << plan->nics) - 1;
}

bool plan_has_spare(const struct plan *plan, uint64_t from_ns, uint64_t to_ns)
{
	if (plan->nics < 2 || plan_loses(plan))
		return false;
	for (unsigned i = 0; i < plan->fault_count; i++)
		if (overlaps(&plan->faults[i], from_ns, to_ns) &&
		    (!is_of_a_path(plan->faults[i].kind) || all_fail_with(plan, &plan->faults[i])))
			return false;
	return true;
}

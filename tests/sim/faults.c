/* SPDX-License-Identifier: Apache-2.0 */
/* See faults.h. */
#include "sim/faults.h"
#include "sim/net.h"
#include "sim/rank.h"
#include "sim/tcp.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define LATE_NS     (60 * SIM_MS) /* at each end, per direction */
#define SLOWEST     1250           /* bytes per ms: 10 Mb/s */
#define CALLS_PER_MILLION 200000
#define AIM_MOST          (5 * SIM_MS)
#define AIM_STREAMS       6 /* events when the seeds of seeds.txt were found, which are to stay the same runs */
#define SET_UP_HOPS       32 /* setting up a connection takes at most this many one-way latencies, … */
#define SET_UP_MOST       (200 * SIM_US) /* … plus this time on the hosts */
#define FLIPS_MOST        100000 /* per million reads */

struct active {
	struct sim_timer timer;
	const struct plan *plan;
	const struct plan_fault *fault;
	bool begun;
	uint64_t end_ns;
	struct sim_process *child;
};

static struct {
	struct plan *plan;
	struct sim_random random[EVENTS];
	unsigned count;
} aimed;

static struct sim_host *host_of(const struct active *active)
{
	return net_hosts[active->fault->host % active->plan->hosts];
}

static struct rank *rank_of(const struct active *active)
{
	return &ranks[active->fault->host % rank_count];
}

static struct sim_nic *nic_of(const struct active *active)
{
	return &host_of(active)->nic[active->fault->nic % active->plan->nics];
}

/* --- the network --- */

static void set_carrier(const struct active *active, struct sim_host *host, bool out)
{
	unsigned nic = (unsigned)(active->fault->nic % active->plan->nics);

	host->nic[nic].no_carrier = out;
	netlink_carrier(host, nic);
	if (plan_has_verbs(active->plan, host->index))
		faults_set_port(host, nic, out);
}

/* The switch has lost power, and carriers with it, or it stops forwarding. */
static void set_switch(const struct active *active, bool off)
{
	for (unsigned i = 0; i < active->plan->hosts; i++) {
		struct sim_nic *nic = &net_hosts[i]->nic[active->fault->nic % active->plan->nics];

		if (active->fault->pick & 1)
			set_carrier(active, net_hosts[i], off);
		else
			nic->deaf = nic->dumb = off;
	}
}

static void set_silent(const struct active *active, bool on)
{
	enum fault_kind kind = active->fault->kind;

	if (kind != FAULT_DUMB)
		nic_of(active)->deaf = on;
	if (kind != FAULT_DEAF)
		nic_of(active)->dumb = on;
}

static void set_cut(const struct active *active, bool on)
{
	unsigned from = host_of(active)->index, to = (unsigned)(active->fault->other % active->plan->hosts);
	unsigned nic = (unsigned)(active->fault->nic % active->plan->nics);

	if (to == from)
		to = (to + 1) % active->plan->hosts;
	net_cut(from, to, nic, on);
	if (active->fault->kind == FAULT_PARTED)
		net_cut(to, from, nic, on);
}

static void set_slow(const struct active *active, bool on)
{
	uint64_t rate = active->plan->bytes_per_ms / 100;

	if (rate < SLOWEST)
		rate = active->plan->bytes_per_ms < SLOWEST ? active->plan->bytes_per_ms : SLOWEST;
	nic_of(active)->bytes_per_ms = on ? rate : active->plan->bytes_per_ms;
}

static void set_late(const struct active *active, bool on)
{
	nic_of(active)->latency_ns = active->plan->latency_ns + (on ? LATE_NS : 0);
	nic_of(active)->jitter_ns = active->plan->jitter_ns + (on ? LATE_NS / 2 : 0);
}

static void set_network(const struct active *active, bool on)
{
	switch (active->fault->kind) {
	case FAULT_CARRIER:
		set_carrier(active, host_of(active), on);
		break;
	case FAULT_SWITCH:
		set_switch(active, on);
		break;
	case FAULT_SILENT:
	case FAULT_DEAF:
	case FAULT_DUMB:
		set_silent(active, on);
		break;
	case FAULT_CUT:
	case FAULT_PARTED:
		set_cut(active, on);
		break;
	case FAULT_LOSSY:
		nic_of(active)->lossy = active->plan->lossy + (on ? 1000 + (unsigned)(active->fault->pick % 100000) : 0);
		break;
	case FAULT_SLOW:
		set_slow(active, on);
		break;
	case FAULT_LATE:
		set_late(active, on);
		break;
	case FAULT_FLIP:
		nic_of(active)->flips = on ? (unsigned)(active->fault->pick % FLIPS_MOST) : 0;
		break;
	case FAULT_NARROW:
		nic_of(active)->narrow = on ? NARROW_BYTES : active->plan->narrow;
		break;
	default:
		break;
	}
}

/* Resets a random connection of the host; repeats this while the fault lasts. */
static void reset_one(const struct active *active)
{
	struct tcp_socket *tcp, *found = NULL;
	unsigned seen = 0;

	TAILQ_FOREACH(tcp, &tcp_open, link)
		if (net_host_of(tcp->address) == host_of(active) && !random_below(&net_random, ++seen))
			found = tcp;
	if (!found)
		return;
	if (active->fault->kind == FAULT_RESET && found->peer)
		tcp_inject_reset(found->peer);
	tcp_inject_reset(found);
}

/* --- processes --- */

static void set_calls(const struct active *active, bool on)
{
	struct sim_process *process = rank_of(active)->process;

	for (int call = 0; call < CALLS; call++)
		if (active->fault->pick >> call & 1 || call >= CALL_SEND)
			process->failing[call] = on ? CALLS_PER_MILLION : 0;
}

static void end_host(struct sim_host *host)
{
	host->dead = true;
	for (unsigned i = 0; i < rank_count; i++)
		if (ranks[i].process->host == host) {
			ranks[i].doomed = true;
			ranks[i].doomed_ns = sim_now;
			ranks[i].process->stopped = true;
		}
}

/* All NICs are silent. */
static void cut_host_off(struct sim_host *host, bool on)
{
	for (unsigned i = 0; i < host->nics; i++)
		host->nic[i].deaf = host->nic[i].dumb = on;
	for (unsigned i = 0; i < rank_count; i++)
		ranks[i].cut_off |= ranks[i].process->host == host;
}

static void kill_rank(struct rank *rank)
{
	rank->doomed = true;
	rank->doomed_ns = sim_now;
	if (!rank->process->dead)
		process_kill(rank->process);
}

static void fork_child(struct active *active, bool on)
{
	struct rank *rank = rank_of(active);

	if (on && rank->net && !rank->process->dead)
		active->child = process_fork(rank->process);
	if (!on && active->child)
		process_kill(active->child);
}

static void set_process(struct active *active, bool on)
{
	struct rank *rank = rank_of(active);

	switch (active->fault->kind) {
	case FAULT_STOP:
		if (on)
			process_stop(rank->process);
		else if (!rank->process->host->dead)
			process_go_on(rank->process);
		break;
	case FAULT_NAP:
		rank->naps = on;
		break;
	case FAULT_FORK:
		fork_child(active, on);
		break;
	case FAULT_CALLS:
		set_calls(active, on);
		break;
	case FAULT_ABORT:
		rank->aborts |= on;
		break;
	case FAULT_KILL:
		if (on)
			kill_rank(rank);
		break;
	case FAULT_POWER:
		if (on)
			end_host(host_of(active));
		break;
	case FAULT_OUTAGE:
		cut_host_off(host_of(active), on);
		break;
	default:
		break;
	}
}

static uint64_t reset_pause_ns(const struct active *active)
{
	static const uint64_t pauses_ms[] = { 2, 5, 20, 100, 500, 2000 };

	return pauses_ms[(active->fault->pick >> 8) % (sizeof(pauses_ms) / sizeof(pauses_ms[0]))] * SIM_MS;
}

static bool is_repeated(const struct active *active)
{
	return active->fault->kind == FAULT_RESET || active->fault->kind == FAULT_HALF;
}

static bool is_of_verbs(const struct active *active)
{
	return active->fault->kind >= FAULT_PORT && active->fault->kind <= FAULT_PINNED;
}

/* A carrier must not be lost while a process detects the NICs of its host. */
static bool has_to_wait(const struct active *active)
{
	return (active->fault->kind == FAULT_CARRIER || is_of_verbs(active)) && !active->begun &&
	       host_of(active)->opening;
}

static void step(struct sim_timer *timer)
{
	struct active *active = (struct active *)timer;
	bool on = !active->begun || (is_repeated(active) && sim_now < active->end_ns);

	if (has_to_wait(active)) {
		timer_set(timer, sim_now + SIM_MS);
		return;
	}
	if (rank_prints)
		printf("%12.6f %s: %s host %u nic %u\n", (double)sim_now / 1e9, on ? "FAULT" : "end of fault",
		       fault_names[active->fault->kind], host_of(active)->index,
		       (unsigned)(active->fault->nic % active->plan->nics));
	trace_note(60, active->fault->kind, on);
	if (!active->begun)
		latency_fault(rank_times);
	active->begun = true;
	if (is_repeated(active) && on)
		reset_one(active);
	set_network(active, on);
	set_process(active, on);
	if (is_of_verbs(active)) {
		host_of(active)->ailing += on ? 1 : -1u;
		faults_set_verbs(active->plan, active->fault, on);
	}
	if (on)
		timer_set(timer, is_repeated(active) ? sim_now + reset_pause_ns(active) : active->end_ns);
}

static void start(const struct plan *plan, const struct plan_fault *fault)
{
	struct active *active = calloc(1, sizeof(*active));

	if (!active)
		abort();
	active->timer.fire = step;
	active->plan = plan;
	active->fault = fault;
	active->end_ns = fault->at_ns + fault->for_ns;
	timer_set(&active->timer, fault->at_ns);
}

void faults_start(struct plan *plan)
{
	for (unsigned i = 0; i < plan->fault_count; i++)
		if (plan->faults[i].for_ns)
			start(plan, &plan->faults[i]);
	aimed.plan = plan;
	for (unsigned event = 0; event < EVENTS; event++)
		aimed.random[event] = plan_stream(plan->seed * AIM_STREAMS + event, "aimed faults");
}

/* The time until the fault begins. */
static uint64_t aim_pause_ns(enum plan_event event)
{
	return random_below(&aimed.random[event],
			    event == EVENT_DIALS
				    ? SET_UP_HOPS * aimed.plan->latency_ns + SET_UP_MOST
				    : AIM_MOST);
}

void faults_aim(enum plan_event event, const struct sim_process *process)
{
	struct plan *plan = aimed.plan;
	const struct plan_aim *aim = &plan->aims[event];
	struct plan_fault *fault = &plan->faults[plan->fault_count];
	struct sim_random *random = &aimed.random[event];

	if (!random_chance(random, aim->per_million) || aimed.count == PLAN_AIMED_MAX)
		return;
	aimed.count++;
	plan->fault_count++;
	*fault = (struct plan_fault){ .kind = aim->kind,
				      .at_ns = sim_now + aim_pause_ns(event),
				      .for_ns = 1 + random_below(random, aim->for_most_ns),
				      .host = random_chance(random, 500000)
						      ? process->host->index
						      : random_next(random) >> 8,
				      .nic = random_next(random) >> 8,
				      .pick = random_next(random) >> 8 };
	start(plan, fault);
}

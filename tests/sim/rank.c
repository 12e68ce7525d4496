/* SPDX-License-Identifier: Apache-2.0 */
/* The lifetime of a rank; see rank.h. */
#include "sim/rank.h"
#include "fakes/verbs/fake_verbs.h"
#include "sim/faults.h"
#include "sim/load.h"
#include "sim/net.h"
#include "sim/tcp.h"
#include "sim/verbs.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FDS_BASELINE   3 /* of the background thread: epoll, event, netlink; all others must be released */
#define FDS_OF_VERBS   1 /* epoll for the async events; each open device has one descriptor more */
#define BLOCKS_BASELINE 4  /* of memory: tables that grow */
#define BLOCKS_OF_VERBS 40 /* … per device: one that has failed leaves three blocks each time */
#define BACK_PATIENCE  (65 * SIM_S) /* abandoned connects last for ANYNET_CONNECT_TIMEOUT, 60 s */
#define BACK_FOR       (2 * SIM_S)  /* a closed comm may have no descriptor while it waits to dial again */
#define POLL_MOST      (20 * SIM_MS)
#define POLL_LEAST     (2 * SIM_US)
#define POLL_OFTEN     (2 * SIM_MS)
#define POLL_TURNS     16 /* after so many calls the plugin looks at the clock */
#define STAGGER_MOST   (300 * SIM_MS)

struct rank *ranks;
unsigned rank_count;
bool rank_prints;
struct latency_times *rank_times;
uint64_t rank_bytes;

struct ends {
	struct edge_end *list[2 * PLAN_EDGES_MAX];
	unsigned count;
};

static struct ends *ends; /* per rank */

static struct rank *rank_of(const struct sim_process *process)
{
	for (unsigned i = 0; i < rank_count; i++)
		if (ranks[i].process == process)
			return &ranks[i];
	return NULL;
}

static void log_line(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* A path without a fault must not be abandoned. */
static void check_alarm(const struct rank *rank, const char *text)
{
	if (rank && rank->plan->roomy && !plan_loses(rank->plan) && !edges_closing() &&
	    plan_is_calm(rank->plan, sim_now) &&
	    (strstr(text, ": no answer from the peer") || strstr(text, "reconnecting (break")))
		sim_fail("rank %u, a false alarm: %s", rank->index, text);
}

/* Log lines about paths are events at which faults are aimed: these hit the plugin in the middle of an action. */
static void aim(const struct sim_process *process, const char *text)
{
	if (process && strstr(text, "recovered after"))
		faults_aim(EVENT_RECOVERED, process);
	else if (process && (strstr(text, "reconnecting (break") || strstr(text, ": no answer from the peer")))
		faults_aim(EVENT_BROKE, process);
}

static void log_line(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	const struct sim_process *process = process_self();
	char text[1024];
	va_list args;

	(void)flags, (void)file, (void)line;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	trace_note(40, (uint64_t)level, strlen(text));
	check_alarm(rank_of(process), text);
	aim(process, text);
	if (rank_prints)
		printf("%12.6f pid %d %s%s\n", (double)sim_now / 1e9, process ? process->pid : 0,
		       level == 2 ? "WARN " : "", text);
}

static bool has_carriers(const struct sim_host *host)
{
	for (unsigned i = 0; i < host->nics; i++)
		if (host->nic[i].no_carrier || host->nic[i].port_down)
			return false;
	return true;
}

/* A job starts on hosts whose NICs have a carrier, and keep it until the plugin has detected them: it never adds
 * devices later. */
static void wait_for_carriers(struct sim_host *host)
{
	while (!has_carriers(host) || host->ailing)
		thread_sleep(SIM_MS);
	host->opening++;
}

static void open_net(struct rank *rank)
{
	const char *path = load_take(rank->process);
	char err[256];
	int count = 0;

	if (!path)
		sim_fail("too few copies of the plugin");
	wait_for_carriers(rank->process->host);
	rank->net = driver_open(path, rank->plan->abi, err, sizeof(err));
	if (!rank->net)
		sim_fail("rank %u: %s", rank->index, err);
	if (driver_init(rank->net, &rank->ctx, 7, -1, log_line, NULL) || driver_devices(rank->net, &count))
		sim_fail("rank %u: init fails", rank->index);
	rank->process->host->opening--;
	if (count != (int)plan_devices(rank->plan))
		sim_fail("rank %u: %d devices instead of %u", rank->index, count,
			 plan_devices(rank->plan));
}

/* A process may have several communicators. This one ends while the comms of the other are set up, or later. */
static void open_unused(struct rank *rank)
{
	struct sim_random random = plan_stream(rank->plan->seed, "unused communicator");

	if (!random_chance(&random, 200000))
		return;
	random.state += rank->index;
	if (driver_init(rank->net, &rank->unused, 8, -1, log_line, NULL))
		sim_fail("rank %u: the second init fails", rank->index);
	rank->unused_until_ns =
		sim_now + random_below(&random, ONE_OF(&random, 10, 1000, 10000) * SIM_MS);
}

static void close_unused(struct rank *rank)
{
	if (rank->unused && driver_finalize(rank->net, rank->unused))
		sim_fail("rank %u: finalize of an unused communicator fails", rank->index);
	rank->unused = NULL;
}

static void open_ends(struct rank *rank, unsigned round)
{
	struct ends *mine = &ends[rank->index];

	mine->count = 0;
	rank->process->is_set_up = false;
	for (unsigned i = 0; i < rank->plan->edge_count; i++) {
		if (rank->plan->edges[i].from == rank->index)
			mine->list[mine->count++] = edge_open(rank, i, true, round);
		if (rank->plan->edges[i].to == rank->index)
			mine->list[mine->count++] = edge_open(rank, i, false, round);
	}
}

static bool step_all(struct rank *rank, bool *over, uint64_t *due_ns)
{
	struct ends *mine = &ends[rank->index];
	bool moved = false, connected = true;

	*over = true;
	*due_ns = sim_now + POLL_MOST;
	for (unsigned i = 0; i < mine->count; i++) {
		uint64_t due = edge_due_ns(mine->list[i]);

		moved |= edge_step(mine->list[i]);
		*over &= edge_is_over(mine->list[i]);
		connected &= edge_is_connected(mine->list[i]);
		*due_ns = due > sim_now && due < *due_ns ? due : *due_ns;
	}
	rank->process->is_set_up = connected;
	return moved;
}

static void abort_one(struct rank *rank)
{
	struct ends *mine = &ends[rank->index];

	rank->aborts = false;
	for (unsigned i = 0; i < mine->count; i++)
		if (!edge_is_over(mine->list[i])) {
			edge_abort(mine->list[i]);
			return;
		}
}

static bool waits_for_send(const struct rank *rank)
{
	for (unsigned i = 0; i < ends[rank->index].count; i++)
		if (edge_waits(ends[rank->index].list[i]))
			return true;
	return false;
}

/* As step_all, so often that the plugin looks at its paths. */
static bool step_often(struct rank *rank, bool *over, uint64_t *due_ns)
{
	for (unsigned i = 0; i < POLL_TURNS; i++)
		if (step_all(rank, over, due_ns))
			return true;
	if (*due_ns > sim_now + POLL_OFTEN)
		*due_ns = sim_now + POLL_OFTEN;
	return false;
}

/* NCCL's proxy polls without a pause. Here it calls again after data or an event has arrived for the process. */
static void run_round(struct rank *rank)
{
	for (bool over = false; !over;) {
		uint64_t due_ns;

		while (rank->naps)
			thread_sleep(SIM_MS);
		if (rank->aborts)
			abort_one(rank);
		if (sim_now >= rank->unused_until_ns)
			close_unused(rank);
		if ((rank->plan->polls && waits_for_send(rank) ? step_often : step_all)(rank, &over, &due_ns) || over)
			thread_sleep(POLL_LEAST);
		else
			thread_wait(&rank->process->poked, due_ns);
	}
	for (unsigned i = 0; i < ends[rank->index].count; i++)
		edge_free(ends[rank->index].list[i]);
	ends[rank->index].count = 0;
}

static bool are_descriptors_back(const struct rank *rank)
{
	struct fake_verbs_counts counts;

	verbs_counts(rank->process, &counts);
	return rank->process->fd_open <=
	       FDS_BASELINE + (rank->plan->verbs.hosts ? FDS_OF_VERBS : 0) + (int)counts.contexts;
}

/* Checks queue pairs and registrations of comms; devices stay open. */
static bool are_verbs_back(const struct rank *rank)
{
	struct fake_verbs_counts counts;

	verbs_counts(rank->process, &counts);
	return !counts.qps && !counts.cqs && !counts.mrs;
}

static bool is_memory_back(const struct rank *rank)
{
	int each = rank->plan->verbs.hosts ? BLOCKS_OF_VERBS : 0;

	return rank->process->blocks <= BLOCKS_BASELINE + each * (int)rank->plan->nics;
}

/* Closed comms drain in the background; then their resources must be released. */
static void check_returned(struct rank *rank)
{
	uint64_t until = sim_now + BACK_PATIENCE + rank->plan->peer_timeout_ns;
	uint64_t away_ns = sim_now;

	while (sim_now < away_ns + BACK_FOR && sim_now < until) {
		thread_sleep(100 * SIM_MS);
		if (!are_descriptors_back(rank) || !are_verbs_back(rank) || !is_memory_back(rank))
			away_ns = sim_now;
	}
	if (!are_descriptors_back(rank))
		sim_fail("rank %u: %d descriptors are open after the last close", rank->index,
			 rank->process->fd_open);
	if (!is_memory_back(rank))
		sim_fail("rank %u: %d blocks of memory are left after the last close", rank->index,
			 rank->process->blocks);
	if (!are_verbs_back(rank))
		sim_fail("rank %u: queue pairs or registrations are left after the last close", rank->index);
	rank->returned_ns = away_ns;
}

static void *run_rank(void *arg)
{
	struct rank *rank = arg;
	struct sim_random random = { rank->plan->seed * 1000 + rank->index };

	thread_sleep(random_below(&random, STAGGER_MOST));
	open_net(rank);
	open_unused(rank);
	for (unsigned round = 0; round < rank->plan->rounds; round++) {
		open_ends(rank, round);
		run_round(rank);
	}
	if (random_chance(&random, 500000))
		check_returned(rank);
	close_unused(rank);
	if (driver_finalize(rank->net, rank->ctx))
		sim_fail("rank %u: finalize fails", rank->index);
	rank->done = true;
	if (rank_prints)
		printf("%12.6f rank %u is done\n", (double)sim_now / 1e9, rank->index);
	process_exit(rank->process);
}

/* One of two ranks may ask for checksums for both. */
static bool is_left_out(const struct plan *plan, unsigned index, const char *setting)
{
	return rank_count == 2 && plan->checksum_at_one && index == (plan->seed & 1) &&
	       !strcmp(setting, "ANYNET_CHECKSUM=1");
}

void rank_start(struct rank *rank, const struct plan *plan, unsigned index)
{
	struct sim_process *process = process_new(net_hosts[index / plan->ranks_per_host], (int)(1000 + index));
	unsigned n = 0;

	if (!ends)
		ends = calloc(rank_count, sizeof(*ends));
	*rank = (struct rank){ .index = index, .process = process, .plan = plan };
	process->env[n++] = plan->verbs.hosts ? "ANYNET_TRANSPORT=auto" : "ANYNET_TRANSPORT=tcp";
	process->env[n++] = "ANYNET_STATS=off";
	process->env[n++] = "NCCL_DEBUG=INFO";
	for (unsigned i = 0; i < plan->setting_count; i++)
		if (!is_left_out(plan, index, plan->settings[i]))
			process->env[n++] = plan->settings[i];
	if (plan_has_verbs(plan, process->host->index)) {
		char description[1500];

		plan_describe_verbs(plan, process->host->index, description, sizeof(description));
		verbs_give(process, index, description);
	}
	process->shortens = plan->shortens;
	thread_new(process, run_rank, rank);
}

bool ranks_over(void)
{
	for (unsigned i = 0; i < rank_count; i++)
		if (!ranks[i].process->dead && !ranks[i].process->host->dead)
			return false;
	return true;
}

void ranks_describe(void)
{
	const struct tcp_socket *tcp;

	for (unsigned i = 0; i < rank_count; i++) {
		if (ranks[i].done || ranks[i].process->dead)
			continue;
		printf("rank %u:%s%s\n", i, ranks[i].process->stopped ? " stopped" : "", ranks[i].naps ? " naps" : "");
		for (unsigned j = 0; j < ends[i].count; j++)
			edge_describe(ends[i].list[j]);
	}
	TAILQ_FOREACH(tcp, &tcp_open, link)
		tcp_describe(tcp);
}

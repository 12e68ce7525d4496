/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugin promises to an end of an edge: which errors there may be, and how long things may take. See edge.h. */
#include "sim/edge.h"
#include "sim/net.h"

#include <stdio.h>

#define NO_TIME UINT64_MAX
#define TOLD_NS (100 * SIM_MS) /* with --print, messages that take longer are printed */
#define QUIET_NS   (10 * SIM_S)
#define CONNECT_MOST (12 * SIM_S) /* beside a path that works */
#define TELLING_NS (2 * SIM_S)
#define MENDED_NS \
	SIM_S /* the recovery from an earlier fault may take this long; a process that exits does not wait longer */

static const struct rank *peer_of(const struct edge_end *end)
{
	const struct plan_edge *edge = &plan_of(end)->edges[end->edge];

	return &ranks[end->is_send ? edge->to : edge->from];
}

/* --- errors --- */

/* Data sent before an orderly close is delivered while the process of the closed end lives, but not for ever: until it has released
 * everything. What arrives with a bit error is not sent again by an end that has closed: its peer's kernel has acknowledged it. */
static bool is_cut_short(const struct edge_end *end)
{
	const struct plan *plan = plan_of(end);
	const struct rank *peer = peer_of(end);
	uint64_t closed_ns = edge_shared(end)->closed_ns;

	if (!closed_ns || !plan_outage(plan, closed_ns - MENDED_NS, sim_now))
		return false;
	if (plan->checksum)
		return true;
	if (peer->returned_ns && peer->returned_ns < closed_ns + plan->peer_timeout_ns)
		return false;
	return peer->process->dead || sim_now >= closed_ns + plan->peer_timeout_ns;
}

/* A comm may end with an error only after the loss of a process or a host, or after one of its ends was closed. */
bool edge_may_fail(const struct edge_end *end)
{
	const struct edge_shared *share = edge_shared(end);

	return end->rank->doomed || peer_of(end)->doomed || end->rank->cut_off ||
	       peer_of(end)->cut_off || share->ended[0] || share->ended[1] || is_cut_short(end);
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* When the peer ended, by itself or with its process or host; NO_TIME: it has not. */
static uint64_t peer_ended_ns(const struct edge_end *end)
{
	const struct rank *peer = peer_of(end);
	uint64_t doomed_ns = peer->doomed ? peer->doomed_ns : NO_TIME;

	if (!edge_shared(end)->ended[!end->is_send] ||
	    doomed_ns < edge_shared(end)->ended_ns[!end->is_send])
		return doomed_ns;
	return edge_shared(end)->ended_ns[!end->is_send];
}

/* The end of a comm or a process is told at once if the network works. */
static uint64_t told_ns(const struct edge_end *end)
{
	const struct plan *plan = plan_of(end);

	if (peer_of(end)->process->host->dead)
		return plan->stall_ns + plan->peer_timeout_ns + plan->recovery_timeout_ns;
	if (plan_loses(plan) || plan_outage(plan, sim_now - QUIET_NS, sim_now))
		return plan->stall_ns;
	return plan->spare_ns + TELLING_NS;
}

/* An end that waits for a peer that has ended is told so; for a host that is gone this takes the time-outs. */
void edge_check_error_time(const struct edge_end *end)
{
	uint64_t ended_ns = peer_ended_ns(end), calm_ns = plan_calm_since(plan_of(end), sim_now);
	uint64_t since;

	if (ended_ns == NO_TIME || !calm_ns || !end->in_flight || end->rank->doomed)
		return;
	since = later(later(ended_ns, calm_ns), end->waits_since_ns);
	if (sim_now > since + told_ns(end))
		sim_fail("edge %u, %s: the error comes %.1f s after the peer has ended", end->edge,
			 end->is_send ? "sender" : "receiver", (double)(sim_now - since) / 1e9);
}

/* NCCL learns this from its own connections. */
bool edge_peer_is_gone(const struct edge_end *end)
{
	const struct rank *peer = peer_of(end);

	return (peer->doomed && (peer->process->dead || peer->process->host->dead)) ||
	       edge_shared(end)->ended[!end->is_send];
}

/* The peer sent everything and closed before accept returned, and the network has lost this since then. */
bool edge_is_too_late(const struct edge_end *end)
{
	const struct edge_shared *share = edge_shared(end);
	uint64_t patience = plan_of(end)->peer_timeout_ns + SIM_S;

	return !end->is_send && share->closed_ns && sim_now > share->closed_ns + patience &&
	       is_cut_short(end);
}

/* --- times --- */

/* Checks the time since the peer did its part. Accept may return before connect does. */
void edge_note_made(const struct edge_end *end)
{
	struct edge_shared *share = edge_shared(end);
	uint64_t peer_ns = end->is_send ? share->listens_ns : share->made_ns[1];
	uint64_t since = later(end->started_ns, peer_ns ? peer_ns : sim_now);
	uint64_t calm_ns = plan_calm_since(plan_of(end), sim_now);

	share->made_ns[end->is_send] = sim_now;
	if (!end->is_send && sim_now > since + plan_of(end)->spare_ns &&
	    plan_has_spare(plan_of(end), since, sim_now))
		sim_fail("edge %u: accept takes %.1f s beside a path that was whole", end->edge,
			 (double)(sim_now - since) / 1e9);
	if (end->is_send && sim_now > since + CONNECT_MOST + plan_of(end)->spare_ns &&
	    plan_has_spare(plan_of(end), since, sim_now))
		sim_fail("edge %u: connect takes %.1f s beside a path that was whole", end->edge,
			 (double)(sim_now - since) / 1e9);
	since = later(since, calm_ns);
	if (calm_ns && sim_now > since + plan_of(end)->stall_ns)
		sim_fail("edge %u: %s takes %.1f s with nothing in the way", end->edge,
			 end->is_send ? "connect" : "accept", (double)(sim_now - since) / 1e9);
}

void edge_note_done(const struct edge_end *end, unsigned message)
{
	const struct edge_shared *share = edge_shared(end);
	uint64_t sent = share->posted_ns[0][message], posted = share->posted_ns[1][message];
	uint64_t since = later(sent, posted), fault_ns = plan_calm_since(plan_of(end), sim_now);

	latency_message(rank_times, message / plan_of(end)->block, since);
	if (rank_prints && sim_now - since > TOLD_NS)
		printf("%12.6f edge %u message %u took %.1f ms\n", (double)sim_now / 1e9, end->edge, message,
		       (double)(sim_now - since) / 1e6);
	if (sim_now - since > plan_of(end)->spare_ns && plan_has_spare(plan_of(end), since, sim_now))
		sim_fail("edge %u message %u: a stall of %.1f s beside a path that was whole", end->edge, message,
			 (double)(sim_now - since) / 1e9);
	if (!fault_ns || fault_ns >= sim_now)
		return;
	since = later(since, fault_ns);
	latency_add(&rank_times->after, sim_now - since);
	if (sim_now - since > plan_of(end)->stall_ns)
		sim_fail("edge %u message %u: a stall of %.1f s with nothing in the way", end->edge, message,
			 (double)(sim_now - since) / 1e9);
}

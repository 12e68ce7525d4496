/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An end of an edge: one comm. With tags, the sender and the receiver each post the messages of a block in their own
 * order. Two blocks may be in flight. See rank.h.
 */
#include "sim/edge.h"
#include "sim/faults.h"
#include "sim/net.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOST_MEMORY 1
#define NO_TIME     UINT64_MAX
#define TOLD_NS     (100 * SIM_MS) /* with --print, messages that take longer are printed */
#define MENDED_NS \
	SIM_S /* the recovery from an earlier fault may take this long; a process that exits does not wait longer */

/* State of an edge in a round that both ends share: NCCL's bootstrap, and the times for the statistics. */
struct shared {
	char handle[DRIVER_HANDLE_BYTES];
	uint64_t listens_ns;    /* since when; 0 = not yet */
	uint64_t made_ns[2];    /* accept and connect have returned; 0 = not yet */
	uint64_t *posted_ns[2]; /* of each message, by sender and receiver; 0 = not yet */
	bool ended[2];          /* by an error, an abort, or with its process; receiver, sender */
	bool done[2];           /* all messages */
	uint64_t closed_ns;     /* when the first orderly close took place */
};

static struct shared *shares; /* per edge and round */
static bool any_closed;

void edges_start(const struct plan *plan)
{
	shares = calloc((size_t)plan->edge_count * plan->rounds, sizeof(*shares));
	for (unsigned i = 0; shares && i < plan->edge_count * plan->rounds; i++)
		for (int side = 0; side < 2; side++)
			shares[i].posted_ns[side] = calloc(plan->messages, sizeof(uint64_t));
}

static struct shared *share_of(const struct edge_end *end)
{
	return &shares[end->edge * end->rank->plan->rounds + end->round];
}

static struct rank *peer_of(const struct edge_end *end)
{
	const struct plan_edge *edge = &plan_of(end)->edges[end->edge];

	return &ranks[end->is_send ? edge->to : edge->from];
}

/* --- errors --- */

/* Data sent before an orderly close is delivered while the process of the closed end lives, but not for ever. What arrives with a
 * bit error is not sent again by an end that has closed: its peer's kernel has acknowledged it. */
static bool is_cut_short(const struct edge_end *end)
{
	uint64_t closed_ns = share_of(end)->closed_ns;

	return closed_ns && plan_outage(plan_of(end), closed_ns - MENDED_NS, sim_now) &&
	       (plan_of(end)->checksum || peer_of(end)->process->dead || sim_now >= closed_ns + plan_of(end)->peer_timeout_ns);
}

/* A comm may end with an error only after the loss of a process or a host, or after one of its ends was closed. */
static bool may_fail(const struct edge_end *end)
{
	const struct shared *share = share_of(end);

	return end->rank->doomed || peer_of(end)->doomed || share->ended[0] || share->ended[1] ||
	       is_cut_short(end);
}

static void close_end(struct edge_end *end);

static void failed(struct edge_end *end, const char *call, int ret)
{
	trace_note(50, end->edge, (uint64_t)ret);
	if (!may_fail(end))
		sim_fail("edge %u, %s: %s fails with %d", end->edge, end->is_send ? "sender" : "receiver", call, ret);
	end->failed = true;
	share_of(end)->ended[end->is_send] = true;
	close_end(end);
}

/* --- opening and closing --- */

struct edge_end *edge_open(struct rank *rank, unsigned edge, bool is_send, unsigned round)
{
	struct edge_end *end = calloc(1, sizeof(*end));

	if (!end)
		abort();
	end->rank = rank;
	end->edge = edge;
	end->round = round;
	end->is_send = is_send;
	end->started_ns = sim_now;
	end->random.state = rank->plan->seed * 77 + edge * 2 + is_send;
	if (is_send)
		return end;
	if (driver_listen(rank->net, rank->ctx, (int)rank->plan->edges[edge].dev_to, share_of(end)->handle,
			  &end->listener))
		sim_fail("edge %u: listen fails", edge);
	share_of(end)->listens_ns = sim_now;
	return end;
}

static void set_up(struct edge_end *end)
{
	end->state = END_MOVES;
	for (unsigned i = 0; i < slot_count(end); i++) {
		end->slots[i].data = malloc(slot_room(end));
		if (!end->slots[i].data)
			abort();
		message_poison(end->slots[i].data, slot_room(end));
		if (driver_reg_mr(end->rank->net, end->comm, end->slots[i].data, plan_of(end)->bytes_max, HOST_MEMORY,
				  &end->slots[i].mhandle))
			sim_fail("edge %u: regMr fails", end->edge);
	}
}

static void close_listener(struct edge_end *end)
{
	if (end->listener && driver_close_listen(end->rank->net, end->listener))
		sim_fail("edge %u: closeListen fails", end->edge);
	end->listener = NULL;
}

/* NCCL learns this from its own connections. */
static bool peer_is_gone(const struct edge_end *end)
{
	const struct rank *peer = peer_of(end);

	return (peer->doomed && (peer->process->dead || peer->process->host->dead)) ||
	       share_of(end)->ended[!end->is_send];
}

/* The peer sent everything and closed before accept returned, and the network has lost this since then. */
static bool is_too_late(const struct edge_end *end)
{
	const struct shared *share = share_of(end);
	uint64_t patience = plan_of(end)->peer_timeout_ns + SIM_S;

	return !end->is_send && share->closed_ns && sim_now > share->closed_ns + patience &&
	       is_cut_short(end);
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Checks the time since the peer did its part. Accept may return before connect does. */
static void note_made(const struct edge_end *end)
{
	struct shared *share = share_of(end);
	uint64_t peer_ns = end->is_send ? share->listens_ns : share->made_ns[1];
	uint64_t since = later(end->started_ns, peer_ns ? peer_ns : sim_now);
	uint64_t calm_ns = plan_calm_since(plan_of(end), sim_now);

	share->made_ns[end->is_send] = sim_now;
	if (!end->is_send && sim_now > since + plan_of(end)->spare_ns &&
	    plan_has_spare(plan_of(end), since, sim_now))
		sim_fail("edge %u: accept takes %.1f s beside a path that was whole", end->edge,
			 (double)(sim_now - since) / 1e9);
	since = later(since, calm_ns);
	if (calm_ns && sim_now > since + plan_of(end)->stall_ns)
		sim_fail("edge %u: %s takes %.1f s with nothing in the way", end->edge,
			 end->is_send ? "connect" : "accept", (double)(sim_now - since) / 1e9);
}

static bool connect_end(struct edge_end *end)
{
	struct rank *rank = end->rank;
	int ret;

	if (peer_is_gone(end) || is_too_late(end)) {
		failed(end, "bootstrap", 0);
		return true;
	}
	if (end->is_send && !share_of(end)->listens_ns)
		return false;
	if (end->is_send && !end->dials)
		faults_aim(EVENT_DIALS, rank->process);
	end->dials = true;
	if (end->is_send)
		ret = driver_connect(rank->net, rank->ctx, (int)plan_of(end)->edges[end->edge].dev_from,
				     share_of(end)->handle, &end->comm);
	else
		ret = driver_accept(rank->net, end->listener, &end->comm);
	if (ret) {
		failed(end, end->is_send ? "connect" : "accept", ret);
		return true;
	}
	if (!end->comm)
		return false;
	note_made(end);
	if (!end->is_send && random_chance(&end->random, 500000))
		close_listener(end);
	set_up(end);
	faults_aim(EVENT_CONNECTED, rank->process);
	return true;
}

static void deregister(struct edge_end *end)
{
	for (unsigned i = 0; i < slot_count(end) && end->slots[i].data; i++) {
		if (end->slots[i].mhandle && driver_dereg_mr(end->rank->net, end->comm, end->slots[i].mhandle))
			sim_fail("edge %u: deregMr fails", end->edge);
		message_poison(end->slots[i].data, slot_room(end));
	}
}

/* NCCL deregisters memory before or after it closes the comm. */
static void close_end(struct edge_end *end)
{
	int ret = 0;

	if (end->comm)
		deregister(end);
	if (end->comm && end->is_send)
		ret = driver_close_send(end->rank->net, end->comm);
	else if (end->comm)
		ret = driver_close_recv(end->rank->net, end->comm);
	if (ret)
		sim_fail("edge %u: close fails with %d", end->edge, ret);
	end->comm = NULL;
	any_closed = true;
	faults_aim(EVENT_CLOSED, end->rank->process);
	close_listener(end);
	end->in_flight = 0;
	end->state = END_OVER;
}

void edge_abort(struct edge_end *end)
{
	end->aborted = true;
	share_of(end)->ended[end->is_send] = true;
	close_end(end);
}

void edge_free(struct edge_end *end)
{
	for (unsigned i = 0; i < slot_count(end) && end->slots[i].data; i++) {
		check_untouched(end, &end->slots[i], "after close");
		free(end->slots[i].data);
	}
	free(end);
}

/* --- messages in flight --- */

uint64_t edge_due_ns(const struct edge_end *end)
{
	if (end->state == END_DRAINS)
		return end->close_ns;
	if (end->state != END_MOVES || !end->is_send || end->posted == plan_of(end)->messages)
		return NO_TIME;
	return end->started_ns + end->posted / plan_of(end)->block * plan_of(end)->gap_ns;
}

static struct request *request_at(struct edge_end *end, unsigned i)
{
	return &end->requests[(end->first + i) % slot_count(end)];
}

static int post_one_send(struct edge_end *end, struct request *request)
{
	unsigned message = message_at(end, end->posted);
	struct slot *slot = slot_of(end, message);

	request->count = 1;
	request->messages[0] = message;
	message_fill(end, slot->data, message);
	return driver_isend(end->rank->net, end->comm,
			    &(struct driver_send){ .data = slot->data,
						   .bytes = message_bytes(end, message),
						   .tag = message_tag(end, message),
						   .mhandle = slot->mhandle },
			    &request->handle);
}

/* The tags of a group must differ. */
static bool fits_in_group(const struct edge_end *end, const struct request *request)
{
	unsigned next = end->posted + request->count, tags_seen = 0;

	if (request->count == plan_of(end)->group || next % plan_of(end)->block == 0 || next == plan_of(end)->messages)
		return false;
	for (unsigned i = 0; i < request->count; i++)
		tags_seen |= 1u << message_tag(end, request->messages[i]);
	return !(tags_seen >> message_tag(end, message_at(end, next)) & 1);
}

static int post_receives(struct edge_end *end, struct request *request)
{
	void *data[GROUP_MAX], *mhandles[GROUP_MAX];
	size_t bytes[GROUP_MAX];
	int tags[GROUP_MAX];

	request->count = 0;
	do {
		unsigned i = request->count++, message = message_at(end, end->posted + i);
		struct slot *slot = slot_of(end, message);

		check_untouched(end, slot, "before it was posted");
		request->messages[i] = message;
		data[i] = slot->data;
		mhandles[i] = slot->mhandle;
		bytes[i] = plan_of(end)->bytes_max;
		tags[i] = message_tag(end, message);
	} while (fits_in_group(end, request));
	return driver_irecv(end->rank->net, end->comm,
			    &(struct driver_recv){ .n = (int)request->count,
						   .data = data,
						   .bytes = bytes,
						   .tags = tags,
						   .mhandles = mhandles },
			    &request->handle);
}

/* The slots of a block are free once the block before the previous one is done. */
static bool has_room(const struct edge_end *end)
{
	unsigned block = plan_of(end)->block;

	return end->posted < plan_of(end)->messages && end->posted / block <= end->done / block + 1;
}

/* NCCL sends once both ends have their connections. */
static bool must_wait(const struct edge_end *end)
{
	return end->is_send && plan_of(end)->together && !share_of(end)->made_ns[0];
}

static bool post(struct edge_end *end)
{
	struct request *request = request_at(end, end->in_flight);
	int ret;

	if (!has_room(end) || (end->is_send && sim_now < edge_due_ns(end)) || must_wait(end))
		return false;
	request->handle = NULL;
	ret = end->is_send ? post_one_send(end, request) : post_receives(end, request);
	if (ret) {
		failed(end, end->is_send ? "isend" : "irecv", ret);
		return true;
	}
	if (!request->handle)
		return false;
	request->done = false;
	for (unsigned i = 0; i < request->count; i++)
		share_of(end)->posted_ns[!end->is_send][request->messages[i]] = sim_now;
	end->posted += request->count;
	end->in_flight++;
	return true;
}

static void note_latency(const struct edge_end *end, unsigned message)
{
	const struct shared *share = share_of(end);
	uint64_t sent = share->posted_ns[0][message], posted = share->posted_ns[1][message];
	uint64_t since = sent > posted ? sent : posted, fault_ns = plan_calm_since(plan_of(end), sim_now);

	latency_message(rank_times, message / plan_of(end)->block, since);
	if (rank_prints && sim_now - since > TOLD_NS)
		printf("%12.6f edge %u message %u took %.1f ms\n", (double)sim_now / 1e9, end->edge, message,
		       (double)(sim_now - since) / 1e6);
	if (sim_now - since > plan_of(end)->spare_ns && plan_has_spare(plan_of(end), since, sim_now))
		sim_fail("edge %u message %u: a stall of %.1f s beside a path that was whole", end->edge, message,
			 (double)(sim_now - since) / 1e9);
	if (!fault_ns || fault_ns >= sim_now)
		return;
	since = since > fault_ns ? since : fault_ns;
	latency_add(&rank_times->after, sim_now - since);
	if (sim_now - since > plan_of(end)->stall_ns)
		sim_fail("edge %u message %u: a stall of %.1f s with nothing in the way", end->edge, message,
			 (double)(sim_now - since) / 1e9);
}

static void finish(struct edge_end *end, struct request *request, const int *sizes)
{
	for (unsigned i = 0; i < request->count; i++) {
		unsigned message = request->messages[i];

		if (!end->is_send) {
			check_message(end, slot_of(end, message), message, sizes[i]);
			note_latency(end, message);
		}
		message_poison(slot_of(end, message)->data, message_bytes(end, message) + 8);
	}
	request->done = true;
	for (; end->in_flight && request_at(end, 0)->done; end->in_flight--) {
		end->done += request_at(end, 0)->count;
		end->first = (end->first + 1) % slot_count(end);
	}
	if (end->done == plan_of(end)->messages) {
		share_of(end)->done[end->is_send] = true;
		end->state = END_DRAINS;
		faults_aim(EVENT_DONE, end->rank->process);
		end->close_ns = sim_now + (random_chance(&end->random, 500000) ? 0 : random_below(&end->random, SIM_S));
	}
}

static bool test(struct edge_end *end, struct request *request)
{
	int done = 0, sizes[GROUP_MAX] = { 0 }, ret = driver_test(end->rank->net, request->handle, &done, sizes);

	if (ret) {
		failed(end, "test", ret);
		return true;
	}
	if (done)
		finish(end, request, sizes);
	return done;
}

/*
 * Tests in the order of posting, as NCCL does for each of its channels. Several tags stand for several channels: then
 * it tests all requests, starting at any of them.
 */
static bool test_some(struct edge_end *end)
{
	unsigned count = plan_of(end)->tags > 1 ? end->in_flight : 0;
	bool moved = end->in_flight && test(end, request_at(end, 0));

	for (end->next_test++; count && end->state == END_MOVES && end->in_flight; count--) {
		struct request *request = request_at(end, end->next_test++ % end->in_flight);

		moved |= !request->done && test(end, request);
	}
	return moved;
}

static bool all_done(const struct edge_end *end)
{
	return share_of(end)->done[0] && share_of(end)->done[1];
}

bool edge_step(struct edge_end *end)
{
	bool moved = false;

	switch (end->state) {
	case END_LISTENS:
		return connect_end(end);
	case END_MOVES:
		if (must_wait(end) && peer_is_gone(end)) {
			failed(end, "bootstrap", 0);
			return true;
		}
		while (end->state == END_MOVES && post(end))
			moved = true;
		return (end->state == END_MOVES && test_some(end)) || moved;
	case END_DRAINS:
		if (sim_now < end->close_ns || (plan_of(end)->barrier && !all_done(end) && !may_fail(end)))
			return false;
		if (!share_of(end)->closed_ns)
			share_of(end)->closed_ns = sim_now;
		close_end(end);
		return true;
	default:
		return false;
	}
}

bool edges_closing(void)
{
	return any_closed;
}

bool edge_is_connected(const struct edge_end *end)
{
	return end->state != END_LISTENS;
}

bool edge_waits(const struct edge_end *end)
{
	return end->is_send && end->in_flight;
}

bool edge_is_over(const struct edge_end *end)
{
	return end->state == END_OVER;
}

void edge_describe(const struct edge_end *end)
{
	static const char *const states[] = { "is being connected", "moves", "drains", "is over" };

	printf("  edge %u round %u, %s: %s; %u posted, %u done of %u%s%s\n", end->edge, end->round,
	       end->is_send ? "sender" : "receiver", states[end->state], end->posted, end->done, plan_of(end)->messages,
	       end->failed ? ", failed" : "", end->aborted ? ", aborted" : "");
}

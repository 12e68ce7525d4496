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

static struct edge_shared *shares; /* per edge and round */
static bool any_closed;

void edges_start(const struct plan *plan)
{
	shares = calloc((size_t)plan->edge_count * plan->rounds, sizeof(*shares));
	for (unsigned i = 0; shares && i < plan->edge_count * plan->rounds; i++)
		for (int side = 0; side < 2; side++)
			shares[i].posted_ns[side] = calloc(plan->messages, sizeof(uint64_t));
}

struct edge_shared *edge_shared(const struct edge_end *end)
{
	return &shares[end->edge * end->rank->plan->rounds + end->round];
}

/* --- errors --- */

static void note_ended(const struct edge_end *end)
{
	struct edge_shared *share = edge_shared(end);

	share->ended[end->is_send] = true;
	share->ended_ns[end->is_send] = sim_now;
}

static void close_end(struct edge_end *end);

static void failed(struct edge_end *end, const char *call, int ret)
{
	trace_note(50, end->edge, (uint64_t)ret);
	if (!edge_may_fail(end))
		sim_fail("edge %u, %s: %s fails with %d", end->edge, end->is_send ? "sender" : "receiver", call, ret);
	edge_check_error_time(end);
	end->failed = true;
	note_ended(end);
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
	if (driver_listen(rank->net, rank->ctx, (int)rank->plan->edges[edge].dev_to, edge_shared(end)->handle,
			  &end->listener))
		sim_fail("edge %u: listen fails", edge);
	edge_shared(end)->listens_ns = sim_now;
	return end;
}

static void all_done_here(struct edge_end *end)
{
	edge_shared(end)->done[end->is_send] = true;
	end->state = END_DRAINS;
	faults_aim(EVENT_DONE, end->rank->process);
	end->close_ns =
		sim_now +
		(random_chance(&end->random, 500000) ? 0 : random_below(&end->random, SIM_S));
}

static void set_up(struct edge_end *end)
{
	end->state = END_MOVES;
	if (!plan_of(end)->messages) {
		all_done_here(end);
		return;
	}
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

static bool connect_end(struct edge_end *end)
{
	struct rank *rank = end->rank;
	int ret;

	if (edge_peer_is_gone(end) || edge_is_too_late(end)) {
		failed(end, "bootstrap", 0);
		return true;
	}
	if (end->is_send && !edge_shared(end)->listens_ns)
		return false;
	if (end->is_send && !end->dials)
		faults_aim(EVENT_DIALS, rank->process);
	end->dials = true;
	if (end->is_send)
		ret = driver_connect(rank->net, rank->ctx, (int)plan_of(end)->edges[end->edge].dev_from,
				     edge_shared(end)->handle, &end->comm);
	else
		ret = driver_accept(rank->net, end->listener, &end->comm);
	if (ret) {
		failed(end, end->is_send ? "connect" : "accept", ret);
		return true;
	}
	if (!end->comm)
		return false;
	edge_note_made(end);
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
	note_ended(end);
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

static bool fits_in_group(const struct edge_end *end, const struct request *request)
{
	unsigned next = end->posted + request->count;

	return request->count < plan_of(end)->group && next % plan_of(end)->block &&
	       next < plan_of(end)->messages;
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

static bool has_enough(const struct edge_end *end)
{
	return !end->is_send && plan_of(end)->receives && end->in_flight >= plan_of(end)->receives;
}

/* NCCL sends once both ends have their connections. */
static bool must_wait(const struct edge_end *end)
{
	return end->is_send && plan_of(end)->together && !edge_shared(end)->made_ns[0];
}

static bool post(struct edge_end *end)
{
	struct request *request = request_at(end, end->in_flight);
	int ret;

	if (!has_room(end) || has_enough(end) || (end->is_send && sim_now < edge_due_ns(end)) ||
	    must_wait(end))
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
		edge_shared(end)->posted_ns[!end->is_send][request->messages[i]] = sim_now;
	end->posted += request->count;
	if (!end->in_flight++)
		end->waits_since_ns = sim_now;
	return true;
}

static void finish(struct edge_end *end, struct request *request, const int *sizes)
{
	for (unsigned i = 0; i < request->count; i++) {
		unsigned message = request->messages[i];

		if (!end->is_send) {
			check_message(end, slot_of(end, message), message, sizes[i]);
			edge_note_done(end, message);
		}
		message_poison(slot_of(end, message)->data, message_bytes(end, message) + 8);
	}
	request->done = true;
	end->waits_since_ns = sim_now;
	for (; end->in_flight && request_at(end, 0)->done; end->in_flight--) {
		end->done += request_at(end, 0)->count;
		end->first = (end->first + 1) % slot_count(end);
	}
	if (end->done == plan_of(end)->messages)
		all_done_here(end);
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
	return edge_shared(end)->done[0] && edge_shared(end)->done[1];
}

bool edge_step(struct edge_end *end)
{
	bool moved = false;

	switch (end->state) {
	case END_LISTENS:
		return connect_end(end);
	case END_MOVES:
		if (must_wait(end) && edge_peer_is_gone(end)) {
			failed(end, "bootstrap", 0);
			return true;
		}
		while (end->state == END_MOVES && post(end))
			moved = true;
		return (end->state == END_MOVES && test_some(end)) || moved;
	case END_DRAINS:
		if (sim_now < end->close_ns || (plan_of(end)->barrier && !all_done(end) && !edge_may_fail(end)))
			return false;
		if (!edge_shared(end)->closed_ns)
			edge_shared(end)->closed_ns = sim_now;
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

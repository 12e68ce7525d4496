/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An end of an edge: one comm. Message m of an edge has a size and contents of its own. With tags, four
 * messages are a block, in which the sender and the receiver have an order each; message m has tag m % 4. See rank.h.
 */
#include "sim/rank.h"
#include "sim/net.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK       4
#define SLOTS       8
#define GUARD_BYTES 64
#define PAGE_BYTES  4096
#define SIXTEEN     0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5, 0xe5
#define HOST_MEMORY 1
#define NO_TIME     UINT64_MAX

enum end_state {
	END_LISTENS, /* receiver: before accept; sender: before connect */
	END_MOVES,
	END_LINGERS, /* all is done; closed a little later */
	END_OVER
};

struct slot {
	uint8_t *data;
	void *mhandle;
	bool used;
};

struct request {
	void *handle;
	unsigned count;
	unsigned messages[BLOCK];
	uint64_t posted_ns;
};

struct edge_end {
	struct rank *rank;
	unsigned edge, round;
	bool is_send;
	enum end_state state;
	void *listener, *comm;
	struct slot slots[SLOTS];
	struct request requests[SLOTS];
	unsigned posted, done;       /* messages, in this end's order */
	unsigned first, in_flight;   /* requests */
	uint64_t started_ns, close_ns;
	bool failed, aborted;
	struct sim_random random;
};

/* What both ends know of an edge in a round: NCCL's bootstrap, and the times for the statistics. */
struct shared {
	char handle[DRIVER_HANDLE_BYTES];
	bool listens;
	uint64_t *posted_ns[2]; /* of each message, by sender and receiver; 0 = not yet */
	bool ended[2];          /* in an error, an abort, or with its process; of the receiver, and of the sender */
	bool done[2];           /* all of it */
	uint64_t closed_ns;     /* by the first of them, in order */
};

static struct shared *shares; /* of each edge and round */

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

static const struct plan *plan_of(const struct edge_end *end)
{
	return end->rank->plan;
}

static struct rank *peer_of(const struct edge_end *end)
{
	const struct plan_edge *edge = &plan_of(end)->edges[end->edge];

	return &ranks[end->is_send ? edge->to : edge->from];
}

/* --- messages --- */

static uint64_t number_of(const struct edge_end *end, unsigned message)
{
	struct sim_random random = { (plan_of(end)->seed << 20) ^ ((uint64_t)end->edge << 40) ^
				     ((uint64_t)end->round << 56) ^ message };

	return random_next(&random);
}

static size_t bytes_of(const struct edge_end *end, unsigned message)
{
	uint64_t number = number_of(end, message);
	size_t most = plan_of(end)->bytes_max;

	switch (number >> 8 & 7) {
	case 0:
		return number >> 16 & 1;
	case 1:
		return 8190 + (number >> 16 & 7) < most ? 8190 + (number >> 16 & 7) : most;
	case 2:
		return most;
	case 3:
		return (number >> 16) % (most + 1);
	default:
		return (number >> 16) % ((most < 4096 ? most : 4096) + 1);
	}
}

/* The i-th message that this end posts. */
static unsigned message_at(const struct edge_end *end, unsigned i)
{
	static const uint8_t orders[6][BLOCK] = { { 0, 1, 2, 3 }, { 3, 2, 1, 0 }, { 1, 0, 3, 2 },
						  { 2, 3, 0, 1 }, { 0, 2, 1, 3 }, { 3, 0, 2, 1 } };
	unsigned block = i / BLOCK;

	if (!plan_of(end)->tags || block * BLOCK + BLOCK > plan_of(end)->messages)
		return i;
	return block * BLOCK + orders[(number_of(end, block) >> (end->is_send ? 40 : 48)) % 6][i % BLOCK];
}

static int tag_of(const struct edge_end *end, unsigned message)
{
	return plan_of(end)->tags ? (int)(message % BLOCK) : 0;
}

static void fill(const struct edge_end *end, uint8_t *data, unsigned message)
{
	uint64_t word = number_of(end, message), words = (bytes_of(end, message) + 7) / 8;

	for (uint64_t i = 0; i < words; i++, word = word * UINT64_C(6364136223846793005) + 1)
		memcpy(data + 8 * i, &word, 8);
}

static size_t room_of(const struct edge_end *end)
{
	return plan_of(end)->bytes_max + GUARD_BYTES;
}

/* What a buffer holds while nothing may be written into it. */
static void poison(uint8_t *data, size_t bytes)
{
	memset(data, 0xe5, bytes);
}

/* At the beginning of each page, and at the end: what is written by mistake begins there, or is long. */
static bool all_poison(const uint8_t *data, size_t bytes)
{
	static const uint8_t pattern[GUARD_BYTES] = { SIXTEEN, SIXTEEN, SIXTEEN, SIXTEEN };

	for (size_t at = 0; at < bytes; at += at ? PAGE_BYTES : PAGE_BYTES - ((uintptr_t)data & (PAGE_BYTES - 1)))
		if (memcmp(data + at, pattern, bytes - at < GUARD_BYTES ? bytes - at : GUARD_BYTES))
			return false;
	return bytes < GUARD_BYTES || !memcmp(data + bytes - GUARD_BYTES, pattern, GUARD_BYTES);
}

static void check_untouched(const struct edge_end *end, const struct slot *slot, const char *when)
{
	if (!all_poison(slot->data, room_of(end)))
		sim_fail("edge %u: a buffer was written to %s", end->edge, when);
}

/* The first byte that is not the message's, or `bytes`. */
static size_t first_wrong(const struct edge_end *end, const uint8_t *data, unsigned message, size_t bytes)
{
	uint64_t word = number_of(end, message), came;
	size_t i = 0;

	for (; i + 8 <= bytes; i += 8, word = word * UINT64_C(6364136223846793005) + 1) {
		memcpy(&came, data + i, 8);
		if (came != word)
			return i;
	}
	return memcmp(data + i, &word, bytes - i) ? i : bytes;
}

static void check_message(const struct edge_end *end, unsigned message, int size)
{
	const struct slot *slot = &end->slots[message % SLOTS];
	size_t bytes = bytes_of(end, message), room = room_of(end), wrong;

	if ((size_t)size != bytes)
		sim_fail("edge %u message %u: %d bytes instead of %zu", end->edge, message, size, bytes);
	wrong = first_wrong(end, slot->data, message, bytes);
	if (wrong != bytes)
		sim_fail("edge %u message %u of %zu bytes: wrong from byte %zu on", end->edge, message, bytes, wrong);
	if (!all_poison(slot->data + bytes, room - bytes))
		sim_fail("edge %u message %u: written to behind its end", end->edge, message);
	rank_bytes += bytes;
}

/* --- errors --- */

/*
 * May this comm end by an error? Only if a process or a host is gone, or somebody has closed it. What was sent before
 * an orderly close is delivered for a limited time.
 */
static bool may_fail(const struct edge_end *end)
{
	const struct shared *share = share_of(end);

	return end->rank->doomed || peer_of(end)->doomed || share->ended[0] || share->ended[1] ||
	       (share->closed_ns && plan_outage(plan_of(end), share->closed_ns, sim_now));
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
	if (driver_listen(rank->net, rank->ctx, (int)rank->plan->edges[edge].dev_to, share_of(end)->handle, &end->listener))
		sim_fail("edge %u: listen fails", edge);
	share_of(end)->listens = true;
	return end;
}

static void set_up(struct edge_end *end)
{
	end->state = END_MOVES;
	for (unsigned i = 0; i < SLOTS; i++) {
		end->slots[i].data = malloc(room_of(end));
		if (!end->slots[i].data)
			abort();
		poison(end->slots[i].data, room_of(end));
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

/* NCCL hears of it by its own connections. */
static bool peer_is_gone(const struct edge_end *end)
{
	const struct rank *peer = peer_of(end);

	return (peer->doomed && (peer->process->dead || peer->process->host->dead)) || share_of(end)->ended[!end->is_send];
}

static bool connect_end(struct edge_end *end)
{
	struct rank *rank = end->rank;
	int ret;

	if (peer_is_gone(end)) {
		failed(end, "bootstrap", 0);
		return true;
	}
	if (end->is_send && !share_of(end)->listens)
		return false;
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
	if (!end->is_send && random_chance(&end->random, 500000))
		close_listener(end);
	set_up(end);
	return true;
}

static void deregister(struct edge_end *end)
{
	for (unsigned i = 0; i < SLOTS && end->slots[i].data; i++) {
		if (end->slots[i].mhandle && driver_dereg_mr(end->rank->net, end->comm, end->slots[i].mhandle))
			sim_fail("edge %u: deregMr fails", end->edge);
		poison(end->slots[i].data, room_of(end));
	}
}

/* NCCL gives memory back before or after the comm. */
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
	for (unsigned i = 0; i < SLOTS && end->slots[i].data; i++) {
		check_untouched(end, &end->slots[i], "after close");
		free(end->slots[i].data);
	}
	free(end);
}

/* --- messages on their way --- */

uint64_t edge_due_ns(const struct edge_end *end)
{
	if (end->state == END_LINGERS)
		return end->close_ns;
	if (end->state != END_MOVES || !end->is_send || end->posted == plan_of(end)->messages)
		return NO_TIME;
	return end->started_ns + end->posted / BLOCK * plan_of(end)->gap_ns;
}

static int post_one_send(struct edge_end *end, struct request *request)
{
	unsigned message = message_at(end, end->posted);
	struct slot *slot = &end->slots[message % SLOTS];

	request->count = 1;
	request->messages[0] = message;
	fill(end, slot->data, message);
	return driver_isend(end->rank->net, end->comm,
			    &(struct driver_send){ .data = slot->data,
						   .bytes = bytes_of(end, message),
						   .tag = tag_of(end, message),
						   .mhandle = slot->mhandle },
			    &request->handle);
}

static int post_receives(struct edge_end *end, struct request *request)
{
	void *data[BLOCK], *mhandles[BLOCK];
	size_t bytes[BLOCK];
	int tags[BLOCK];

	request->count = 0;
	do {
		unsigned i = request->count++, message = message_at(end, end->posted + i);
		struct slot *slot = &end->slots[message % SLOTS];

		check_untouched(end, slot, "before it was posted");
		request->messages[i] = message;
		data[i] = slot->data;
		mhandles[i] = slot->mhandle;
		bytes[i] = plan_of(end)->bytes_max;
		tags[i] = tag_of(end, message);
	} while (request->count < plan_of(end)->group && (end->posted + request->count) % BLOCK &&
		 end->posted + request->count < plan_of(end)->messages);
	return driver_irecv(end->rank->net, end->comm,
			    &(struct driver_recv){ .n = (int)request->count,
						   .data = data,
						   .bytes = bytes,
						   .tags = tags,
						   .mhandles = mhandles },
			    &request->handle);
}

/* All slots that the next request needs are free once everything a window ago is done. */
static bool has_room(const struct edge_end *end)
{
	unsigned group = end->is_send ? 1 : plan_of(end)->group;

	return end->posted < plan_of(end)->messages && end->in_flight < SLOTS &&
	       end->posted / BLOCK * BLOCK + BLOCK <= end->done / BLOCK * BLOCK + SLOTS &&
	       end->posted + group <= end->done + SLOTS + (group - 1);
}

static bool post(struct edge_end *end)
{
	struct request *request = &end->requests[(end->first + end->in_flight) % SLOTS];
	int ret;

	if (!has_room(end) || (end->is_send && sim_now < edge_due_ns(end)))
		return false;
	request->handle = NULL;
	ret = end->is_send ? post_one_send(end, request) : post_receives(end, request);
	if (ret) {
		failed(end, end->is_send ? "isend" : "irecv", ret);
		return true;
	}
	if (!request->handle)
		return false;
	request->posted_ns = sim_now;
	for (unsigned i = 0; i < request->count; i++)
		share_of(end)->posted_ns[!end->is_send][request->messages[i]] = sim_now;
	end->posted += request->count;
	end->in_flight++;
	return true;
}

static void add_latency(struct latencies *latencies, uint64_t ns)
{
	unsigned bucket = 0;

	while (ns / SIM_US >> bucket && bucket < LATENCY_BUCKETS - 1)
		bucket++;
	latencies->count[bucket]++;
	if (ns > latencies->most_ns)
		latencies->most_ns = ns;
}

static void note_latency(const struct edge_end *end, unsigned message)
{
	const struct shared *share = share_of(end);
	uint64_t sent = share->posted_ns[0][message], posted = share->posted_ns[1][message];
	uint64_t since = sent > posted ? sent : posted, fault_ns = plan_calm_since(plan_of(end), sim_now);

	add_latency(&rank_times->all, sim_now - since);
	if (!fault_ns || fault_ns >= sim_now)
		return;
	since = since > fault_ns ? since : fault_ns;
	add_latency(&rank_times->after, sim_now - since);
	if (sim_now - since > plan_of(end)->stall_ns)
		sim_fail("edge %u message %u: a stall of %.1f s with nothing in the way", end->edge, message,
			 (double)(sim_now - since) / 1e9);
}

static void finish(struct edge_end *end, const struct request *request, const int *sizes)
{
	for (unsigned i = 0; i < request->count; i++) {
		unsigned message = request->messages[i];

		if (!end->is_send) {
			check_message(end, message, sizes[i]);
			note_latency(end, message);
		}
		poison(end->slots[message % SLOTS].data, bytes_of(end, message) + 8);
	}
	end->done += request->count;
	end->first = (end->first + 1) % SLOTS;
	end->in_flight--;
	if (end->done == plan_of(end)->messages) {
		share_of(end)->done[end->is_send] = true;
		end->state = END_LINGERS;
		end->close_ns = sim_now + (random_chance(&end->random, 500000) ? 0 : random_below(&end->random, SIM_S));
	}
}

static bool test(struct edge_end *end)
{
	struct request *request = &end->requests[end->first];
	int done = 0, sizes[BLOCK] = { 0 }, ret;

	if (!end->in_flight)
		return false;
	ret = driver_test(end->rank->net, request->handle, &done, sizes);
	if (ret) {
		failed(end, "test", ret);
		return true;
	}
	if (done)
		finish(end, request, sizes);
	return done;
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
		while (end->state == END_MOVES && post(end))
			moved = true;
		return (end->state == END_MOVES && test(end)) || moved;
	case END_LINGERS:
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

bool edge_is_connected(const struct edge_end *end)
{
	return end->state != END_LISTENS;
}

bool edge_is_over(const struct edge_end *end)
{
	return end->state == END_OVER;
}

void edge_describe(const struct edge_end *end)
{
	static const char *const states[] = { "is being connected", "moves", "lingers", "is over" };

	printf("  edge %u round %u, %s: %s; %u posted, %u done of %u%s%s\n", end->edge, end->round,
	       end->is_send ? "sender" : "receiver", states[end->state], end->posted, end->done, plan_of(end)->messages,
	       end->failed ? ", failed" : "", end->aborted ? ", aborted" : "");
}

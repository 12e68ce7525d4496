/* SPDX-License-Identifier: Apache-2.0 */
/* An end of an edge (edge.c), and its messages. See rank.h. */
#ifndef TESTS_SIM_EDGE_H
#define TESTS_SIM_EDGE_H

#include "sim/rank.h"

#define SLOTS_MAX (2 * PLAN_BLOCK_MAX)
#define GROUP_MAX 8

enum end_state {
	END_LISTENS, /* receiver: before accept; sender: before connect */
	END_MOVES,
	END_DRAINS, /* everything is done; closed a little later */
	END_OVER
};

struct slot {
	uint8_t *data;
	void *mhandle;
};

struct request {
	void *handle;
	bool done;
	unsigned count;
	unsigned messages[GROUP_MAX];
};

struct edge_end {
	struct rank *rank;
	unsigned edge, round;
	bool is_send;
	enum end_state state;
	void *listener, *comm;
	struct slot slots[SLOTS_MAX];
	struct request requests[SLOTS_MAX];
	unsigned posted, done;     /* messages, in this end's order; done: without gaps */
	unsigned first, in_flight; /* requests */
	unsigned next_test;
	uint64_t started_ns, close_ns;
	uint64_t waits_since_ns; /* without the completion of a request */
	bool dials, failed, aborted;
	struct sim_random random;
};

/* State of an edge in a round that both ends share: NCCL's bootstrap, and the times for the statistics. */
struct edge_shared {
	char handle[DRIVER_HANDLE_BYTES];
	uint64_t listens_ns;    /* since when; 0 = not yet */
	uint64_t made_ns[2];    /* accept and connect have returned; 0 = not yet */
	uint64_t *posted_ns[2]; /* of each message, by sender and receiver; 0 = not yet */
	bool ended[2];          /* by an error, an abort, or with its process; receiver, sender */
	uint64_t ended_ns[2];
	bool done[2];           /* all messages */
	uint64_t closed_ns;     /* when the first orderly close took place */
};

static inline const struct plan *plan_of(const struct edge_end *end)
{
	return end->rank->plan;
}

struct edge_shared *edge_shared(const struct edge_end *end);

/* --- promises.c: which errors there may be, and how long things may take. A broken promise ends the run. --- */

bool edge_may_fail(const struct edge_end *end);
bool edge_peer_is_gone(const struct edge_end *end);

/* The peer sent everything and closed before accept returned, and the network has lost this since then. */
bool edge_is_too_late(const struct edge_end *end);

/* An error has come; connect or accept has returned; a receive is done. */
void edge_check_error_time(const struct edge_end *end);
void edge_note_made(const struct edge_end *end);
void edge_note_done(const struct edge_end *end, unsigned message);

/* --- message.c: each message of an edge has its own size, tag and contents --- */

uint64_t message_number(const struct edge_end *end, unsigned message);
size_t message_bytes(const struct edge_end *end, unsigned message);
int message_tag(const struct edge_end *end, unsigned message);

/* The i-th message that this end posts. The messages of a tag have the same order at both ends. */
unsigned message_at(const struct edge_end *end, unsigned i);

unsigned slot_count(const struct edge_end *end);
struct slot *slot_of(struct edge_end *end, unsigned message);
size_t slot_room(const struct edge_end *end);

void message_fill(const struct edge_end *end, uint8_t *data, unsigned message);
/* Fills a buffer with the pattern that marks bytes not to be written. */
void message_poison(uint8_t *data, size_t bytes);

/* A failed check ends the run. */
void check_untouched(const struct edge_end *end, const struct slot *slot, const char *when);
void check_message(const struct edge_end *end, const struct slot *slot, unsigned message, int size);

#endif

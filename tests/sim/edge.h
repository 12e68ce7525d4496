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
	bool dials, failed, aborted;
	struct sim_random random;
};

static inline const struct plan *plan_of(const struct edge_end *end)
{
	return end->rank->plan;
}

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

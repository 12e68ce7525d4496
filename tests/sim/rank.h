/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank: NCCL's proxy on one simulated process. It connects its edges of the plan, sends or receives their messages,
 * checks every byte, and closes. A violated guarantee ends the run (sim_fail).
 */
#ifndef TESTS_SIM_RANK_H
#define TESTS_SIM_RANK_H

#include "sim/latency.h"
#include "sim/plan.h"

#include <driver.h>

struct rank {
	unsigned index;
	struct sim_process *process;
	const struct plan *plan;
	struct driver_net *net;
	void *ctx;
	void *unused; /* the context of another communicator, without comms; NULL = none */
	uint64_t unused_until_ns;
	bool done;   /* it has ended by itself */
	uint64_t returned_ns; /* everything was back after the last close; 0 = not seen */
	bool naps;   /* makes no calls */
	bool aborts; /* closes a comm in mid-transfer */
	bool doomed; /* its process is killed, or its host lost: it may get errors, and end at any time */
	uint64_t doomed_ns;
	bool cut_off; /* its host has, or had, no network for so long that comms end */
	unsigned errors;
};

extern struct rank *ranks;
extern unsigned rank_count;
extern bool rank_prints; /* prints the plugin's log lines, too */
extern struct latency_times *rank_times;
extern uint64_t rank_bytes; /* received and checked */

void rank_start(struct rank *rank, const struct plan *plan, unsigned index);
bool ranks_over(void);
void ranks_describe(void);

/* --- edges (edge.c) --- */

struct edge_end; /* one comm of a rank in one round */

void edges_start(const struct plan *plan);
struct edge_end *edge_open(struct rank *rank, unsigned edge, bool is_send, unsigned round);
bool edge_step(struct edge_end *end); /* true: it has made progress */
bool edges_closing(void); /* some of them are closed */
bool edge_is_connected(const struct edge_end *end);
bool edge_is_over(const struct edge_end *end);
bool edge_waits(const struct edge_end *end); /* for a send */
void edge_free(struct edge_end *end);
uint64_t edge_due_ns(const struct edge_end *end); /* when the next message may be sent */
void edge_describe(const struct edge_end *end);
void edge_abort(struct edge_end *end);

#endif

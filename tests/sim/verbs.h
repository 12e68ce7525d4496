/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs. Each process of a host with RDMA NICs has a copy of the fake libibverbs (tests/fakes/verbs), in which
 * verbs_engine.c takes the place of its thread and its sockets: what it sends goes through the simulated network, and
 * its timers are the simulator's. The adapter works on while the process is stopped, and ends with it.
 */
#ifndef TESTS_SIM_VERBS_H
#define TESTS_SIM_VERBS_H

#include "sim/process.h"

#define VERBS_PREFIX "mlx5_" /* of a device's name; then the NIC's number */

/* --- what the library calls --- */

/* A packet, to whom, and by which way. */
struct verbs_label {
	uint32_t source, target; /* addresses of NICs, as in net.h */
	uint32_t slot;           /* of the process that it is for */
	uint32_t flow;           /* packets of a flow keep their order */
	uint64_t bytes;
	bool is_reply;
	bool is_part; /* nobody waits for it */
};

/* Takes the packet, which is freed later. */
void verbs_send(const struct verbs_label *label, void *packet);

/* The library's turn is due: it has set a timer, or something waits to be sent. */
void verbs_wake(void);

uint32_t verbs_slot(void); /* of the process that calls */

/* By chance, so often of a million. */
bool verbs_chance(unsigned per_million);

/* --- what the library has for the simulator, by dlsym --- */

/* A packet has come; or is lost, which whoever waits for the answer learns. */
typedef void verbs_arrive_fn(const void *packet, bool lost);

/* A packet that has been sent is about to arrive: its data may change. */
typedef void verbs_read_fn(void *packet);

/* Runs the timers that are due. When the next one is; SIM_NEVER = none. */
typedef uint64_t verbs_turn_fn(void);

/* --- for the rest of the simulator --- */

struct fake_verbs_counts;

/* Load that many copies, before the first fork. */
void verbs_load(const char *library, unsigned count);

/* The process has RDMA NICs from now on, as `description` says (tests/fakes/verbs/describe.c). */
void verbs_give(struct sim_process *process, uint32_t slot, const char *description);

/* The file that the process gets for libibverbs; NULL: there is none. */
const char *verbs_library(const struct sim_process *process);

/* Lines of the fake's language, to the adapters of the process. */
void verbs_order(struct sim_process *process, const char *script);

void verbs_counts(struct sim_process *process, struct fake_verbs_counts *counts);

extern struct sim_random verbs_random;

#endif

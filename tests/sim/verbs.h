/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs. Each process of a host with RDMA NICs has a copy of the fake libibverbs (tests/fakes/verbs), in which
 * verbs_engine.c replaces its thread and its sockets: its packets pass through the simulated network, and its timers
 * are the simulator's. The adapter continues to work while the process is stopped, and ends with it.
 */
#ifndef TESTS_SIM_VERBS_H
#define TESTS_SIM_VERBS_H

#include "sim/process.h"

#define VERBS_PREFIX "mlx5_" /* of a device's name, before the NIC's number */

/* --- what the library calls --- */

/* Addressing of a packet. */
struct verbs_label {
	uint32_t source, target; /* addresses of NICs, as in net.h */
	uint32_t slot;           /* of the receiving process */
	uint32_t flow;           /* packets of a flow keep their order */
	uint64_t bytes;
	bool is_reply;
	bool is_part; /* no sender waits for it */
};

/* Takes ownership of the packet. */
void verbs_send(const struct verbs_label *label, void *packet);

/* The library must run: it has set a timer, or has packets to send. */
void verbs_wake(void);

uint32_t verbs_slot(void); /* of the calling process */

/* True at random, this often per million. */
bool verbs_chance(unsigned per_million);

/* --- functions of the library for the simulator, found by dlsym --- */

/* A packet has arrived; or is lost, which is reported to the sender that waits for the answer. */
typedef void verbs_arrive_fn(const void *packet, bool lost);

/* A packet in flight is about to arrive: its data may change. */
typedef void verbs_read_fn(void *packet);

/* Runs the timers that are due. Returns the time of the next one; SIM_NEVER = none. */
typedef uint64_t verbs_turn_fn(void);

/* --- for the rest of the simulator --- */

struct fake_verbs_counts;

/* Loads this many copies, before the first fork. */
void verbs_load(const char *library, unsigned count);

/* From now on the process has the RDMA NICs of `description` (tests/fakes/verbs/describe.c). */
void verbs_give(struct sim_process *process, uint32_t slot, const char *description);

/* The library file that the process gets as libibverbs; NULL: none. */
const char *verbs_library(const struct sim_process *process);

/* Passes commands of the fake (describe.c) to the adapters of the process. */
void verbs_order(struct sim_process *process, const char *script);

void verbs_counts(struct sim_process *process, struct fake_verbs_counts *counts);

extern struct sim_random verbs_random;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of the simulation: one seed, in a process of its own; many of them; a failing one made smaller. */
#ifndef TESTS_SIM_RUN_H
#define TESTS_SIM_RUN_H

#include "sim/plan.h"
#include "sim/rank.h"

#define RUN_TEXT_BYTES 400

struct run_result {
	bool ended, failed;
	uint64_t seed, sim_ns, trace, bytes;
	int only_kind;
	struct rank_times times;
	char text[RUN_TEXT_BYTES]; /* what is wrong */
};

/* In this process, which is good for nothing else afterwards. */
void run_here(const struct plan *plan, struct run_result *result);

/* In a child. False: it could not be made. */
bool run_start(uint64_t seed, const struct plan_limits *limits, struct run_result *result, int *pid);

/* In a child, to its end. */
void run_one(uint64_t seed, const struct plan_limits *limits, struct run_result *result);

/* The command line that repeats the run, without the program's name. */
void run_command(uint64_t seed, const struct plan_limits *limits, char *text, size_t bytes);

/* Take away what it fails without. */
void run_shrink(uint64_t seed, struct plan_limits *limits);

/* Results that children can write to. */
struct run_result *run_results(unsigned count);

#endif

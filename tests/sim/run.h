/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of the simulation: one seed, in a separate process; many seeds; shrinking a failing run. */
#ifndef TESTS_SIM_RUN_H
#define TESTS_SIM_RUN_H

#include "sim/plan.h"
#include "sim/rank.h"

#define RUN_TEXT_BYTES 400

struct run_result {
	bool ended, failed;
	uint64_t seed, sim_ns, trace, bytes;
	int only_kind;
	struct latency_times times;
	char text[RUN_TEXT_BYTES]; /* the failure */
};

/* Runs in this process, which cannot be used for another run afterwards. */
void run_here(const struct plan *plan, struct run_result *result);

/* Runs in a child. False: fork failed. */
bool run_start(uint64_t seed, const struct plan_limits *limits, struct run_result *result, int *pid);

/* The child has ended with this status of wait: completes its result. */
void run_judge(struct run_result *result, int status);

/* Runs in a child and waits for it. */
void run_one(uint64_t seed, const struct plan_limits *limits, struct run_result *result);

/* The command line that repeats the run, without the program's name. */
void run_command(uint64_t seed, const struct plan_limits *limits, char *text, size_t bytes);

/* Removes everything that is not needed for the failure. */
void run_shrink(uint64_t seed, struct plan_limits *limits);

/* Results in memory shared with children. */
struct run_result *run_results(unsigned count);

#endif

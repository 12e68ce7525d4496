/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scenarios of the suite. Each runs in a process of its own, with a bound on its time; it ends
 * by returning, or by a check that fails or skips. docs/reliability.md tells what each one shows.
 */
#ifndef TESTS_FAULTS_SCENARIO_H
#define TESTS_FAULTS_SCENARIO_H

#include "duo.h"

#include <support/check.h>

#define RUN_SETTINGS_MAX 4

/* The command line. */
struct run {
	const char *net;
	int abi;
	int seconds; /* 0 = the scenario's own */
	uint64_t seed;
	bool print;     /* the plugin's lines */
	enum kind kind; /* of the processes */
	const char *settings[RUN_SETTINGS_MAX];
};

struct scenario {
	const char *name;
	void (*run)(const struct run *run);
	int seconds; /* it takes by default, about; what is over five times that and 100 s, hangs */
};

/* What stays of the background thread, which sleeps once there is nothing to do: itself; epoll, eventfd, netlink. */
#define BACKGROUND_THREADS 1
#define BACKGROUND_FDS     3

/* Ends with an entry without a name. */
extern const struct scenario cut_scenarios[], link_scenarios[], peer_scenarios[], setup_scenarios[],
	abort_scenarios[], limit_scenarios[], refused_scenarios[], rlimit_scenarios[], file_scenarios[], soak_scenarios[], figure_scenarios[],
	vain_scenarios[];

/* A plan with the run's net, seed and settings: one stream from job 0 to job 1. */
struct job_plan run_plan(const struct run *run);
void plan_set(struct job_plan *plan, const char *setting);

/* run->seconds, or what the scenario takes by itself. */
int run_ms(const struct run *run, int ms);

/* The bound on waiting for what is promised in less: a busy machine keeps it, and the plugin's own time-outs, where
 * a scenario does not shorten them, are longer. What it took is told, and bench/recovery.sh makes figures of that. */
#define SETTLED_MS TEST_PATIENCE_MS

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scenarios of the suite. Each runs in a process of its own, with a time limit; it ends by returning, or by a check
 * that fails or skips. docs/reliability.md describes each one.
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
	int seconds; /* 0 = the default of the scenario */
	uint64_t seed;
	bool print;     /* print the plugin's log */
	enum kind kind; /* kind of the processes */
	const char *settings[RUN_SETTINGS_MAX];
};

struct scenario {
	const char *name;
	void (*run)(const struct run *run);
	int seconds; /* its usual duration, about; more than five times that and 100 s is a hang */
};

/* Remains of the background thread, which sleeps when idle: itself; epoll, eventfd, netlink. */
#define BACKGROUND_THREADS 1
#define BACKGROUND_FDS     3

/* The last entry has no name. */
extern const struct scenario cut_scenarios[], link_scenarios[], peer_scenarios[], setup_scenarios[],
	abort_scenarios[], limit_scenarios[], refused_scenarios[], rlimit_scenarios[], file_scenarios[], soak_scenarios[], figure_scenarios[],
	vain_scenarios[];

/* A plan with the run's net, seed and settings: one stream from job 0 to job 1. */
struct job_plan run_plan(const struct run *run);
void plan_set(struct job_plan *plan, const char *setting);

/* run->seconds, or the default of the scenario. */
int run_ms(const struct run *run, int ms);

/* The limit for waiting for what is guaranteed in less: a loaded machine keeps it, and the plugin's own time-outs,
 * unless a scenario shortens them, are longer. The real time is printed, and bench/recovery.sh makes figures of it. */
#define SETTLED_MS TEST_PATIENCE_MS

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faults NAME [OPTION=VALUE …] runs a scenario, faults alone lists them.
 *
 *   net=FILE abi=N seed=N seconds=N print=1 kind=KIND (kind.h), and any SETTING=VALUE for the plugin
 *
 * With FAULTS_KEEP=1 in the environment the jobs of a failed scenario are left, stopped.
 */
#include "scenario.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support/check.h>
#include <support/peer.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_FACTOR 5
#define PATIENCE_MORE_S 100
#define DEFAULT_SEED    1
#define DEFAULT_ABI     11

static const struct scenario *const tables[] = {
	cut_scenarios,   link_scenarios,  peer_scenarios, setup_scenarios,
	abort_scenarios, limit_scenarios, refused_scenarios, rlimit_scenarios, file_scenarios,
	soak_scenarios, figure_scenarios, vain_scenarios,
};
#define TABLES (sizeof(tables) / sizeof(tables[0]))

static const struct scenario *find(const char *name)
{
	for (size_t i = 0; i < TABLES; i++) {
		for (const struct scenario *one = tables[i]; one->name; one++) {
			if (name && !strcmp(one->name, name))
				return one;
			if (!name)
				printf("%s\n", one->name);
		}
	}
	return NULL;
}

static const char *value_of(const char *option, const char *name)
{
	size_t bytes = strlen(name);
	return strncmp(option, name, bytes) || option[bytes] != '=' ? NULL : option + bytes + 1;
}

static void parse(struct run *run, const char *option)
{
	const char *value;
	size_t i = 0;

	if ((value = value_of(option, "net")))
		run->net = value;
	else if ((value = value_of(option, "abi")))
		run->abi = atoi(value);
	else if ((value = value_of(option, "seconds")))
		run->seconds = atoi(value);
	else if ((value = value_of(option, "seed")))
		run->seed = strtoull(value, NULL, 0);
	else if ((value = value_of(option, "print")))
		run->print = atoi(value);
	else if ((value = value_of(option, "kind")))
		check_that((run->kind = kind_named(value)) < KINDS, "there is no kind '%s'", value);
	else {
		while (i < RUN_SETTINGS_MAX && run->settings[i])
			i++;
		check_that(i < RUN_SETTINGS_MAX, "too many settings: %s", option);
		run->settings[i] = option;
	}
}

void plan_set(struct job_plan *plan, const char *setting)
{
	size_t i = 0;

	while (i < SETTINGS_MAX && plan->settings[i])
		i++;
	check(i < SETTINGS_MAX);
	plan->settings[i] = setting;
}

struct job_plan run_plan(const struct run *run)
{
	struct job_plan plan = {
		.net = run->net,
		.abi = run->abi,
		.streams = { 1, 0 },
		.seed = run->seed,
		.print = run->print,
		.kind = run->kind,
		.netns = { -1, -1 },
	};

	for (size_t i = 0; i < RUN_SETTINGS_MAX && run->settings[i]; i++)
		plan_set(&plan, run->settings[i]);
	return plan;
}

int run_ms(const struct run *run, int ms)
{
	return run->seconds ? run->seconds * 1000 : ms;
}

static pid_t start(const struct scenario *scenario, const struct run *run)
{
	fflush(NULL);
	pid_t pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	scenario->run(run);
	fflush(NULL);
	_exit(0);
}

static int watch(const struct scenario *scenario, const struct run *run)
{
	int seconds = run->seconds > scenario->seconds ? run->seconds : scenario->seconds;
	int status = 0;
	pid_t pid = start(scenario, run);

	check_that(pid > 0, "fork: %s", strerror(errno));
	bool ended = getenv("FAULTS_KEEP")
			     ? waitpid(pid, &status, 0) == pid
			     : peer_reap(pid, (seconds * PATIENCE_FACTOR + PATIENCE_MORE_S) * 1000,
					 &status);
	kill(-pid, SIGKILL);
	if (!ended) {
		waitpid(pid, &status, 0);
		fprintf(stderr, "%s hangs, and not even says in what\n", scenario->name);
		return TEST_FAILED;
	}
	if (WIFSIGNALED(status)) {
		fprintf(stderr, "%s: signal %d\n", scenario->name, WTERMSIG(status));
		return TEST_FAILED;
	}
	return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	struct run run = { .net = "libnccl-net.so", .abi = DEFAULT_ABI, .seed = DEFAULT_SEED };

	const struct scenario *scenario = find(argc > 1 ? argv[1] : NULL);
	if (!scenario && argc > 1)
		fprintf(stderr, "there is no scenario '%s'\n", argv[1]);
	if (!scenario)
		return argc > 1 ? 2 : 0;
	for (int i = 2; i < argc; i++)
		parse(&run, argv[i]);
	int ret = watch(scenario, &run);
	if (ret)
		fprintf(stderr, "%s: %s; again: %s %s seed=%lu\n", scenario->name,
			ret == TEST_SKIPPED ? "skipped" : "failed", argv[0], scenario->name,
			(unsigned long)run.seed);
	return ret;
}

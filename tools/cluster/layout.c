/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that the variables of the launchers on all hosts describe one job. anynet check examines what a single
 * host can see.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "blame.h"
#include "judge.h"
#include "tools/hosts/launcher.h"
#include "tools/shared/judge/compare.h"
#include "tools/shared/judge/finding.h"
#include "tools/shared/member.h"
#include "tools/shared/text.h"

#define RANKS_MAX 1000000
#define NAMED     8 /* missing numbers listed in a finding */

/* Returns the value of a host's variable, or -1 if it is not set or not a number from 0 to RANKS_MAX. */
static long number(const json_t *host, const char *name)
{
	const char *text = member_text(json_object_get(host, "launcher"), name);
	char *end;
	long value = strtol(text, &end, 10);

	return end == text || *end || value < 0 || value > RANKS_MAX ? -1 : value;
}

/*
 * Reports gaps in the numbers of the hosts, which run from 0 to the launcher's number of hosts, if it sets one.
 * Does nothing unless each host has its own number; launcher_repeats reports numbers that are used twice.
 */
static void gaps(json_t *findings, const json_t *hosts, const char *name, const char *size_name)
{
	bool seen[HOSTS_MAX] = { false };
	struct text_list missing = { 0 };
	const json_t *host;
	long size = 0;
	size_t i;

	json_array_foreach (hosts, i, host) {
		long value = number(host, name), told = size_name ? number(host, size_name) : -1;

		if (value < 0 || value >= HOSTS_MAX || seen[value] || told > HOSTS_MAX)
			return;
		seen[value] = true;
		size = value >= size ? value + 1 : size;
		size = told > size ? told : size;
	}
	for (i = 0; i < (size_t)size; i++) {
		if (!seen[i])
			text_list_add(&missing, text_format("%zu", i));
	}
	if (!missing.count)
		return;
	judge_add(findings,
		  &(struct advice){
			  "launcher", "error", "NCCL waits for the ranks of a missing host.",
			  "Start the job on that host as well, or number the hosts from 0 without "
			  "gaps." },
		  "%s: no host has %s, of %ld hosts", name, text_list_join(&missing, NAMED), size);
	finding_concerns(findings, json_array());
}

/* Compares the number of ranks with the sum over all hosts, if every host has both variables. */
static void sums(json_t *findings, const json_t *hosts, const char *all_name, const char *here_name)
{
	const json_t *host;
	long all = -1, sum = 0;
	size_t i;

	json_array_foreach (hosts, i, host) {
		long told = number(host, all_name), here = number(host, here_name);

		if (told < 0 || here < 0 || (all >= 0 && told != all))
			return;
		all = told;
		sum += here;
	}
	if (all < 0 || sum == all)
		return;
	judge_add(findings,
		  &(struct advice){
			  "launcher", "error",
			  sum < all ? "NCCL waits for ranks that are not started."
				    : "More processes are started than the job has ranks.",
			  "Set it to the number of all processes, or start that many; or let the "
			  "launcher set both." },
		  "%s is %ld, and %s of these hosts adds up to %ld", all_name, all, here_name, sum);
	finding_concerns(findings, json_array());
}

static void launcher_differs(json_t *findings, const json_t *hosts,
			     const struct launcher_variable *v)
{
	struct texts t = texts_of(hosts, "launcher", v->name, "not set");

	if (v->kind == LAUNCHER_MOST)
		texts_compare(
			&t, v->name,
			&(struct advice){
				"launcher", "warning",
				"Hosts with different numbers of ranks load the network unevenly.",
				"Start the same number of processes on each host, unless their "
				"numbers of GPUs differ." },
			findings);
	else
		texts_compare(
			&t, v->name,
			&(struct advice){
				"launcher", "error",
				"The ranks on these hosts belong to different jobs, or wait for "
				"ranks that never start.",
				"Let one launcher set it on all hosts, or set the same value "
				"everywhere." },
			findings);
}

static void launcher_repeats(json_t *findings, const json_t *hosts,
			     const struct launcher_variable *v)
{
	struct texts t = texts_of(hosts, "launcher", v->name, NULL);

	texts_repeat(&t, v->name,
		     &(struct advice){
			     "launcher", "error",
			     "Two processes have the same rank, and NCCL waits for the missing "
			     "one.",
			     "Give each host its own number, or let the launcher set it." },
		     findings);
}

void judge_ranks(json_t *findings, const json_t *hosts)
{
	for (size_t i = 0; i < launcher_variable_count; i++) {
		const struct launcher_variable *v = &launcher_variables[i];

		if (v->kind == LAUNCHER_OWN)
			launcher_repeats(findings, hosts, v);
		else
			launcher_differs(findings, hosts, v);
	}
	gaps(findings, hosts, "GROUP_RANK", "GROUP_WORLD_SIZE");
	gaps(findings, hosts, "NODE_RANK", NULL);
	gaps(findings, hosts, "SLURM_NODEID", "SLURM_NNODES");
	sums(findings, hosts, "WORLD_SIZE", "LOCAL_WORLD_SIZE");
	sums(findings, hosts, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE");
}

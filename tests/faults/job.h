/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job: a process in the role of a rank. It opens the plugin, connects its streams with the other job's, and transfers
 * verified messages until it is told to stop. Its state is in `shared`.
 */
#ifndef TESTS_FAULTS_JOB_H
#define TESTS_FAULTS_JOB_H

#include "kind.h"
#include "shared.h"

#include <stddef.h>

struct job_plan {
	const char *net; /* as for driver_open */
	int abi;
	unsigned streams[2]; /* comms on which job 0, job 1 sends; STREAMS_MAX in all */
	size_t bytes;        /* of a message, or SIZES_MIX */
	unsigned tags;       /* used in rotation; receives are posted in another order. 0 = one tag */
	bool grouped;        /* … in one grouped receive */
	bool fast;           /* fewer checks: the plugin is measured */
	enum kind kind;      /* kind of the processes */
	bool print;          /* the plugin's log goes to stderr */
	uint64_t seed;
	int netns[2];                              /* namespace descriptors; -1 = that of the driver */
	const char *ifname;                        /* NCCL_SOCKET_IFNAME */
	const char *settings[SETTINGS_MAX];        /* NAME=VALUE … */
	const char *own_settings[2][SETTINGS_MAX]; /* … and of one job */
};

/* Streams below streams[0] are sent by job 0, the others by job 1. */
static inline unsigned plan_streams(const struct job_plan *plan)
{
	return plan->streams[0] + plan->streams[1];
}

static inline int plan_sender(const struct job_plan *plan, unsigned stream)
{
	return stream < plan->streams[0] ? 0 : 1;
}

/* Runs in a process of its own, forked while the driver has no threads. Does not return. */
_Noreturn void job_run(const struct job_plan *plan, struct shared *shared, int side);

/* Opens the net and calls init as a job does, with its logger; fails the test otherwise. `state` gets WARNs. */
struct driver_net *job_open(const struct job_plan *plan, struct job_state *state, void **ctx);

/* Its two steps, for a caller that acts between them. */
struct driver_net *job_load(const struct job_plan *plan, struct job_state *state);
int job_init(struct driver_net *net, void **ctx);

/* Sets the plan's environment, for a caller that opens the net in this process. */
void job_environment(const struct job_plan *plan);

#endif

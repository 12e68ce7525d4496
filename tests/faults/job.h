/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job: a process in the role of a rank. It opens the plugin, connects its streams with the other
 * job's, and moves verified messages until it is told to stop. Everything it does is in `shared`.
 */
#ifndef TESTS_FAULTS_JOB_H
#define TESTS_FAULTS_JOB_H

#include "kind.h"
#include "shared.h"

#include <stddef.h>

struct job_plan {
	const char *net; /* driver_open's */
	int abi;
	unsigned streams[2]; /* comms on which job 0, job 1 sends; STREAMS_MAX in all */
	size_t bytes;        /* of a message, or SIZES_MIX */
	unsigned tags;       /* in turn; receives are posted in another order. 0 = one tag */
	bool grouped;        /* … as one group for all of them */
	bool fast;           /* less checking: what is measured is the plugin */
	enum kind kind;      /* of processes */
	bool print;          /* the plugin's lines go to stderr */
	uint64_t seed;
	int netns[2];                              /* descriptors; -1 = where the driver is */
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

/* Runs in a process of its own, made by fork while the driver has no threads. Does not return. */
_Noreturn void job_run(const struct job_plan *plan, struct shared *shared, int side);

/* Open and init as a job does, with its logger; fails the test otherwise. `state` takes WARNs. */
struct driver_net *job_open(const struct job_plan *plan, struct job_state *state, void **ctx);

/* The two steps of that, for whoever has something to do between them. */
struct driver_net *job_load(const struct job_plan *plan, struct job_state *state);
int job_init(struct driver_net *net, void **ctx);

/* The plan's environment, for whoever opens the net in this process. */
void job_environment(const struct job_plan *plan);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection whose ends are both on this thread, and messages over it, where any call may fail: an error is a result
 * here, a wrong byte or a hang fails the test. One for each process.
 */
#ifndef TESTS_FAULTS_ATTEMPT_H
#define TESTS_FAULTS_ATTEMPT_H

#include "job.h"

#include <support/link.h>

#define ATTEMPT_MS 60000 /* a whole one takes at most; longer ones hang */

struct attempt {
	struct job_state job;
	struct test_net net; /* the caller opens it */
	struct link link;
};

extern struct attempt attempt;

/* The environment, and all memory. */
void attempt_prepare(const struct job_plan *plan);

/* Of a net that is loaded: init, and a device. False if there is none, or a call failed. */
bool attempt_start(void);

/* False if a call failed. */
bool attempt_connect(void);

/* True if all arrived; false if there was an error, which both ends need not have. `hurt`: all connections are shut in
 * the middle. */
bool attempt_exchange(uint64_t seed, bool hurt);

/* All of that, with a connection that is replaced. False if a call failed. */
bool attempt_all(void);

/* Whatever there is. */
void attempt_close(void);

/* `run` in a process of its own, which ends by exit with what it returns: ATTEMPT_DONE, or the test fails. */
#define ATTEMPT_DONE 0x10
void attempt_apart(const char *name, int (*run)(const struct job_plan *plan, const void *arg),
		   const struct job_plan *plan, const void *arg);

#endif

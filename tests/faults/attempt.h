/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection with both ends in this thread, and messages over it, where any call may fail: an error is a result, a
 * wrong byte or a hang fails the test. One per process.
 */
#ifndef TESTS_FAULTS_ATTEMPT_H
#define TESTS_FAULTS_ATTEMPT_H

#include "job.h"

#include <support/link.h>

#define ATTEMPT_MS 60000 /* longest time of a complete attempt; longer ones hang */

struct attempt {
	struct job_state job;
	struct test_net net; /* the caller opens it */
	struct link link;
};

extern struct attempt attempt;

/* Sets the environment, and allocates all memory. */
void attempt_prepare(const struct job_plan *plan);

/* On a loaded net: init, and selects a device. False if there is none, or a call failed. */
bool attempt_start(void);

/* False if a call failed. */
bool attempt_connect(void);

/* True if all arrived; false after an error, which only one end may have. `hurt`: all connections are shut down in the
 * middle. */
bool attempt_exchange(uint64_t seed, bool hurt);

/* All of the above, with a connection that is replaced. False if a call failed. */
bool attempt_all(void);

/* Closes what is open. */
void attempt_close(void);

/* Runs `run` in a process of its own, which exits with its result: ATTEMPT_DONE, or the test fails. */
#define ATTEMPT_DONE 0x10
void attempt_apart(const char *name, int (*run)(const struct job_plan *plan, const void *arg),
		   const struct job_plan *plan, const void *arg);

#endif

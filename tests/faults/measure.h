/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a call of the plugin took, if it gave up the CPU of its own will: that tells a call that
 * sleeps from a process that merely had no turn on a busy machine. A short sleep (of a lock whose
 * holder had no turn) cannot be told from one by design; so few are let pass, and none is long.
 */
#ifndef TESTS_FAULTS_MEASURE_H
#define TESTS_FAULTS_MEASURE_H

#include "shared.h"

struct measure {
	uint64_t began_ns;
	long switches; /* of the thread, voluntary */
};

struct measure measure_begin(void);
/* `call` is the text of the call. */
void measure_end(struct job_state *job, const struct measure *measure, const char *call);

/* Fails the test if calls slept for too long. */
void measure_check(const struct job_state *job);

#define measured(job, call)                                \
	do {                                               \
		struct measure measure_ = measure_begin(); \
		call;                                      \
		measure_end(job, &measure_, #call);        \
	} while (0)

#endif

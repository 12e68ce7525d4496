/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the plugin that sleep. What a call asks the kernel to sleep for (front_calls.c) is the same on
 * any machine, and is what is judged. How long one took that gave up the CPU of its own will is told, and
 * has a bound for those that hang.
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

/* This thread asks to sleep for so long, -1 = for as long as it takes. */
void measure_sleep(int64_t ns);

/* Fails the test if a call slept for too long. */
void measure_check(const struct job_state *job);

#define measured(job, call)                                \
	do {                                               \
		struct measure measure_ = measure_begin(); \
		call;                                      \
		measure_end(job, &measure_, #call);        \
	} while (0)

#endif

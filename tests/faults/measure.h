/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the plugin that sleep. The time that a call asks the kernel to sleep (front_calls.c) is the same on any
 * machine, and is judged. The duration of a call that gave up the CPU voluntarily is reported; its limit only detects
 * hangs.
 */
#ifndef TESTS_FAULTS_MEASURE_H
#define TESTS_FAULTS_MEASURE_H

#include "shared.h"

struct measure {
	uint64_t began_ns;
	long switches; /* context switches of the thread, voluntary */
};

struct measure measure_begin(void);
/* `call` is the name of the call. */
void measure_end(struct job_state *job, const struct measure *measure, const char *call);

/* This thread asks to sleep for this long, -1 = without limit. */
void measure_sleep(int64_t ns);

/* Fails the test if a call slept too long. */
void measure_check(const struct job_state *job);

#define measured(job, call)                                \
	do {                                               \
		struct measure measure_ = measure_begin(); \
		call;                                      \
		measure_end(job, &measure_, #call);        \
	} while (0)

#endif

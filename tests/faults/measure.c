/* SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include <stdio.h>
#include <support/check.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Shorter sleeps are not judged. */
#define WORTH_NS 2000000u

#define ASKED_NS 50000000u   /* guaranteed: no call sleeps longer */
#define HUNG_NS  5000000000u /* limit even on a loaded machine */

/* The call that this thread is in. */
static _Thread_local struct {
	bool inside;
	uint64_t asked_ns;
} call_now;

uint64_t real_ns(void)
{
	struct timespec now;
	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static long switches_so_far(void)
{
	struct rusage usage;
	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

struct measure measure_begin(void)
{
	call_now.inside = true;
	call_now.asked_ns = 0;
	return (struct measure){ real_ns(), switches_so_far() };
}

void measure_sleep(int64_t ns)
{
	if (call_now.inside)
		call_now.asked_ns += ns < 0 ? HUNG_NS : (uint64_t)ns;
}

static void note(_Atomic uint64_t *longest, char *in, uint64_t ns, const char *call)
{
	if (ns <= atomic_load(longest))
		return;
	atomic_store(longest, ns);
	snprintf(in, CALL_BYTES, "%s", call);
}

void measure_end(struct job_state *job, const struct measure *measure, const char *call)
{
	uint64_t took = real_ns() - measure->began_ns;

	call_now.inside = false;
	note(&job->asked_ns, job->asked_in, call_now.asked_ns, call);
	if (took >= WORTH_NS && switches_so_far() != measure->switches)
		note(&job->slept_ns, job->slept_in, took, call);
}

void measure_check(const struct job_state *job)
{
	uint64_t asked = atomic_load(&job->asked_ns), slept = atomic_load(&job->slept_ns);

	check_that(asked < ASKED_NS, "a call asks to sleep for %lu ms: %s",
		   (unsigned long)(asked / 1000000), job->asked_in);
	check_that(slept < HUNG_NS * TEST_TIME_SCALE, "a call slept for %lu ms: %s",
		   (unsigned long)(slept / 1000000), job->slept_in);
}

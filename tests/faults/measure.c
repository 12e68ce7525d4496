/* SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include <stdio.h>
#include <support/check.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Shorter ones are not worth asking about. */
#define WORTH_NS 2000000u

#define SLEPT_NS    50000000u   /* promised: no call takes that long */
#define HUNG_NS     1000000000u /* no busy machine is an excuse */
#define PASS_ONE_IN 100

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
	return (struct measure){ real_ns(), switches_so_far() };
}

void measure_end(struct job_state *job, const struct measure *measure, const char *call)
{
	uint64_t took = real_ns() - measure->began_ns;

	atomic_fetch_add_explicit(&job->calls, 1, memory_order_relaxed);
	if (took < WORTH_NS || switches_so_far() == measure->switches)
		return;
	if (took > SLEPT_NS * TEST_TIME_SCALE)
		atomic_fetch_add(&job->slept_long, 1);
	if (took <= atomic_load(&job->slept_ns))
		return;
	atomic_store(&job->slept_ns, took);
	snprintf(job->slept_in, sizeof(job->slept_in), "%s", call);
}

void measure_check(const struct job_state *job)
{
	uint64_t slept_long = atomic_load(&job->slept_long);

	check_that(atomic_load(&job->slept_ns) < HUNG_NS * TEST_TIME_SCALE &&
			   slept_long <= 1 + atomic_load(&job->calls) / PASS_ONE_IN,
		   "%lu of %lu calls slept for more than %u ms, the longest %lu ms in %s",
		   (unsigned long)slept_long, (unsigned long)atomic_load(&job->calls),
		   SLEPT_NS / 1000000 * TEST_TIME_SCALE,
		   (unsigned long)(atomic_load(&job->slept_ns) / 1000000), job->slept_in);
}

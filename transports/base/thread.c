/* SPDX-License-Identifier: Apache-2.0 */
/* Threads; see thread.h. */
#include "base/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"

#define CPUS_MOST   8192         /* of Linux: CONFIG_NR_CPUS */
#define STACK_BYTES (512u << 10) /* 8 KiB are used; libibverbs' drivers use more, sanitizers much more */

static void mask_signals(sigset_t *old)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT };
	sigset_t mask;

	sigfillset(&mask);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		sigdelset(&mask, faults[i]);
	pthread_sigmask(SIG_SETMASK, &mask, old);
}

/* glibc takes static TLS, the program's too, out of the stack that it maps. How much is known only by a function that is private
 * to it; OpenJDK and Rust use that as well. 0: it is missing. */
static size_t taken_by_libc(const pthread_attr_t *attr)
{
	size_t (*minstack)(const pthread_attr_t *attr);
	void *address = dlsym(RTLD_DEFAULT, "__pthread_get_minstack");

	memcpy(&minstack, &address, sizeof(minstack));
	return minstack ? minstack(attr) : 0;
}

int thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	cpu_set_t cpus[CPUS_MOST / CPU_SETSIZE];
	sigset_t old;
	size_t taken;
	int ret;

	pthread_attr_init(&attr);
	taken = taken_by_libc(&attr);
	if (taken) /* else the default size, which is larger */
		pthread_attr_setstacksize(&attr, STACK_BYTES + taken);
	if (!sched_getaffinity(getpid(), sizeof(cpus), cpus))
		pthread_attr_setaffinity_np(&attr, sizeof(cpus), cpus);
	mask_signals(&old);
	ret = pthread_create(thread, &attr, run, arg);
	if (ret && ret != EAGAIN) { /* a filter or a cpuset may refuse the affinity */
		pthread_attr_setaffinity_np(&attr, 0, cpus); /* none */
		ret = pthread_create(thread, &attr, run, arg);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (!ret)
		pthread_setname_np(*thread, name);
	return -ret;
}

struct timespec thread_after(uint64_t ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (time_t)(ms / 1000);
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	return until;
}

/* The waits with a time-out of glibc 2.28 follow the wall clock, which jumps: these two look again and again. */
bool thread_join_within(pthread_t thread, uint64_t ms)
{
	uint64_t until = os_now_ms() + ms;
	int ret;

	while ((ret = pthread_tryjoin_np(thread, NULL)) == EBUSY && os_now_ms() < until)
		os_sleep_us(1000);
	return !ret;
}

bool thread_lock_within(pthread_mutex_t *lock, uint64_t ms)
{
	uint64_t until = os_now_ms() + ms;
	int ret;

	while ((ret = pthread_mutex_trylock(lock)) == EBUSY && os_now_ms() < until)
		os_sleep_us(1000);
	return !ret;
}

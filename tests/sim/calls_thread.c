/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stand-ins for libc functions: threads and locks. The state of a lock is in the first words of its object, which are
 * 0 in a free lock however it was initialised. A waiting thread polls the lock, because locks are held only briefly.
 */
#include "sim/calls.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#define LOOK_NS  (2 * SIM_US)
#define YIELD_NS 500

static struct sim_waiters conditions = TAILQ_HEAD_INITIALIZER(conditions);

/* In a simulated thread. A constructor runs outside of threads, and cannot wait. */
static bool inside(void)
{
	return sim_self != NULL;
}

static uint64_t ns_of(const struct timespec *time)
{
	return (uint64_t)time->tv_sec * SIM_S + (uint64_t)time->tv_nsec;
}

/* --- threads --- */

int pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	int err;

	REAL(pthread_create, int, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	if (!inside())
		return real(id, attr, run, arg);
	err = process_call_fails(process_self(), CALL_THREAD);
	if (err)
		return err;
	*id = (pthread_t)(uintptr_t)thread_new(process_self(), run, arg);
	return 0;
}

static struct sim_thread *thread_of(pthread_t id)
{
	return (struct sim_thread *)(uintptr_t)id;
}

int pthread_detach(pthread_t id)
{
	REAL(pthread_detach, int, pthread_t);
	if (!inside())
		return real(id);
	thread_of(id)->detached = true;
	return 0;
}

static int join(struct sim_thread *thread, void **result, uint64_t until)
{
	while (!thread->ended)
		if (!thread_wait(&thread->joiners, until) && !thread->ended)
			return ETIMEDOUT;
	if (result)
		*result = thread->result;
	return 0;
}

int pthread_join(pthread_t id, void **result)
{
	REAL(pthread_join, int, pthread_t, void **);
	if (!inside())
		return real(id, result);
	return join(thread_of(id), result, SIM_NEVER);
}

int pthread_tryjoin_np(pthread_t id, void **result)
{
	REAL(pthread_tryjoin_np, int, pthread_t, void **);
	if (!inside())
		return real(id, result);
	return join(thread_of(id), result, 0) ? EBUSY : 0;
}

int pthread_setname_np(pthread_t id, const char *name)
{
	REAL(pthread_setname_np, int, pthread_t, const char *);
	if (!inside())
		return real(id, name);
	return 0;
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	REAL(pthread_sigmask, int, int, const sigset_t *, sigset_t *);
	if (!process_self())
		return real(how, set, old);
	return 0;
}

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *cpus)
{
	REAL(sched_getaffinity, int, pid_t, size_t, cpu_set_t *);
	if (!process_self())
		return real(pid, bytes, cpus);
	RETURN(int, -EPERM);
}

int sched_yield(void)
{
	REAL(sched_yield, int, void);
	if (!inside())
		return real();
	thread_sleep(YIELD_NS);
	return 0;
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
	REAL(nanosleep, int, const struct timespec *, struct timespec *);
	if (!inside())
		return real(time, left);
	thread_sleep(ns_of(time));
	return 0;
}

/* --- locks --- */

int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
	(void)attr;
	memset(mutex, 0, sizeof(*mutex));
	return 0;
}

int pthread_mutex_destroy(pthread_mutex_t *mutex)
{
	(void)mutex;
	return 0;
}

/* 0 = free */
static int *state_of(void *lock)
{
	return lock;
}

static int lock_until(pthread_mutex_t *mutex, uint64_t until)
{
	while (*state_of(mutex)) {
		if (sim_now >= until)
			return ETIMEDOUT;
		thread_sleep(LOOK_NS);
	}
	*state_of(mutex) = 1;
	return 0;
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	REAL(pthread_mutex_lock, int, pthread_mutex_t *);
	if (!inside())
		return real(mutex);
	sched_may_preempt();
	return lock_until(mutex, SIM_NEVER);
}

int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	REAL(pthread_mutex_trylock, int, pthread_mutex_t *);
	if (!inside())
		return real(mutex);
	return lock_until(mutex, 0) ? EBUSY : 0;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	REAL(pthread_mutex_unlock, int, pthread_mutex_t *);
	if (!inside())
		return real(mutex);
	*state_of(mutex) = 0;
	return 0;
}

/* Readers, a writer, and waiting writers, which have priority. */
int pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
	int *state = state_of(lock);

	REAL(pthread_rwlock_rdlock, int, pthread_rwlock_t *);
	if (!inside())
		return real(lock);
	sched_may_preempt();
	while (state[1] || state[2])
		thread_sleep(LOOK_NS);
	state[0]++;
	return 0;
}

int pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
	int *state = state_of(lock);

	REAL(pthread_rwlock_wrlock, int, pthread_rwlock_t *);
	if (!inside())
		return real(lock);
	state[2]++;
	while (state[0] || state[1])
		thread_sleep(LOOK_NS);
	state[2]--;
	state[1] = 1;
	return 0;
}

int pthread_rwlock_unlock(pthread_rwlock_t *lock)
{
	int *state = state_of(lock);

	REAL(pthread_rwlock_unlock, int, pthread_rwlock_t *);
	if (!inside())
		return real(lock);
	if (state[1])
		state[1] = 0;
	else
		state[0]--;
	return 0;
}

int pthread_once(pthread_once_t *once, void (*run)(void))
{
	REAL(pthread_once, int, pthread_once_t *, void (*)(void));
	if (!inside())
		return real(once, run);
	while (*once == 1)
		thread_sleep(LOOK_NS);
	if (*once)
		return 0;
	*once = 1;
	run();
	*once = 2;
	return 0;
}

/* A wake-up wakes the waiters of all conditions: POSIX permits spurious wake-ups. */
int pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attr)
{
	(void)attr;
	memset(condition, 0, sizeof(*condition));
	return 0;
}

int pthread_cond_broadcast(pthread_cond_t *condition)
{
	REAL(pthread_cond_broadcast, int, pthread_cond_t *);
	if (!inside())
		return real(condition);
	waiters_wake(&conditions);
	return 0;
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
	bool woken;

	REAL(pthread_cond_timedwait, int, pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	if (!inside())
		return real(condition, mutex, until);
	*state_of(mutex) = 0;
	woken = thread_wait(&conditions, ns_of(until));
	lock_until(mutex, SIM_NEVER);
	return woken ? 0 : ETIMEDOUT;
}

int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
	REAL(pthread_cond_wait, int, pthread_cond_t *, pthread_mutex_t *);
	if (!inside())
		return real(condition, mutex);
	*state_of(mutex) = 0;
	thread_wait(&conditions, SIM_NEVER);
	lock_until(mutex, SIM_NEVER);
	return 0;
}

int pthread_condattr_setclock(pthread_condattr_t *attr, clockid_t clock)
{
	(void)attr, (void)clock; /* all clocks are the simulated one */
	return 0;
}

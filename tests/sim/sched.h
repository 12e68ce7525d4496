/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual time. One thread of the system runs everything: the simulated threads are coroutines, which yield only where
 * they wait, and the clock advances only when none of them can run. Random numbers come from the seed. So a run depends
 * on nothing but the seed and the program.
 */
#ifndef TESTS_SIM_SCHED_H
#define TESTS_SIM_SCHED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define SIM_US    UINT64_C(1000)
#define SIM_MS    UINT64_C(1000000)
#define SIM_S     UINT64_C(1000000000)
#define SIM_NEVER UINT64_MAX

/* Now, in nanoseconds. */
extern uint64_t sim_now;

/* --- random numbers --- */

struct sim_random {
	uint64_t state;
};

uint64_t random_next(struct sim_random *random);
uint64_t random_below(struct sim_random *random, uint64_t end); /* 0 .. end - 1 */
uint64_t random_between(struct sim_random *random, uint64_t least, uint64_t most);
bool random_chance(struct sim_random *random, unsigned per_million);

/* --- the trace: a hash of all events --- */

extern uint64_t sim_trace;

extern bool trace_prints; /* prints each event */

void trace_note(unsigned what, uint64_t a, uint64_t b);

/* --- timers --- */

struct sim_timer {
	uint64_t at, order;
	unsigned slot; /* index in the heap; 0 = not set */
	void (*fire)(struct sim_timer *timer);
};

void timer_set(struct sim_timer *timer, uint64_t at); /* replaces a time already set */
void timer_cancel(struct sim_timer *timer);

/* --- threads --- */

struct sim_process;
struct sim_thread;
TAILQ_HEAD(sim_waiters, sim_thread);

struct sim_thread {
	struct sim_process *process;
	void *(*run)(void *arg);
	void *arg, *result;
	bool ended, detached;
	struct sim_waiters joiners;

	/* Private to the scheduler. */
	bool started, queued, woken;
	int saved_errno;
	void *stack;
	struct coroutine *coroutine;
	struct sim_timer timer;
	struct sim_waiters *waits_in;
	TAILQ_ENTRY(sim_thread) link;
	TAILQ_ENTRY(sim_thread) of_process;
};

extern struct sim_thread *sim_self; /* NULL: the simulator itself */

struct sim_thread *thread_new(struct sim_process *process, void *(*run)(void *), void *arg);

/* Waits until woken (true) or until the time is reached (false). waiters may be NULL. */
bool thread_wait(struct sim_waiters *waiters, uint64_t until);
void thread_sleep(uint64_t ns);
void thread_ready(struct sim_thread *thread);
void waiters_wake(struct sim_waiters *waiters);

/* Threads of a dead process never run again. Must not be called for the calling thread. */
void thread_free(struct sim_thread *thread);
_Noreturn void thread_leave_for_ever(void);

/* Runs until over() is true or no event is left. */
void sched_run(bool (*over)(void));

extern struct sim_random sched_random; /* decides the order of threads, and where they are interrupted */
extern unsigned sched_preempts;        /* per million calls: the thread is delayed there */
void sched_may_preempt(void);

#endif

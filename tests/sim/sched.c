/* SPDX-License-Identifier: Apache-2.0 */
/* Clock, timers, coroutines; see sched.h. */
#include "sim/sched.h"
#include "sim/process.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#define STACK_BYTES  (256u << 10)
#define SPIN_LIMIT   2000000 /* switches between threads while no time passes */
#define PREEMPT_MOST (300 * SIM_US)

uint64_t sim_now, sim_trace;
bool trace_prints;
struct sim_thread *sim_self;
struct sim_random sched_random;
unsigned sched_preempts;

struct coroutine {
	ucontext_t first; /* the initial context */
	jmp_buf jump;
};

static struct {
	struct sim_timer **heap; /* indexed from 1 */
	unsigned timers, room;
	uint64_t order;
	struct sim_waiters ready;
	jmp_buf home;
} sched = { .ready = TAILQ_HEAD_INITIALIZER(sched.ready) };

/* --- random numbers: splitmix64 --- */

uint64_t random_next(struct sim_random *random)
{
	uint64_t x = random->state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

uint64_t random_below(struct sim_random *random, uint64_t end)
{
	return end ? random_next(random) % end : 0;
}

uint64_t random_between(struct sim_random *random, uint64_t least, uint64_t most)
{
	return least + random_below(random, most - least + 1);
}

bool random_chance(struct sim_random *random, unsigned per_million)
{
	return per_million && random_below(random, 1000000) < per_million;
}

void trace_note(unsigned what, uint64_t a, uint64_t b)
{
	if (trace_prints)
		printf("%12.6f pid %d call %u %" PRId64 " -> %" PRId64 "\n", (double)sim_now / 1e9,
		       process_self() ? process_self()->pid : 0, what, (int64_t)a, (int64_t)b);
	sim_trace = (sim_trace ^ (sim_now + what)) * UINT64_C(0x100000001b3);
	sim_trace = (sim_trace ^ a ^ b << 32 ^ b >> 32) * UINT64_C(0x100000001b3);
}

/* --- timers: a binary heap by time, then by the order of setting --- */

static bool is_before(const struct sim_timer *a, const struct sim_timer *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void heap_put(unsigned slot, struct sim_timer *timer)
{
	sched.heap[slot] = timer;
	timer->slot = slot;
}

static void heap_rise(unsigned slot, struct sim_timer *timer)
{
	for (; slot > 1 && is_before(timer, sched.heap[slot / 2]); slot /= 2)
		heap_put(slot, sched.heap[slot / 2]);
	heap_put(slot, timer);
}

static void heap_sink(unsigned slot, struct sim_timer *timer)
{
	for (;;) {
		unsigned next = slot * 2;

		if (next < sched.timers && is_before(sched.heap[next + 1], sched.heap[next]))
			next++;
		if (next > sched.timers || !is_before(sched.heap[next], timer))
			break;
		heap_put(slot, sched.heap[next]);
		slot = next;
	}
	heap_put(slot, timer);
}

void timer_cancel(struct sim_timer *timer)
{
	unsigned slot = timer->slot;
	struct sim_timer *last;

	if (!slot)
		return;
	last = sched.heap[sched.timers--];
	timer->slot = 0;
	if (last == timer)
		return;
	if (is_before(last, timer))
		heap_rise(slot, last);
	else
		heap_sink(slot, last);
}

void timer_set(struct sim_timer *timer, uint64_t at)
{
	timer_cancel(timer);
	timer->at = at < sim_now ? sim_now : at;
	timer->order = sched.order++;
	if (sched.timers + 2 > sched.room) {
		sched.room = sched.room ? 2 * sched.room : 256;
		sched.heap = realloc(sched.heap, sched.room * sizeof(*sched.heap));
		if (!sched.heap)
			abort();
	}
	heap_rise(++sched.timers, timer);
}

/* --- threads --- */

static void run_thread(void)
{
	struct sim_thread *self = sim_self;

	self->result = self->run(self->arg);
	self->ended = true;
	waiters_wake(&self->joiners);
	thread_leave_for_ever();
}

static void timed_out(struct sim_timer *timer)
{
	struct sim_thread *thread = (void *)((char *)timer - offsetof(struct sim_thread, timer));

	thread->woken = false;
	thread_ready(thread);
}

struct sim_thread *thread_new(struct sim_process *process, void *(*run)(void *), void *arg)
{
	struct sim_thread *thread = calloc(1, sizeof(*thread));
	struct coroutine *coroutine = calloc(1, sizeof(*coroutine));
	void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

	if (!thread || !coroutine || stack == MAP_FAILED || mprotect(stack, 4096, PROT_NONE))
		abort();
	thread->process = process;
	thread->run = run;
	thread->arg = arg;
	thread->stack = stack;
	thread->coroutine = coroutine;
	thread->timer.fire = timed_out;
	TAILQ_INIT(&thread->joiners);
	getcontext(&coroutine->first);
	coroutine->first.uc_stack.ss_sp = stack;
	coroutine->first.uc_stack.ss_size = STACK_BYTES;
	makecontext(&coroutine->first, run_thread, 0);
	process_adopt(process, thread);
	thread_ready(thread);
	return thread;
}

static void stop_waiting(struct sim_thread *thread)
{
	timer_cancel(&thread->timer);
	if (thread->waits_in)
		TAILQ_REMOVE(thread->waits_in, thread, link);
	thread->waits_in = NULL;
}

void thread_ready(struct sim_thread *thread)
{
	if (thread->queued || thread->ended)
		return;
	stop_waiting(thread);
	thread->queued = true;
	if (process_is_stopped(thread->process))
		process_hold(thread->process, thread);
	else if (sched_preempts && random_chance(&sched_random, 100000))
		TAILQ_INSERT_HEAD(&sched.ready, thread, link);
	else
		TAILQ_INSERT_TAIL(&sched.ready, thread, link);
}

void waiters_wake(struct sim_waiters *waiters)
{
	struct sim_thread *thread;

	while ((thread = TAILQ_FIRST(waiters))) {
		thread->woken = true;
		thread_ready(thread);
	}
}

/* Saves this thread and returns to the scheduler. */
static void leave(void)
{
	struct sim_thread *self = sim_self;

	self->saved_errno = errno;
	if (!_setjmp(self->coroutine->jump))
		_longjmp(sched.home, 1);
}

_Noreturn void thread_leave_for_ever(void)
{
	_longjmp(sched.home, 1);
}

bool thread_wait(struct sim_waiters *waiters, uint64_t until)
{
	struct sim_thread *self = sim_self;

	self->woken = false;
	self->waits_in = waiters;
	if (waiters)
		TAILQ_INSERT_TAIL(waiters, self, link);
	if (until != SIM_NEVER)
		timer_set(&self->timer, until);
	leave();
	return self->woken;
}

void thread_sleep(uint64_t ns)
{
	thread_wait(NULL, sim_now + ns);
}

void thread_free(struct sim_thread *thread)
{
	if (thread->queued && !process_is_stopped(thread->process))
		TAILQ_REMOVE(&sched.ready, thread, link);
	stop_waiting(thread);
	munmap(thread->stack, STACK_BYTES);
	free(thread->coroutine);
	free(thread);
}

void sched_may_preempt(void)
{
	if (sim_self && sched_preempts && random_chance(&sched_random, sched_preempts))
		thread_sleep(random_between(&sched_random, 1, PREEMPT_MOST));
}

static void switch_to(struct sim_thread *thread)
{
	sim_self = thread;
	errno = thread->saved_errno;
	if (!_setjmp(sched.home)) {
		if (thread->started)
			_longjmp(thread->coroutine->jump, 1);
		thread->started = true;
		setcontext(&thread->coroutine->first);
	}
	sim_self = NULL;
}

static void run_ready(void)
{
	struct sim_thread *thread;
	unsigned turns = 0;

	while ((thread = TAILQ_FIRST(&sched.ready))) {
		TAILQ_REMOVE(&sched.ready, thread, link);
		if (process_is_stopped(thread->process)) {
			process_hold(thread->process, thread);
			continue;
		}
		thread->queued = false;
		switch_to(thread);
		process_bury();
		if (++turns == SPIN_LIMIT)
			sim_fail("threads run on and on without any time passing");
	}
}

void sched_run(bool (*over)(void))
{
	for (run_ready(); !over() && sched.timers; run_ready()) {
		struct sim_timer *timer = sched.heap[1];

		timer_cancel(timer);
		sim_now = timer->at;
		timer->fire(timer);
	}
}

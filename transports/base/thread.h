/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the plugin. */
#ifndef ANYNET_THREAD_H
#define ANYNET_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/*
 * Start a thread. It may run on the CPUs of the process's main thread, because NCCL's threads may be bound to a few; if
 * the kernel refuses that, on those of the caller. Its stack size does not depend on RLIMIT_STACK or on the program's
 * thread-local variables. All signals are blocked except those of its own faults, which the program's handlers must get
 * (for example Python's faulthandler). `name` has at most 15 characters. 0 or -errno.
 */
int thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg);

/* The time `ms` from now, for calls with an absolute timeout of CLOCK_MONOTONIC. */
struct timespec thread_after(uint64_t ms);

/* Join the thread, waiting for at most `ms`. False: it still runs and is not joined. */
bool thread_join_within(pthread_t thread, uint64_t ms);

/* Take a lock, waiting for at most `ms`: its holder may never release it, for example at exit. False: not taken. */
bool thread_lock_within(pthread_mutex_t *lock, uint64_t ms);

#endif

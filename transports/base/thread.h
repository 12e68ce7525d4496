/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the plugin's own in somebody else's process. */
#ifndef ANYNET_THREAD_H
#define ANYNET_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/*
 * Start a thread. It runs on every processor that the process may use (NCCL's threads may be bound to few), its stack
 * does not depend on RLIMIT_STACK, and it takes no signals but those that a fault of its own raises, which belong to
 * the program's handlers (Python's faulthandler, say). name: 15 characters at most. 0 or -errno.
 */
int thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg);

/* When it is so many milliseconds later by this clock: for the calls that wait until a time. */
struct timespec thread_after(clockid_t clock, uint64_t ms);

/* Join it, but wait no longer than this. False: it is still at work. */
bool thread_join_within(pthread_t thread, uint64_t ms);

/* Take a lock that a thread which no longer runs may hold. False: not within this time. */
bool thread_lock_within(pthread_mutex_t *lock, uint64_t ms);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of this program that stand in front of the C library's, for the plugin too: they let the
 * k-th call fail, tell what calls ask to sleep for (measure.h), and let clocks jump.
 */
#ifndef TESTS_FAULTS_FRONT_H
#define TESTS_FAULTS_FRONT_H

#include <stdbool.h>
#include <stdint.h>

/* Seen by every library of the process. */
#define IN_FRONT __attribute__((visibility("default")))

enum front_call {
	FRONT_MEMORY, /* malloc and its like */
	FRONT_SOCKET, /* every call below is counted apart */
	FRONT_ACCEPT,
	FRONT_CONNECT,
	FRONT_BIND,
	FRONT_LISTEN,
	FRONT_SETSOCKOPT,
	FRONT_GETSOCKNAME,
	FRONT_EPOLL_CREATE,
	FRONT_EPOLL_CTL,
	FRONT_EVENTFD,
	FRONT_THREAD,
	FRONT_RANDOM,
	FRONT_CALLS
};

extern const char *const front_names[FRONT_CALLS];

/* From now on: the k-th call (from 1), and `more` after it, fail with `err`. */
void front_fail(enum front_call call, unsigned k, unsigned more, int err);

/* No more; true if a call has failed. */
bool front_over(void);

/* For the fronts: errno if this call is to fail, else 0. */
int front_verdict(enum front_call call);

/* From now on one bit of each large piece that is sent is another one on the wire than in memory. */
void front_flip(void);

/* From now on connections end, both ways, once FRONT_SHORT_BYTES have come in over them. */
#define FRONT_SHORT_BYTES (64u << 10)
void front_shorten(void);

/* Jumps of what clock_gettime tells the whole process. */
void front_wall_jump(int64_t seconds);
void front_clock_jump(int64_t seconds);

#endif

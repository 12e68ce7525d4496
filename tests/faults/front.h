/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of this program that replace those of the C library, for the plugin too: they make the k-th call fail,
 * record how long calls ask to sleep (measure.h), and make clocks jump.
 */
#ifndef TESTS_FAULTS_FRONT_H
#define TESTS_FAULTS_FRONT_H

#include <stdbool.h>
#include <stdint.h>

/* Used by every library of the process. */
#define IN_FRONT __attribute__((visibility("default")))

enum front_call {
	FRONT_MEMORY, /* malloc and similar functions */
	FRONT_SOCKET, /* every call below is counted separately */
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

/* From now on the k-th call (from 1), and `more` calls after it, fail with `err`. */
void front_fail(enum front_call call, unsigned k, unsigned more, int err);

/* Ends that; true if a call has failed. */
bool front_over(void);

/* For the replacing functions: errno if this call is to fail, else 0. */
int front_verdict(enum front_call call);

/* From now on one bit of each large piece differs between memory and what is sent. */
void front_flip(void);

/* From now on connections end, both ways, once they have received FRONT_SHORT_BYTES. */
#define FRONT_SHORT_BYTES (64u << 10)
void front_shorten(void);

/* Offsets of clock_gettime in the whole process. */
void front_wall_jump(int64_t seconds);
void front_clock_jump(int64_t seconds);

#endif

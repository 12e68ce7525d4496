/* SPDX-License-Identifier: Apache-2.0 */
/* What only the operating system knows: time, and random numbers. */
#ifndef ANYNET_OS_H
#define ANYNET_OS_H

#include <stddef.h>
#include <stdint.h>

/* Milliseconds of CLOCK_MONOTONIC, but for long pauses in which nobody asked: a stopped process finds
 * its deadlines where they were. Never on the data path. */
uint64_t os_now_ms(void);

/* Fill with random bytes from the kernel. 0 or -errno, which is logged: it refuses (seccomp), and what
 * is there may not be used. */
int os_random(void *data, size_t bytes) __attribute__((warn_unused_result));

#endif

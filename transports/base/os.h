/* SPDX-License-Identifier: Apache-2.0 */
/* Time and random numbers. */
#ifndef ANYNET_OS_H
#define ANYNET_OS_H

#include <stddef.h>
#include <stdint.h>

/* Milliseconds of CLOCK_MONOTONIC, except that the time between two calls counts as at most one second. So a process
 * that was stopped keeps its deadlines. Not for the data path. Any thread. */
uint64_t os_now_ms(void);

/* Microseconds of CLOCK_MONOTONIC. Any thread. */
uint64_t os_now_us(void);

/* Sleep for about this long, less than a second; a signal may end it earlier. */
void os_sleep_us(unsigned us);

/* Fill `data` with random bytes from the kernel. 0, or -errno after a WARN (seccomp may forbid it); the contents must
 * not be used then. */
int os_random(void *data, size_t bytes) __attribute__((warn_unused_result));

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time and randomness of the program, which is linked with --wrap=os_now_ms and --wrap=os_random: an input behaves the
 * same every time, and minutes take one step.
 */
#ifndef TESTS_FUZZ_CLOCK_H
#define TESTS_FUZZ_CLOCK_H

#include <stdint.h>

/* Called at the start of an input. Time never goes back: it starts at a full second not used before. */
void clock_start(void);

void clock_pass(uint32_t ms);

#endif

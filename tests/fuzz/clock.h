/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time and randomness of the program, which is linked with --wrap=os_now_ms and --wrap=os_random: an
 * input does the same every time it runs, and what takes minutes takes one step.
 */
#ifndef TESTS_FUZZ_CLOCK_H
#define TESTS_FUZZ_CLOCK_H

#include <stdint.h>

/* At the beginning of an input. Time never goes back: it begins at a full second that was not there yet. */
void clock_start(void);

void clock_pass(uint32_t ms);

#endif

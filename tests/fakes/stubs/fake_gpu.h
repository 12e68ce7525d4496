/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU whose copies complete under control of the test: the functions of gpu.h that copy through bounces are replaced
 * (the program is linked with --wrap for each). Any memory can be its memory. Misuse ends the test: a bounce returned
 * during a copy, or used without being taken.
 */
#ifndef TESTS_UNIT_FAKE_GPU_H
#define TESTS_UNIT_FAKE_GPU_H

#include "transports/memory/gpu.h"

#define FAKE_GPU_BOUNCES 32

/* This many bounces, all free; a copy is done after it was queried more than `polls` times, or waited for. */
void fake_gpu_start(unsigned bounces, unsigned polls);

struct gpu *fake_gpu(void);
unsigned fake_gpu_taken(void); /* bounces */
unsigned fake_gpu_waits(void); /* for a copy in progress */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU whose copies are done when the test has it so: the functions of gpu.h that copy through bounces are
 * replaced (the program is linked with --wrap for each). Its memory is any memory. What must not be ends
 * the test: a bounce given back that a copy is in progress of, one used that nobody has taken.
 */
#ifndef TESTS_UNIT_FAKE_GPU_H
#define TESTS_UNIT_FAKE_GPU_H

#include "transports/memory/gpu.h"

#define FAKE_GPU_BOUNCES 32

/* So many bounces, all free; a copy is done when it has been asked for more than `polls` times, or waited
 * for. */
void fake_gpu_start(unsigned bounces, unsigned polls);

struct gpu *fake_gpu(void);
unsigned fake_gpu_taken(void); /* bounces */
unsigned fake_gpu_waits(void); /* for a copy that was in progress */

#endif

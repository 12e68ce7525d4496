/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel of the software GPU needs to know. A kernel is a function of the host,
 *
 *   void kernel(struct softgpu_args args);
 *
 * that runs once for each block of its launch, all at the same time, each in a thread of its own.
 */
#ifndef TESTS_NCCL_SOFTGPU_H
#define TESTS_NCCL_SOFTGPU_H

/* The launch arguments of CUDA 11. */
#define SOFTGPU_ARGS_BYTES 4096

#ifdef __cplusplus
extern "C" {
struct softgpu_args {
	alignas(16) char bytes[SOFTGPU_ARGS_BYTES];
};
#else
struct softgpu_args {
	_Alignas(16) char bytes[SOFTGPU_ARGS_BYTES];
};
#endif

/* The block of its launch that the calling thread runs. */
unsigned softgpu_block(void);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The fake libcuda.so.1 as opened by a test, by its path: the plugin's calls, and those of fake_cuda.h. */
#ifndef TESTS_CUDA_OPENED_H
#define TESTS_CUDA_OPENED_H

#include "cuda_api.h"
#include "fake_cuda.h"

struct opened_cuda {
	struct cuda_calls calls;
	int (*script)(const char *text);
	void (*reset)(void);
	void (*counts)(struct fake_cuda_counts *counts);
	void (*own)(int own);
	void *(*view)(const void *device, size_t bytes);
	void *(*pin)(const void *device, size_t bytes);
	void (*unpin)(const void *view);
	void *(*pin_dmabuf)(int fd, uint64_t offset, size_t bytes);
	void (*on_flush)(void (*flush)(void));
};

/* A check of support/check.h ends the process if something is missing. */
void cuda_open(const char *file, struct opened_cuda *cuda);

#endif

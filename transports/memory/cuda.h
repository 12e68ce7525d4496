/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver library, opened at run time: a process with GPU memory has it loaded. Our own
 * declarations of the few calls that are used, after the CUDA driver API's documentation; handles are
 * pointers that nobody looks into. Results: 0 or a CUDA error.
 */
#ifndef ANYNET_CUDA_H
#define ANYNET_CUDA_H

#include <stddef.h>
#include <stdint.h>

#define CUDA_OUT_OF_MEMORY        2
#define CUDA_CONTEXT_IS_DESTROYED 709
#define CUDA_NOT_READY            600
#define CUDA_UNKNOWN              999

#define CUDA_HOST_PORTABLE 0x1u /* pinned for all contexts */
#define CUDA_STREAM_NON_BLOCKING \
	0x1u /* does not wait for the legacy stream, in which kernels may spin */
#define CUDA_EVENT_NO_TIMING 0x2u
#define CUDA_POINTER_BUFFER  7 /* attribute: number of the allocation or registration, never used again; uint64_t */
#define CUDA_POINTER_ORDINAL 9 /* attribute: which device, int */
#define CUDA_RANGE_DMABUF    1
#define CUDA_RANGE_BY_PCIE   1 /* flag, CUDA 12.8: not by NVLink C2C, where there are both */
#define CUDA_CAPTURE_RELAXED 2
#define CUDA_NOT_SUPPORTED   801
#define CUDA_FLUSH_CONTEXT   0
#define CUDA_FLUSH_TO_ALL    200 /* devices see it, not only the one that has the memory */

#define CUDA_MEMORY_HOST     1
#define CUDA_MEMORY_DEVICE   2

/* CUDA_MEMCPY2D: rows of `width` bytes, a pitch from one to the next. */
struct cuda_copy_2d {
	size_t from_x, from_y;
	int from_type; /* CUDA_MEMORY_* */
	const void *from_host;
	uint64_t from_device;
	void *from_array;
	size_t from_pitch;
	size_t to_x, to_y;
	int to_type;
	void *to_host;
	uint64_t to_device;
	void *to_array;
	size_t to_pitch;
	size_t width, rows;
};

struct cuda {
	void *library; /* NULL = not open */

	int (*init)(unsigned flags);
	int (*get_error_name)(int error, const char **name);
	int (*get_error_string)(int error, const char **text);
	int (*device_get)(int *device, int ordinal);
	int (*primary_ctx_retain)(void **context, int device);
	int (*ctx_push)(void *context);
	int (*ctx_pop)(void **context);
	int (*thread_exchange_capture_mode)(int *mode);
	int (*pointer_get_attribute)(void *value, int attribute, uint64_t address);
	int (*ctx_priority_range)(int *least, int *greatest);
	int (*stream_create)(void **stream, unsigned flags, int priority);
	int (*event_create)(void **event, unsigned flags);
	int (*event_record)(void *event, void *stream);
	int (*event_query)(void *event); /* CUDA_NOT_READY: not yet */
	int (*mem_alloc)(uint64_t *memory, size_t bytes);
	int (*mem_host_register)(void *memory, size_t bytes, unsigned flags);
	int (*mem_host_unregister)(void *memory);
	int (*memcpy_to_host)(void *to, uint64_t from, size_t bytes, void *stream);
	int (*memcpy_to_device)(uint64_t to, const void *from, size_t bytes, void *stream);
	int (*memcpy_2d)(const struct cuda_copy_2d *copy, void *stream);

	int (*ctx_create)(void **context, unsigned flags, int device); /* pushed; NULL = none */
	int (*ctx_destroy)(void *context);

	/* CUDA 11.7; NULL = older. `handle` is an int for CUDA_RANGE_DMABUF: an fd of the caller's. */
	int (*mem_get_handle)(void *handle, uint64_t address, size_t bytes, int type,
			      unsigned long long flags);
	int (*flush_writes)(int target, int scope); /* CUDA 11.3; NULL = older */
};

/* Open `file` and fill the table. 0, -ENOENT when the file cannot be opened, -ENOSYS when a function is
 * missing; `why` then tells, in `why_bytes`. It is never closed. */
int cuda_open(const char *file, struct cuda *cuda, char *why, size_t why_bytes);

#endif

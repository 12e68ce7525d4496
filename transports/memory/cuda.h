/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver library, opened at run time; a process with GPU memory has it loaded. The declarations are the
 * plugin's own, by the documentation of the CUDA driver API. Handles are opaque pointers. Functions return 0 or a CUDA
 * error.
 */
#ifndef ANYNET_CUDA_H
#define ANYNET_CUDA_H

#include <stddef.h>
#include <stdint.h>

#define CUDA_INVALID_VALUE        1
#define CUDA_OUT_OF_MEMORY        2
#define CUDA_CONTEXT_IS_DESTROYED 709
#define CUDA_NOT_READY            600
#define CUDA_UNKNOWN              999

#define CUDA_HOST_PORTABLE 0x1u /* pinned for all contexts */
#define CUDA_STREAM_NON_BLOCKING \
	0x1u /* does not wait for the legacy stream, whose kernels may spin */
#define CUDA_EVENT_NO_TIMING 0x2u
#define CUDA_POINTER_BUFFER  7 /* attribute, uint64_t: number of the allocation or registration, never reused */
#define CUDA_POINTER_ORDINAL 9 /* attribute, int: number of the device */
#define CUDA_RANGE_DMABUF    1
#define CUDA_RANGE_BY_PCIE   1 /* flag, CUDA 12.8: map by PCIe even if there is NVLink C2C */
#define CUDA_CAPTURE_RELAXED 2
#define CUDA_NOT_SUPPORTED   801
#define CUDA_FLUSH_CONTEXT   0
#define CUDA_FLUSH_TO_ALL    200 /* make writes visible to all devices, not only to the memory's own */

#define CUDA_MEMORY_HOST     1
#define CUDA_MEMORY_DEVICE   2

/* CUDA_MEMCPY2D: `rows` rows of `width` bytes; a pitch is the distance from one row to the next. */
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
	int (*event_query)(void *event); /* CUDA_NOT_READY: not complete */
	int (*mem_alloc)(uint64_t *memory, size_t bytes);
	int (*mem_host_register)(void *memory, size_t bytes, unsigned flags);
	int (*mem_host_unregister)(void *memory);
	int (*memcpy_to_host)(void *to, uint64_t from, size_t bytes, void *stream);
	int (*memcpy_to_device)(uint64_t to, const void *from, size_t bytes, void *stream);
	int (*memcpy_2d)(const struct cuda_copy_2d *copy, void *stream);

	/* NULL = the library has none. ctx_create makes the new context current. */
	int (*ctx_create)(void **context, unsigned flags, int device);
	int (*ctx_destroy)(void *context);

	/* CUDA 11.7; NULL = older. With CUDA_RANGE_DMABUF `handle` is an int and gets an fd, which the caller
	 * closes. */
	int (*mem_get_handle)(void *handle, uint64_t address, size_t bytes, int type,
			      unsigned long long flags);
	int (*flush_writes)(int target, int scope); /* CUDA 11.3; NULL = older */
};

/* Opens `file` and fills the table. 0; -ENOENT: the file cannot be opened; -ENOSYS: a function is missing. On an error
 * `why`, of `why_bytes`, gets the reason. The library is never closed. */
int cuda_open(const char *file, struct cuda *cuda, char *why, size_t why_bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The insides of libcudart.so.13 in software: one device whose memory is the process's own, streams
 * that are threads, and kernels that are functions.
 *
 * Everything put on a stream is an op with a ticket, and tickets rise over all streams. So "what was
 * put on this stream until now" is the stream and a number, and it is done once the stream's queue
 * begins behind that number. Events, synchronization and waiting of one stream for another are that,
 * and as a stream waits for smaller tickets only, streams never wait in a circle.
 */
#ifndef TESTS_NCCL_RUNTIME_H
#define TESTS_NCCL_RUNTIME_H

#include "gpu.h"
#include "softgpu.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* Work for a stream; the first member of its arguments, in one block from malloc. */
struct op {
	TAILQ_ENTRY(op) link;
	uint64_t ticket;
	void (*run)(struct op *op); /* called in the stream's thread, which then frees the block */
};

/* The handle of a stream points to this. */
struct CUstream_st {
	TAILQ_ENTRY(CUstream_st) link;
	TAILQ_HEAD(, op) queue; /* an op stays at its head until it is done */
	pthread_cond_t work;    /* something was queued, or the stream is destroyed */
	pthread_cond_t advanced;
	unsigned long long id;
	unsigned refs;
	bool blocking; /* synchronises with the NULL stream */
	bool alive;    /* not destroyed */
};

/* All of it is protected by the lock. */
struct runtime {
	pthread_mutex_t lock;
	uint64_t ticket;                   /* the last ticket */
	TAILQ_HEAD(, CUstream_st) streams; /* destroyed ones too, until their work is done */
};

extern struct runtime runtime;

/* Remembers an error for cudaGetLastError. */
cudaError_t report(cudaError_t error);
void last_error_set(cudaError_t error); /* one that may be success */

/* A detached thread that gets no signals. */
int thread_start(void *(*run)(void *), void *argument, const char *name);

/* `bytes` including the op; NULL if there is no memory. */
void *op_new(size_t bytes, void (*run)(struct op *op));

/* Queues the op on the stream, or frees it. */
cudaError_t stream_push(cudaStream_t handle, struct op *op);

/* Waits for all that is on the stream. */
cudaError_t stream_finish(cudaStream_t handle);

/* Waits for all that is on any stream. */
void device_finish(void);

/* With the lock held: */

/* NULL: there is no such stream. */
struct CUstream_st *stream_find(cudaStream_t handle);
void stream_put(struct CUstream_st *stream);

/* The stream, after the waits for the NULL stream that it needs: before work is queued, or its progress is queried. */
cudaError_t stream_enter(cudaStream_t handle, struct CUstream_st **stream);

/* Is any work up to that ticket not done? */
bool stream_is_behind(const struct CUstream_st *stream, uint64_t ticket);
void stream_wait(struct CUstream_st *stream, uint64_t ticket);

/* Makes one stream wait for another. */
cudaError_t stream_push_wait(struct CUstream_st *stream, struct CUstream_st *target,
			     uint64_t ticket);

/* Memory */

enum place {
	PLACE_PAGEABLE,   /* host memory without a record */
	PLACE_PINNED,     /* host memory of cudaHostAlloc */
	PLACE_REGISTERED, /* host memory of cudaHostRegister */
	PLACE_DEVICE,
	PLACE_BROKEN, /* only the beginning of an entry is in known memory */
};

struct range {
	char *start;
	size_t bytes;
	enum place place;
	unsigned long long id; /* not freed */
	bool leaving;          /* passed to cudaFreeAsync */
};

/* The kind of that memory; *found is its range, unless it is PLACE_PAGEABLE. */
enum place range_find(const void *start, size_t bytes, struct range *found);

/* Contexts, devices and kernels */

CUcontext context_current(void); /* the thread's, or NULL */

/* The name of cuCtxCreate in drivers of that time. */
CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *params, int params_count,
			unsigned flags, CUdevice device);

/* One of the device's attributes, which have the same numbers in both APIs. */
cudaError_t device_attribute(int *value, int attribute, int device);

/* All of a launch. `extra` may have the arguments only. */
cudaError_t launch(const void *kernel, dim3 grid, dim3 block, size_t shared_bytes, void **extra,
		   cudaStream_t stream);

/* An error's name and text; NULL = no such error. */
const char *error_driver_name(int error);
const char *error_text(int error);

#endif

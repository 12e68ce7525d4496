/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The insides of the fake libcuda.so.1. One lock guards all of it, but for the bytes of a copy on a
 * stream, which the copy engine moves without it.
 *
 *   script.c   the description, and what is to fail
 *   call.c     how every call begins and ends; misuse
 *   context.c  init, devices, contexts
 *   memory.c   allocations, and what they are asked
 *   adapter.c  what adapters get of them: pinned ranges, dma-bufs, flushes
 *   stream.c   streams, events      engine.c   copies
 */
#ifndef TESTS_CUDA_FAKE_H
#define TESTS_CUDA_FAKE_H

#include "cuda_api.h"
#include "fake_cuda.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#define DEVICES_MAX 2
#define STACK_MAX   16
#define NAME_BYTES  48
#define PAGE_BYTES  4096u

/* A device's primary context, or one that was made. */
struct fake_context {
	LIST_ENTRY(fake_context) next; /* of created ones, which are never freed */
	int device;
	uint64_t retained;
	CUresult error; /* a copy in it has failed: unusable from then on */
	unsigned locked; /* calls that hold its lock and wait for a kernel */
};

struct fake_device {
	int gpudirect, dmabuf; /* attributes */
};

struct allocation {
	LIST_ENTRY(allocation) next;
	struct fake_context *context;
	uintptr_t at;
	size_t bytes;
	uint64_t id; /* CU_POINTER_ATTRIBUTE_BUFFER_ID: unique in the process, never used again */
	bool registered; /* host memory owned by the caller */
	/* device memory */
	bool device, freed; /* freed, but kept for a registration */
	char *shown, *view; /* `mapped` bytes each; at is in the first page of shown */
	size_t mapped;
	unsigned pins;
};

/* A descriptor of it is a memfd of that size, without memory in it. */
struct dmabuf {
	LIST_ENTRY(dmabuf) next;
	ino_t inode;
	struct allocation *allocation;
	uintptr_t at;
	size_t bytes;
};

struct copy {
	STAILQ_ENTRY(copy) next;
	uintptr_t device;
	char *host;
	size_t bytes; /* in all */
	size_t width, rows, device_pitch, host_pitch;
	bool to_device;
	uint64_t number; /* among all of the process */
	uint64_t asked; /* queries while it was the first of its stream */
	bool awaited;   /* by a synchronising call */
};

/* Streams and events are not freed before the process ends, so that a stale handle is detected. */
struct fake_stream {
	LIST_ENTRY(fake_stream) next;
	struct fake_context *context;
	bool non_blocking, destroyed;
	int priority;
	STAILQ_HEAD(, copy) copies; /* the first one may be in progress */
	uint64_t queued, done;
};

struct fake_event {
	LIST_ENTRY(fake_event) next;
	struct fake_context *context;
	bool destroyed;
	struct fake_stream *stream; /* NULL = not recorded yet */
	uint64_t position;          /* done when the stream has completed this many */
};

struct fake {
	struct fake_device devices[DEVICES_MAX];
	struct fake_context contexts[DEVICES_MAX];
	int device_count, version;
	uint64_t hold;        /* queries before a copy is done */
	bool capturing, busy, locks, one_queue, sectors; /* see script.c */
	uint64_t copies_asked, allocated;
	LIST_HEAD(, fake_context) made;
	pid_t owner;          /* process that has called cuInit; 0 = none */
	LIST_HEAD(, allocation) allocations;
	LIST_HEAD(, dmabuf) dmabufs;
	LIST_HEAD(, fake_stream) streams;
	LIST_HEAD(, fake_event) events;
	const struct copy *under_way;
	struct fake_cuda_counts counts;
};

struct fake_thread {
	struct fake_context *stack[STACK_MAX]; /* NULL entries are allowed */
	int depth, capture_mode;
	int own; /* its calls are not counted */
};

extern struct fake fake;
extern __thread struct fake_thread fake_thread;

/* call.c */

enum call_needs {
	NOTHING = 0,
	INIT = 1,
	CONTEXT = 2 | INIT, /* the current one, not failed */
	UNSAFE = 4, /* not while a stream is captured, except in a thread whose mode allows it */
};

/* Takes the lock. 0, or the result to pass to call_end at once. */
CUresult call_begin(const char *name, unsigned needs);
CUresult call_end(CUresult result); /* releases the lock */

/* With the lock: a line on stderr, which begins with the call's name. Returns `code`. */
CUresult misuse(CUresult code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void fake_lock(void);
void fake_unlock(void);
void fake_wait(pthread_cond_t *condition);
void fake_wait_idle(struct fake_context *context); /* until no kernel runs, with the context's lock */
void fake_idle(void);                              /* busy, or something like it, is over */
struct fake_context *context_current(void); /* NULL = none */

/* script.c; with the lock. describe: from the environment. 0 or -1. */
int describe(void);
int obey(const char *text);
void failures_forget(void);
CUresult failure_of(const char *name); /* of this call */

/* memory.c; with the lock */
struct allocation *allocation_at(uintptr_t at, size_t bytes, bool device); /* NULL = none */
char *allocation_view(const struct allocation *allocation, uintptr_t at);
void allocations_end(const struct fake_context *context);
void allocation_drop(struct allocation *allocation); /* freed, and not registered by an adapter */

/* adapter.c; with the lock */
void dmabufs_forget(const struct allocation *allocation);

/* stream.c; with the lock */
void streams_end(const struct fake_context *context);

/* engine.c; with the lock */
CUresult engine_start(void);
void engine_wake(void); /* look again for work */
void copy_queue(struct fake_stream *stream, const struct copy *copy);
size_t copy_span(const struct copy *copy, size_t pitch); /* from its first byte to its last */
void copy_bytes(char *to, const char *from, size_t bytes, bool to_device);
void copies_drop(struct fake_stream *stream); /* except the one in progress */
CUresult stream_wait(struct fake_stream *stream,
		     uint64_t position); /* the lock is released meanwhile */
/* Is a copy from or to these waiting or in progress? The latter is waited for, without the lock. */
bool copies_touch(uintptr_t at, size_t bytes);

#endif

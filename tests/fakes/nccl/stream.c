/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: a queue and a thread each, and how they wait for each other. */
#include "runtime.h"

#include <signal.h>
#include <stdlib.h>

struct runtime runtime = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.streams = TAILQ_HEAD_INITIALIZER(runtime.streams),
};

static struct CUstream_st *legacy; /* the NULL stream, created at first use; protected by the lock */

struct wait_op {
	struct op op;
	struct CUstream_st *target;
	uint64_t ticket;
};

int thread_start(void *(*run)(void *), void *argument, const char *name)
{
	sigset_t all, before;
	pthread_t thread;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&thread, NULL, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret)
		return ret;
	pthread_setname_np(thread, name);
	pthread_detach(thread);
	return 0;
}

void *op_new(size_t bytes, void (*run)(struct op *op))
{
	struct op *op = malloc(bytes);

	if (op)
		op->run = run;
	return op;
}

void stream_put(struct CUstream_st *stream)
{
	if (--stream->refs)
		return;
	pthread_cond_destroy(&stream->work);
	pthread_cond_destroy(&stream->advanced);
	free(stream);
}

static void *stream_run(void *argument)
{
	struct CUstream_st *stream = argument;
	struct op *op;

	pthread_mutex_lock(&runtime.lock);
	while (stream->alive || !TAILQ_EMPTY(&stream->queue)) {
		op = TAILQ_FIRST(&stream->queue);
		if (!op) {
			pthread_cond_wait(&stream->work, &runtime.lock);
			continue;
		}
		pthread_mutex_unlock(&runtime.lock);
		op->run(op);
		pthread_mutex_lock(&runtime.lock);
		TAILQ_REMOVE(&stream->queue, op, link);
		free(op);
		pthread_cond_broadcast(&stream->advanced);
	}
	TAILQ_REMOVE(&runtime.streams, stream, link);
	stream_put(stream);
	pthread_mutex_unlock(&runtime.lock);
	return NULL;
}

/* With the lock held. A stream is owned by its handle and its thread. */
static struct CUstream_st *stream_new(bool blocking)
{
	static unsigned long long ids;
	struct CUstream_st *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	TAILQ_INIT(&stream->queue);
	pthread_cond_init(&stream->work, NULL);
	pthread_cond_init(&stream->advanced, NULL);
	stream->id = ++ids;
	stream->refs = 2;
	stream->blocking = blocking;
	stream->alive = true;
	if (thread_start(stream_run, stream, "gpu-stream")) {
		stream->refs = 1;
		stream_put(stream);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&runtime.streams, stream, link);
	return stream;
}

struct CUstream_st *stream_find(cudaStream_t handle)
{
	struct CUstream_st *stream;

	if (!handle || handle == cudaStreamLegacy) {
		if (!legacy)
			legacy = stream_new(false);
		return legacy;
	}
	TAILQ_FOREACH (stream, &runtime.streams, link)
		if (stream == handle && stream->alive)
			return stream;
	return NULL;
}

bool stream_is_behind(const struct CUstream_st *stream, uint64_t ticket)
{
	const struct op *op = TAILQ_FIRST(&stream->queue);

	return op && op->ticket <= ticket;
}

void stream_wait(struct CUstream_st *stream, uint64_t ticket)
{
	stream->refs++;
	while (stream_is_behind(stream, ticket))
		pthread_cond_wait(&stream->advanced, &runtime.lock);
	stream_put(stream);
}

static void stream_append(struct CUstream_st *stream, struct op *op)
{
	op->ticket = ++runtime.ticket;
	TAILQ_INSERT_TAIL(&stream->queue, op, link);
	pthread_cond_signal(&stream->work);
}

static void wait_run(struct op *op)
{
	struct wait_op *wait = (struct wait_op *)op;

	pthread_mutex_lock(&runtime.lock);
	stream_wait(wait->target, wait->ticket);
	stream_put(wait->target);
	pthread_mutex_unlock(&runtime.lock);
}

cudaError_t stream_push_wait(struct CUstream_st *stream, struct CUstream_st *target,
			     uint64_t ticket)
{
	struct wait_op *wait;

	if (stream == target || !stream_is_behind(target, ticket))
		return cudaSuccess;
	wait = op_new(sizeof(*wait), wait_run);
	if (!wait)
		return cudaErrorMemoryAllocation;
	wait->target = target;
	wait->ticket = ticket;
	target->refs++;
	stream_append(stream, &wait->op);
	return cudaSuccess;
}

/* Waits between it and the NULL stream. */
static cudaError_t stream_order(struct CUstream_st *stream)
{
	uint64_t ticket = runtime.ticket;
	cudaError_t ret = cudaSuccess;
	struct CUstream_st *other;

	if (stream->blocking && legacy)
		return stream_push_wait(stream, legacy, ticket);
	if (stream != legacy)
		return cudaSuccess;
	TAILQ_FOREACH (other, &runtime.streams, link)
		if (other->blocking && !ret)
			ret = stream_push_wait(stream, other, ticket);
	return ret;
}

cudaError_t stream_enter(cudaStream_t handle, struct CUstream_st **stream)
{
	*stream = stream_find(handle);
	return *stream ? stream_order(*stream) : cudaErrorInvalidResourceHandle;
}

cudaError_t stream_push(cudaStream_t handle, struct op *op)
{
	struct CUstream_st *stream;
	cudaError_t ret;

	if (!op)
		return cudaErrorMemoryAllocation;
	pthread_mutex_lock(&runtime.lock);
	ret = stream_enter(handle, &stream);
	if (ret)
		free(op);
	else
		stream_append(stream, op);
	pthread_mutex_unlock(&runtime.lock);
	return ret;
}

cudaError_t stream_finish(cudaStream_t handle)
{
	struct CUstream_st *stream;
	cudaError_t ret;

	pthread_mutex_lock(&runtime.lock);
	ret = stream_enter(handle, &stream);
	if (!ret)
		stream_wait(stream, runtime.ticket);
	pthread_mutex_unlock(&runtime.lock);
	return ret;
}

/* The list may change while it waits, so it starts again. It ends because no stream gets such old tickets any more. */
void device_finish(void)
{
	struct CUstream_st *stream;
	uint64_t ticket;

	pthread_mutex_lock(&runtime.lock);
	ticket = runtime.ticket;
	do {
		TAILQ_FOREACH (stream, &runtime.streams, link)
			if (stream_is_behind(stream, ticket))
				break;
		if (stream)
			stream_wait(stream, ticket);
	} while (stream);
	pthread_mutex_unlock(&runtime.lock);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *handle, unsigned flags)
{
	if (!handle || flags & ~(unsigned)cudaStreamNonBlocking)
		return report(cudaErrorInvalidValue);
	pthread_mutex_lock(&runtime.lock);
	*handle = stream_new(!(flags & cudaStreamNonBlocking));
	pthread_mutex_unlock(&runtime.lock);
	return report(*handle ? cudaSuccess : cudaErrorMemoryAllocation);
}

/* Its thread ends when the queue is empty. */
cudaError_t cudaStreamDestroy(cudaStream_t handle)
{
	struct CUstream_st *stream;

	pthread_mutex_lock(&runtime.lock);
	stream = stream_find(handle);
	if (stream == legacy)
		stream = NULL;
	if (stream) {
		stream->alive = false;
		pthread_cond_signal(&stream->work);
		stream_put(stream);
	}
	pthread_mutex_unlock(&runtime.lock);
	return report(stream ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
	return report(stream_finish(handle));
}

cudaError_t cudaStreamQuery(cudaStream_t handle)
{
	struct CUstream_st *stream;
	cudaError_t ret;

	pthread_mutex_lock(&runtime.lock);
	ret = stream_enter(handle, &stream);
	if (!ret && stream_is_behind(stream, runtime.ticket))
		ret = cudaErrorNotReady;
	pthread_mutex_unlock(&runtime.lock);
	return report(ret);
}

cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long *id)
{
	struct CUstream_st *stream;

	if (!id)
		return report(cudaErrorInvalidValue);
	pthread_mutex_lock(&runtime.lock);
	stream = stream_find(handle);
	if (stream)
		*id = stream->id;
	pthread_mutex_unlock(&runtime.lock);
	return report(stream ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaDeviceSynchronize(void)
{
	device_finish();
	return cudaSuccess;
}

/* When a process exits, its memory is freed with it. */
cudaError_t cudaDeviceReset(void)
{
	return cudaDeviceSynchronize();
}

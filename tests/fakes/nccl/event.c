/* SPDX-License-Identifier: Apache-2.0 */
/* Events: a position in a stream, as of the last record. */
#include "runtime.h"

#include <stdlib.h>
#include <time.h>

/* The handle of an event points to this. The runtime's lock protects it. */
struct CUevent_st {
	TAILQ_ENTRY(CUevent_st) link;
	struct CUstream_st *stream; /* NULL: never recorded, or nothing was pending then */
	uint64_t ticket;
	bool timing;
	unsigned records;
	unsigned stamped; /* the last record with a known time; 0: none */
	int64_t ns;
};

/* Stores the time in an event when the stream gets there, if that is still its last record. */
struct stamp_op {
	struct op op;
	cudaEvent_t event;
	unsigned record;
};

static TAILQ_HEAD(, CUevent_st) events = TAILQ_HEAD_INITIALIZER(events);

static struct CUevent_st *event_find(cudaEvent_t handle)
{
	struct CUevent_st *event;

	TAILQ_FOREACH (event, &events, link)
		if (event == handle)
			return event;
	return NULL;
}

static void event_clear(struct CUevent_st *event)
{
	if (event->stream)
		stream_put(event->stream);
	event->stream = NULL;
}

static bool event_is_pending(const struct CUevent_st *event)
{
	return event->stream && stream_is_behind(event->stream, event->ticket);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *handle, unsigned flags)
{
	struct CUevent_st *event;

	if (!handle || flags & ~(unsigned)(cudaEventBlockingSync | cudaEventDisableTiming |
					   cudaEventInterprocess))
		return report(cudaErrorInvalidValue);
	if (flags & cudaEventInterprocess)
		return report(cudaErrorNotSupported);
	event = calloc(1, sizeof(*event));
	if (!event)
		return report(cudaErrorMemoryAllocation);
	event->timing = !(flags & cudaEventDisableTiming);
	pthread_mutex_lock(&runtime.lock);
	TAILQ_INSERT_TAIL(&events, event, link);
	pthread_mutex_unlock(&runtime.lock);
	*handle = event;
	return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *handle)
{
	return cudaEventCreateWithFlags(handle, cudaEventDefault);
}

/* A waiter has already copied the position. */
cudaError_t cudaEventDestroy(cudaEvent_t handle)
{
	struct CUevent_st *event;

	pthread_mutex_lock(&runtime.lock);
	event = event_find(handle);
	if (event) {
		event_clear(event);
		TAILQ_REMOVE(&events, event, link);
	}
	pthread_mutex_unlock(&runtime.lock);
	free(event);
	return report(event ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

static void stamp_run(struct op *op)
{
	const struct stamp_op *stamp = (struct stamp_op *)op;
	struct CUevent_st *event;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	pthread_mutex_lock(&runtime.lock);
	event = event_find(stamp->event);
	if (event && event->records == stamp->record) {
		event->ns = now.tv_sec * 1000000000LL + now.tv_nsec;
		event->stamped = stamp->record;
	}
	pthread_mutex_unlock(&runtime.lock);
}

/* Of an event without timing: nothing. */
static cudaError_t stamp_push(cudaEvent_t handle, cudaStream_t stream)
{
	struct CUevent_st *event;
	struct stamp_op *stamp;
	unsigned record = 0;

	pthread_mutex_lock(&runtime.lock);
	event = event_find(handle);
	if (event && event->timing)
		record = ++event->records;
	pthread_mutex_unlock(&runtime.lock);
	if (!record)
		return cudaSuccess;
	stamp = op_new(sizeof(*stamp), stamp_run);
	if (stamp) {
		stamp->event = handle;
		stamp->record = record;
	}
	return stream_push(stream, &stamp->op);
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle)
{
	cudaError_t ret = stamp_push(handle, stream_handle);
	struct CUstream_st *stream;
	struct CUevent_st *event;

	if (ret)
		return report(ret);
	ret = cudaErrorInvalidResourceHandle;
	pthread_mutex_lock(&runtime.lock);
	event = event_find(handle);
	if (event)
		ret = stream_enter(stream_handle, &stream);
	if (!ret) {
		event_clear(event);
		event->ticket = runtime.ticket;
		if (stream_is_behind(stream, event->ticket)) {
			stream->refs++;
			event->stream = stream;
		}
	}
	pthread_mutex_unlock(&runtime.lock);
	return report(ret);
}

cudaError_t cudaEventQuery(cudaEvent_t handle)
{
	cudaError_t ret = cudaErrorInvalidResourceHandle;
	struct CUevent_st *event;

	pthread_mutex_lock(&runtime.lock);
	event = event_find(handle);
	if (event)
		ret = event_is_pending(event) ? cudaErrorNotReady : cudaSuccess;
	pthread_mutex_unlock(&runtime.lock);
	return report(ret);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle)
{
	struct CUevent_st *event;

	pthread_mutex_lock(&runtime.lock);
	event = event_find(handle);
	if (event && event->stream)
		stream_wait(event->stream, event->ticket);
	pthread_mutex_unlock(&runtime.lock);
	return report(event ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

/* Both have been recorded, and their streams have got there. */
static cudaError_t elapsed(float *ms, const struct CUevent_st *from, const struct CUevent_st *to)
{
	if (!from || !to || !from->records || !to->records)
		return cudaErrorInvalidResourceHandle;
	if (from->stamped != from->records || to->stamped != to->records)
		return cudaErrorNotReady;
	*ms = (float)(to->ns - from->ns) / 1e6F;
	return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
	cudaError_t ret;

	if (!ms)
		return report(cudaErrorInvalidValue);
	pthread_mutex_lock(&runtime.lock);
	ret = elapsed(ms, event_find(from), event_find(to));
	pthread_mutex_unlock(&runtime.lock);
	return report(ret);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned flags)
{
	cudaError_t ret = cudaErrorInvalidResourceHandle;
	struct CUstream_st *stream;
	struct CUevent_st *event;

	if (flags != cudaEventWaitDefault)
		return report(cudaErrorInvalidValue);
	pthread_mutex_lock(&runtime.lock);
	event = event_find(handle);
	if (event)
		ret = stream_enter(stream_handle, &stream);
	if (!ret && event_is_pending(event))
		ret = stream_push_wait(stream, event->stream, event->ticket);
	pthread_mutex_unlock(&runtime.lock);
	return report(ret);
}

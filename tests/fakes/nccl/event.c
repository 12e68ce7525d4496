/* SPDX-License-Identifier: Apache-2.0 */
/* Events: a place in a stream, as of the last record. */
#include "runtime.h"

#include <stdlib.h>

/* The handle of an event points to this. The runtime's lock guards it. */
struct CUevent_st {
	TAILQ_ENTRY(CUevent_st) link;
	struct CUstream_st *stream; /* NULL: never recorded, or nothing was left to be done then */
	uint64_t ticket;
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

/* Whoever waits for it has taken the place already. */
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

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle)
{
	cudaError_t ret = cudaErrorInvalidResourceHandle;
	struct CUstream_st *stream;
	struct CUevent_st *event;

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

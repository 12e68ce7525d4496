/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events. Only copies can be on a stream; an event is a position in one. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

/* The fake refuses the legacy default stream, NULL: its work waits for the application's kernels, and those of NCCL
 * wait for the network. */
static struct fake_stream *stream_of(CUstream handle, CUresult *ret)
{
	struct fake_stream *found = NULL;

	if (handle)
		LIST_FOREACH(found, &fake.streams, next)
	if ((CUstream)(void *)found == handle)
		break;
	if (!handle)
		*ret = misuse(CUDA_ERROR_INVALID_HANDLE, "on the legacy default stream");
	else if (!found || found->destroyed)
		*ret = misuse(CUDA_ERROR_INVALID_HANDLE, "no such stream");
	else if (found->context != context_current())
		*ret = misuse(CUDA_ERROR_INVALID_HANDLE, "the stream is another context's");
	return found;
}

static struct fake_event *event_of(CUevent handle, CUresult *ret)
{
	struct fake_event *found;

	LIST_FOREACH(found, &fake.events, next)
	if ((CUevent)(void *)found == handle)
		break;
	if (!found || found->destroyed)
		*ret = misuse(CUDA_ERROR_INVALID_HANDLE, "no such event");
	else if (found->context != context_current())
		*ret = misuse(CUDA_ERROR_INVALID_HANDLE, "the event is another context's");
	return found;
}

/* Starts a call on a stream or an event. NULL, or unusable, if *ret is not 0. */
static struct fake_stream *stream_begin(const char *name, unsigned needs, CUstream handle, CUresult *ret)
{
	*ret = call_begin(name, needs | CONTEXT);
	return *ret ? NULL : stream_of(handle, ret);
}

static struct fake_event *event_begin(const char *name, unsigned needs, CUevent handle, CUresult *ret)
{
	*ret = call_begin(name, needs | CONTEXT);
	return *ret ? NULL : event_of(handle, ret);
}

static CUresult query(struct fake_stream *stream, uint64_t position)
{
	fake.counts.queries++;
	if (stream->done >= position)
		return CUDA_SUCCESS;
	STAILQ_FIRST(&stream->copies)->asked++;
	engine_wake();
	return CUDA_ERROR_NOT_READY;
}

static CUresult create(CUresult ret, CUstream *stream, unsigned flags, int priority)
{
	struct fake_stream *made = NULL;

	if (!ret && flags > CU_STREAM_NON_BLOCKING)
		ret = CUDA_ERROR_INVALID_VALUE;
	if (!ret)
		ret = engine_start();
	if (ret)
		return call_end(ret);
	made = calloc(1, sizeof(*made));
	if (!made)
		return call_end(CUDA_ERROR_OUT_OF_MEMORY);
	made->context = context_current();
	made->non_blocking = flags;
	made->priority = priority;
	STAILQ_INIT(&made->copies);
	LIST_INSERT_HEAD(&fake.streams, made, next);
	fake.counts.streams++;
	*stream = (CUstream)(void *)made;
	return call_end(CUDA_SUCCESS);
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
	return create(call_begin("cuStreamCreate", CONTEXT), stream, flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
	return create(call_begin("cuStreamCreateWithPriority", CONTEXT), stream, flags, priority);
}

/* Its submitted work is still performed. */
CUresult cuStreamDestroy_v2(CUstream handle)
{
	CUresult ret;
	struct fake_stream *stream = stream_begin("cuStreamDestroy", 0, handle, &ret);

	if (!ret) {
		stream->destroyed = true;
		fake.counts.streams--;
	}
	return call_end(ret);
}

CUresult cuStreamQuery(CUstream handle)
{
	CUresult ret;
	struct fake_stream *stream = stream_begin("cuStreamQuery", UNSAFE, handle, &ret);

	return call_end(ret ? ret : query(stream, stream->queued));
}

CUresult cuStreamSynchronize(CUstream handle)
{
	CUresult ret;
	struct fake_stream *stream = stream_begin("cuStreamSynchronize", UNSAFE, handle, &ret);

	return call_end(ret ? ret : stream_wait(stream, stream->queued));
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
	CUresult ret = call_begin("cuEventCreate", CONTEXT);
	struct fake_event *made = NULL;

	if (!ret && flags > 7)
		ret = CUDA_ERROR_INVALID_VALUE;
	if (ret)
		return call_end(ret);
	made = calloc(1, sizeof(*made));
	if (!made)
		return call_end(CUDA_ERROR_OUT_OF_MEMORY);
	made->context = context_current();
	LIST_INSERT_HEAD(&fake.events, made, next);
	fake.counts.events++;
	*event = (CUevent)(void *)made;
	return call_end(CUDA_SUCCESS);
}

CUresult cuEventDestroy_v2(CUevent handle)
{
	CUresult ret;
	struct fake_event *event = event_begin("cuEventDestroy", 0, handle, &ret);

	if (!ret) {
		event->destroyed = true;
		fake.counts.events--;
	}
	return call_end(ret);
}

CUresult cuEventRecord(CUevent event_handle, CUstream handle)
{
	CUresult ret;
	struct fake_event *event = event_begin("cuEventRecord", 0, event_handle, &ret);
	struct fake_stream *stream = NULL;

	if (!ret)
		stream = stream_of(handle, &ret);
	if (!ret) {
		event->stream = stream;
		event->position = stream->queued;
	}
	return call_end(ret);
}

CUresult cuEventQuery(CUevent handle)
{
	CUresult ret;
	struct fake_event *event = event_begin("cuEventQuery", UNSAFE, handle, &ret);

	if (!ret && event->stream)
		ret = query(event->stream, event->position);
	return call_end(ret);
}

CUresult cuEventSynchronize(CUevent handle)
{
	CUresult ret;
	struct fake_event *event = event_begin("cuEventSynchronize", UNSAFE, handle, &ret);

	if (!ret && event->stream)
		ret = stream_wait(event->stream, event->position);
	return call_end(ret);
}

/* Streams and events left in a context are freed with it. */
void streams_end(const struct fake_context *context)
{
	struct fake_stream *stream;
	struct fake_event *event;

	LIST_FOREACH(stream, &fake.streams, next)
	{
		if (stream->context != context)
			continue;
		copies_drop(stream);
		fake.counts.streams -= !stream->destroyed;
		stream->destroyed = true;
	}
	LIST_FOREACH(event, &fake.events, next)
	{
		if (event->context != context)
			continue;
		fake.counts.events -= !event->destroyed;
		event->destroyed = true;
	}
}

/* With the lock; checked as far as possible at submission. */
static CUresult copy_refusal(const struct copy *copy, bool pinned)
{
	if (!copy->bytes)
		return CUDA_SUCCESS;
	if (!allocation_at(copy->device, copy_span(copy, copy->device_pitch), true))
		return misuse(CUDA_ERROR_INVALID_VALUE,
			      "%zu bytes at %#lx are not within an allocation", copy->bytes,
			      copy->device);
	if (pinned && !allocation_at((uintptr_t)copy->host, copy_span(copy, copy->host_pitch), false))
		return misuse(CUDA_ERROR_INVALID_VALUE,
			      "%zu bytes at %p are not pinned: this would wait for the copy",
			      copy->bytes, (void *)copy->host);
	return CUDA_SUCCESS;
}

static struct copy one_row(CUdeviceptr device, const void *host, size_t bytes, bool to_device)
{
	return (struct copy){
		.device = device,
		.host = (char *)(uintptr_t)host,
		.bytes = bytes,
		.width = bytes,
		.rows = 1,
		.to_device = to_device,
	};
}

static CUresult copy_async(const char *name, CUstream handle, struct copy copy)
{
	CUresult ret;
	struct fake_stream *stream = stream_begin(name, 0, handle, &ret);

	if (!ret)
		ret = copy_refusal(&copy, true);
	if (!ret)
		copy_queue(stream, &copy);
	return call_end(ret);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	return copy_async("cuMemcpyHtoDAsync", stream, one_row(to, from, bytes, true));
}

/* Between host and device; the rows of one side may be apart. */
CUresult cuMemcpy2DAsync_v2(const struct cuda_copy_2d *asked, CUstream stream)
{
	bool to_device = asked->to_type == CU_MEMORYTYPE_DEVICE;
	struct copy copy = {
		.device = to_device ? asked->to_device : asked->from_device,
		.host = to_device ? (char *)(uintptr_t)asked->from_host : asked->to_host,
		.width = asked->width,
		.rows = asked->rows,
		.device_pitch = to_device ? asked->to_pitch : asked->from_pitch,
		.host_pitch = to_device ? asked->from_pitch : asked->to_pitch,
		.to_device = to_device,
	};

	if (asked->from_x || asked->from_y || asked->to_x || asked->to_y ||
	    asked->from_type + asked->to_type != CU_MEMORYTYPE_HOST + CU_MEMORYTYPE_DEVICE ||
	    asked->width > asked->from_pitch || asked->width > asked->to_pitch)
		return CUDA_ERROR_INVALID_VALUE;
	copy.bytes = copy.rows * copy.width;
	return copy_async("cuMemcpy2DAsync", stream, copy);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return copy_async("cuMemcpyDtoHAsync", stream, one_row(from, to, bytes, false));
}

/* On the legacy default stream: after all work on streams that are not non-blocking, and after the application's
 * kernels. */
static CUresult copy_now(const char *name, struct copy copy)
{
	CUresult ret = call_begin(name, CONTEXT | UNSAFE);
	struct fake_stream *stream;
	char *view;

	if (!ret)
		ret = copy_refusal(&copy, false);
	if (!ret && fake.busy)
		ret = misuse(CUDA_ERROR_LAUNCH_TIMEOUT, "waits for a kernel that does not end");
	LIST_FOREACH(stream, &fake.streams, next)
	if (!ret && !stream->non_blocking && stream->context == context_current())
		ret = stream_wait(stream, stream->queued);
	if (!ret && copy.bytes) {
		view = allocation_view(allocation_at(copy.device, copy.bytes, true), copy.device);
		memcpy(copy.to_device ? view : copy.host, copy.to_device ? copy.host : view,
		       copy.bytes);
	}
	return call_end(ret);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
	return copy_now("cuMemcpyHtoD", one_row(to, from, bytes, true));
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
	return copy_now("cuMemcpyDtoH", one_row(from, to, bytes, false));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The copy engine: one thread, which does what is on the streams, in the order of each. */
#include "fake.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;

void engine_wake(void)
{
	pthread_cond_signal(&work);
}

/* Its first copy is taken off the stream. */
static void copy_finish(struct fake_stream *stream)
{
	struct copy *copy = STAILQ_FIRST(&stream->copies);

	STAILQ_REMOVE_HEAD(&stream->copies, next);
	stream->done++;
	fake.counts.waiting--;
	free(copy);
	pthread_cond_broadcast(&done);
}

static bool is_ready(const struct fake_stream *stream)
{
	const struct copy *copy = STAILQ_FIRST(&stream->copies);

	if (!copy || (fake.busy && !stream->non_blocking))
		return false;
	return copy->awaited || copy->asked >= fake.hold || stream->context->error;
}

/* With the lock, which is free while bytes are moved. */
static void copy_do(struct fake_stream *stream)
{
	const struct copy *copy = STAILQ_FIRST(&stream->copies);
	const struct allocation *device = allocation_at(copy->device, copy->bytes, true);
	const struct allocation *host = allocation_at((uintptr_t)copy->host, copy->bytes, false);
	CUresult *error = &stream->context->error;
	char *view;

	if (!*error)
		*error = failure_of("copy");
	if (!*error && copy->bytes && (!device || !host)) {
		fprintf(stderr, "fake cuda: a copy finds its memory freed\n");
		*error = CUDA_ERROR_ILLEGAL_ADDRESS;
	}
	if (!*error && copy->bytes) {
		view = allocation_view(device, copy->device);
		fake.under_way = copy;
		fake_unlock();
		memcpy(copy->to_device ? view : copy->host, copy->to_device ? copy->host : view,
		       copy->bytes);
		fake_lock();
		fake.under_way = NULL;
	}
	if (!*error) {
		fake.counts.copies++;
		fake.counts.copied_bytes += copy->bytes;
	}
	copy_finish(stream);
}

static void *engine_main(void *unused)
{
	(void)unused;
	fake_lock();
	for (;;) {
		struct fake_stream *stream, *oldest = NULL;

		LIST_FOREACH(stream, &fake.streams, next)
		if (is_ready(stream))
			oldest = stream;
		if (oldest)
			copy_do(oldest);
		else
			fake_wait(&work);
	}
	return NULL;
}

CUresult engine_start(void)
{
	static bool running;
	sigset_t all, before;
	pthread_t thread;

	if (running)
		return CUDA_SUCCESS;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	running = !pthread_create(&thread, NULL, engine_main, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!running)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_detach(thread);
	return CUDA_SUCCESS;
}

void copy_queue(struct fake_stream *stream, const struct copy *copy)
{
	struct copy *made = malloc(sizeof(*made));

	if (!made)
		abort();
	*made = *copy;
	STAILQ_INSERT_TAIL(&stream->copies, made, next);
	stream->queued++;
	fake.counts.waiting++;
	engine_wake();
}

void copies_drop(struct fake_stream *stream)
{
	while (fake.under_way && STAILQ_FIRST(&stream->copies) == fake.under_way)
		fake_wait(&done);
	while (!STAILQ_EMPTY(&stream->copies))
		copy_finish(stream);
}

CUresult stream_wait(struct fake_stream *stream, uint64_t position)
{
	uint64_t ahead = position - stream->done;
	struct copy *copy;

	if (stream->done >= position)
		return stream->context->error;
	if (fake.busy && !stream->non_blocking)
		return misuse(CUDA_ERROR_LAUNCH_TIMEOUT,
			      "waits for a blocking stream behind a kernel that does not end");
	STAILQ_FOREACH (copy, &stream->copies, next) {
		copy->awaited = true;
		if (!--ahead)
			break;
	}
	engine_wake();
	while (stream->done < position)
		fake_wait(&done);
	return stream->context->error;
}

static bool overlap(const struct copy *copy, uintptr_t at, size_t bytes)
{
	uintptr_t host = (uintptr_t)copy->host;

	return copy->bytes && ((copy->device < at + bytes && at < copy->device + copy->bytes) ||
			       (host < at + bytes && at < host + copy->bytes));
}

bool copies_touch(uintptr_t at, size_t bytes)
{
	const struct fake_stream *stream;
	const struct copy *copy;
	bool found = false;

	LIST_FOREACH(stream, &fake.streams, next)
	STAILQ_FOREACH (copy, &stream->copies, next)
		found = found || overlap(copy, at, bytes);
	while (fake.under_way && overlap(fake.under_way, at, bytes))
		fake_wait(&done);
	return found;
}

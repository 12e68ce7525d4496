/* SPDX-License-Identifier: Apache-2.0 */
/* The copy engine: one thread, which performs the work of the streams, each in order. */
#include "fake.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECTOR_BYTES 32u

static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;

void engine_wake(void)
{
	pthread_cond_signal(&work);
}

size_t copy_span(const struct copy *copy, size_t pitch)
{
	return copy->bytes ? (copy->rows - 1) * pitch + copy->width : 0;
}

/* Removes its first copy from the stream. */
static void copy_finish(struct fake_stream *stream)
{
	struct copy *copy = STAILQ_FIRST(&stream->copies);

	STAILQ_REMOVE_HEAD(&stream->copies, next);
	stream->done++;
	fake.counts.waiting--;
	free(copy);
	pthread_cond_broadcast(&done);
}

/*
 * A device has a few hardware queues, one with CUDA_DEVICE_MAX_CONNECTIONS=1, which the streams of a context and
 * priority share: work starts in the order of submission, whatever its stream (CUDA C Programming Guide, environment
 * variables, CUDA_DEVICE_MAX_CONNECTIONS).
 */
static bool is_behind_another(const struct fake_stream *stream, const struct copy *copy)
{
	const struct fake_stream *other;

	if (!fake.one_queue)
		return false;
	LIST_FOREACH(other, &fake.streams, next)
	{
		const struct copy *first = STAILQ_FIRST(&other->copies);

		if (first && other->context == stream->context &&
		    other->priority == stream->priority && first->number < copy->number)
			return true;
	}
	return false;
}

static bool is_ready(const struct fake_stream *stream)
{
	const struct copy *copy = STAILQ_FIRST(&stream->copies);

	if (!copy || (fake.busy && !stream->non_blocking) || is_behind_another(stream, copy))
		return false;
	return copy->awaited || copy->asked >= fake.hold || stream->context->error;
}

/*
 * With "sectors" device memory is written in aligned pieces of 32 bytes, in any order, with time between them: CUDA
 * promises no order within a copy, and GPU memory is accessed in 32 bytes (CUDA C Best Practices Guide, "Coalesced
 * Access to Global Memory").
 */
void copy_bytes(char *to, const char *from, size_t bytes, bool to_device)
{
	size_t skew = (uintptr_t)to % SECTOR_BYTES;
	size_t count = (skew + bytes + SECTOR_BYTES - 1) / SECTOR_BYTES, step = 7;
	static size_t first;

	if (!fake.sectors || !to_device) {
		memcpy(to, from, bytes);
		return;
	}
	while (count > 1 && count % step == 0)
		step = step * 3 % 101 + 2;
	first += 5;
	for (size_t i = 0; i < count; i++) {
		size_t sector = (first + i * step) % count;
		size_t begin = sector ? sector * SECTOR_BYTES - skew : 0;
		size_t end = (sector + 1) * SECTOR_BYTES - skew;

		end = end < bytes ? end : bytes;
		for (size_t at = begin; at < end; at++)
			__atomic_store_n(&to[at], from[at], __ATOMIC_RELEASE);
		if (i % 4 == 0)
			sched_yield();
	}
}

/* With the lock, which is released while bytes are copied. */
static void copy_do(struct fake_stream *stream)
{
	const struct copy *copy = STAILQ_FIRST(&stream->copies);
	const struct allocation *device =
		allocation_at(copy->device, copy_span(copy, copy->device_pitch), true);
	const struct allocation *host =
		allocation_at((uintptr_t)copy->host, copy_span(copy, copy->host_pitch), false);
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
		for (size_t row = 0; row < copy->rows; row++) {
			char *device_row = view + row * copy->device_pitch,
			     *host_row = copy->host + row * copy->host_pitch;

			copy_bytes(copy->to_device ? device_row : host_row,
				   copy->to_device ? host_row : device_row, copy->width,
				   copy->to_device);
		}
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
	made->number = ++fake.copies_asked;
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

	return copy->bytes && ((copy->device < at + bytes &&
				at < copy->device + copy_span(copy, copy->device_pitch)) ||
			       (host < at + bytes &&
				at < host + copy_span(copy, copy->host_pitch)));
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

/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA runtime: memory and streams. */
#include "fake.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CUDA_TO_DEVICE     1
#define CUDA_OUT_OF_MEMORY 2
#define CUDA_NOT_READY     600

struct task {
	struct task *next;
	void (*run)(void *arg);
	void *arg;
};

struct stream {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct task *first, **last;
	bool busy, over;
};

const char *cudaGetErrorString(int result)
{
	return result == CUDA_OUT_OF_MEMORY ? "out of memory" : "fake error";
}

int cudaGetDeviceCount(int *count)
{
	*count = (int)fake_setting("FAKE_CUDA_DEVICES", 1);
	return 0;
}

int cudaSetDevice(int device)
{
	(void)device;
	return 0;
}

int cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
	*free_bytes = (size_t)fake_setting("FAKE_CUDA_FREE", 1l << 30);
	*total = *free_bytes;
	return 0;
}

int cudaMalloc(void **data, size_t bytes)
{
	if (bytes > (size_t)fake_setting("FAKE_CUDA_FREE", 1l << 30))
		return CUDA_OUT_OF_MEMORY;
	*data = malloc(bytes);
	return *data ? 0 : CUDA_OUT_OF_MEMORY;
}

int cudaFree(void *data)
{
	free(data);
	return 0;
}

/* A copy to the device from pageable memory, which has not been done yet: CUDA returns before its end. Here it is done at the
 * next call on the default stream. */
static struct {
	void *to, *data;
	size_t bytes;
} late;

int cudaDeviceSynchronize(void)
{
	if (late.bytes)
		memcpy(late.to, late.data, late.bytes);
	free(late.data);
	late.data = NULL;
	late.bytes = 0;
	return 0;
}

int cudaMemcpy(void *to, const void *from, size_t bytes, int kind)
{
	cudaDeviceSynchronize();
	if (kind != CUDA_TO_DEVICE) {
		memcpy(to, from, bytes);
		return 0;
	}
	late.data = malloc(bytes);
	if (!late.data)
		return CUDA_OUT_OF_MEMORY;
	memcpy(late.data, from, bytes);
	late.to = to;
	late.bytes = bytes;
	return 0;
}

int cudaMemset(void *data, int value, size_t bytes)
{
	cudaDeviceSynchronize();
	memset(data, value, bytes);
	return 0;
}

static void *stream_main(void *arg)
{
	struct stream *s = arg;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		struct task *task = s->first;

		if (!task && s->over)
			break;
		if (!task) {
			pthread_cond_wait(&s->changed, &s->lock);
			continue;
		}
		s->first = task->next;
		if (!s->first)
			s->last = &s->first;
		s->busy = true;
		pthread_mutex_unlock(&s->lock);
		task->run(task->arg);
		free(task);
		pthread_mutex_lock(&s->lock);
		s->busy = false;
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

int cudaStreamCreateWithFlags(void **out, unsigned flags)
{
	struct stream *s = calloc(1, sizeof(*s));

	(void)flags;
	if (!s)
		return CUDA_OUT_OF_MEMORY;
	s->last = &s->first;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	if (pthread_create(&s->thread, NULL, stream_main, s)) {
		free(s);
		return CUDA_OUT_OF_MEMORY;
	}
	*out = s;
	return 0;
}

int cudaStreamDestroy(void *handle)
{
	struct stream *s = handle;

	pthread_mutex_lock(&s->lock);
	s->over = true;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	free(s);
	return 0;
}

int cudaStreamQuery(void *handle)
{
	struct stream *s = handle;
	bool idle;

	pthread_mutex_lock(&s->lock);
	idle = !s->first && !s->busy;
	pthread_mutex_unlock(&s->lock);
	return idle ? 0 : CUDA_NOT_READY;
}

void stream_push(void *handle, void (*run)(void *arg), void *arg)
{
	struct task *task = malloc(sizeof(*task));
	struct stream *s = handle;

	if (!task)
		abort();
	*task = (struct task){ .run = run, .arg = arg };
	pthread_mutex_lock(&s->lock);
	*s->last = task;
	s->last = &task->next;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The start and end of every call, and reports of misuse. */
#include "fake.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

struct fake fake = { .version = 12040 };
__thread struct fake_thread fake_thread;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread const char *call_name;

void fake_lock(void)
{
	pthread_mutex_lock(&lock);
}

void fake_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/* A forked child finds the lock free, and may at least query memory. */
__attribute__((constructor)) static void survive_forks(void)
{
	pthread_atfork(fake_lock, fake_unlock, fake_unlock);
}

void fake_wait(pthread_cond_t *condition)
{
	pthread_cond_wait(condition, &lock);
}

void fake_cuda_own(int own)
{
	fake_thread.own = own;
}

static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;

void fake_idle(void)
{
	pthread_cond_broadcast(&idle);
}

/*
 * cuMemFree waits for the kernels of its context, and calls of other threads in that context wait for it. If one of
 * those threads has to progress for NCCL's kernel to end, all hang (NVIDIA/nccl issues 48 and 803; pytorch/pytorch pull
 * request 880).
 */
void fake_wait_idle(struct fake_context *context)
{
	context->locked++;
	fake.counts.frees_waiting++;
	while (fake.busy && fake.locks)
		fake_wait(&idle);
	context->locked--;
	fake.counts.frees_waiting--;
	fake_idle();
}

struct fake_context *context_current(void)
{
	return fake_thread.depth ? fake_thread.stack[fake_thread.depth - 1] : NULL;
}

static CUresult context_refusal(void)
{
	const struct fake_context *context = context_current();

	if (!context)
		return misuse(CUDA_ERROR_INVALID_CONTEXT, "no context is current in this thread");
	if (!context->retained)
		return misuse(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context is released");
	return context->error;
}

CUresult call_begin(const char *name, unsigned needs)
{
	CUresult ret;

	call_name = name;
	fake_lock();
	fake.counts.calls += !fake_thread.own;
	if (fake.owner && fake.owner != getpid())
		return misuse(CUDA_ERROR_NOT_INITIALIZED, "in a forked child");
	while ((needs & CONTEXT) == CONTEXT && context_current() && context_current()->locked)
		fake_wait(&idle);
	ret = failure_of(name);
	if (!ret && (needs & INIT) && !fake.owner)
		ret = misuse(CUDA_ERROR_NOT_INITIALIZED, "before cuInit");
	if (!ret && (needs & CONTEXT) == CONTEXT)
		ret = context_refusal();
	if (!ret && (needs & UNSAFE) && fake.capturing &&
	    fake_thread.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
		ret = misuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
			     "spoils the capture of another thread's stream");
	return ret;
}

CUresult call_end(CUresult result)
{
	fake_unlock();
	return result;
}

CUresult misuse(CUresult code, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fprintf(stderr, "fake cuda: %s: %s\n", call_name ? call_name : "copy", text);
	fake.counts.misuses++;
	return code;
}

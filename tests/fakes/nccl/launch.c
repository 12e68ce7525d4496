/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels, and host functions on streams. Blocks of a launch may wait for each other, so each has a thread: the
 * stream's for the first, others from a pool that grows whenever none is free.
 */
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void kernel_function(struct softgpu_args args);

struct launch_op {
	struct op op;
	kernel_function *kernel;
	unsigned blocks;
	unsigned running; /* of those in the pool; protected by the pool lock */
	pthread_cond_t finished;
	struct softgpu_args args;
};

struct host_op {
	struct op op;
	cudaHostFn_t function;
	void *data;
};

/* A thread of the pool, on its own stack. */
struct worker {
	SLIST_ENTRY(worker) link;
	pthread_cond_t wake;
	struct launch_op *launch; /* NULL: it is free */
	unsigned block;
};

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static SLIST_HEAD(, worker) pool = SLIST_HEAD_INITIALIZER(pool); /* the free ones */

static _Thread_local unsigned current_block;

unsigned softgpu_block(void)
{
	return current_block;
}

static void block_run(const struct launch_op *launch, unsigned block)
{
	current_block = block;
	launch->kernel(launch->args);
}

static void *worker_run(void *argument)
{
	struct worker *first = argument, worker = *first;

	free(first);
	pthread_cond_init(&worker.wake, NULL);
	for (;;) {
		block_run(worker.launch, worker.block);
		pthread_mutex_lock(&pool_lock);
		if (!--worker.launch->running)
			pthread_cond_signal(&worker.launch->finished);
		worker.launch = NULL;
		SLIST_INSERT_HEAD(&pool, &worker, link);
		while (!worker.launch)
			pthread_cond_wait(&worker.wake, &pool_lock);
		pthread_mutex_unlock(&pool_lock);
	}
	return NULL;
}

/* Blocks that run already wait for this one, so it must start. */
static void block_start(struct launch_op *launch, unsigned block)
{
	struct worker *worker;

	pthread_mutex_lock(&pool_lock);
	worker = SLIST_FIRST(&pool);
	if (worker) {
		SLIST_REMOVE_HEAD(&pool, link);
		worker->launch = launch;
		worker->block = block;
		pthread_cond_signal(&worker->wake);
	}
	pthread_mutex_unlock(&pool_lock);
	if (worker)
		return;
	worker = calloc(1, sizeof(*worker));
	if (worker) {
		worker->launch = launch;
		worker->block = block;
	}
	if (!worker || thread_start(worker_run, worker, "gpu-block")) {
		fprintf(stderr, "software GPU: no thread for block %u of %u\n", block,
			launch->blocks);
		abort();
	}
}

static void launch_run(struct op *op)
{
	struct launch_op *launch = (struct launch_op *)op;

	launch->running = launch->blocks - 1;
	pthread_cond_init(&launch->finished, NULL);
	for (unsigned i = 1; i < launch->blocks; i++)
		block_start(launch, i);
	block_run(launch, 0);
	pthread_mutex_lock(&pool_lock);
	while (launch->running)
		pthread_cond_wait(&launch->finished, &pool_lock);
	pthread_mutex_unlock(&pool_lock);
	pthread_cond_destroy(&launch->finished);
}

static void host_run(struct op *op)
{
	const struct host_op *host = (struct host_op *)op;

	host->function(host->data);
}

/* Reads the list of keys and values. */
static cudaError_t args_read(struct softgpu_args *args, void **extra)
{
	const void *buffer = NULL;
	size_t bytes = 0;

	memset(args, 0, sizeof(*args));
	for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
		if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[1];
		else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			bytes = *(const size_t *)extra[1];
		else
			return cudaErrorInvalidValue;
	}
	if (bytes > sizeof(*args) || (bytes && !buffer))
		return cudaErrorInvalidValue;
	if (bytes)
		memcpy(args, buffer, bytes);
	return cudaSuccess;
}

cudaError_t launch(const void *kernel, dim3 grid, dim3 block, size_t shared_bytes, void **extra,
		   cudaStream_t stream)
{
	struct launch_op *launch;
	uint64_t threads = (uint64_t)block.x * block.y * block.z;
	cudaError_t ret;

	if (!kernel)
		return cudaErrorInvalidDeviceFunction;
	if (!grid.x || !threads || threads > GPU_BLOCK_THREADS_MAX ||
	    shared_bytes > GPU_SHARED_OPTIN_BYTES)
		return cudaErrorInvalidConfiguration;
	if (grid.y != 1 || grid.z != 1)
		return cudaErrorNotSupported;
	launch = op_new(sizeof(*launch), launch_run);
	if (!launch)
		return cudaErrorMemoryAllocation;
	memcpy(&launch->kernel, &kernel, sizeof(kernel));
	launch->blocks = grid.x;
	ret = args_read(&launch->args, extra);
	if (ret) {
		free(launch);
		return ret;
	}
	return stream_push(stream, &launch->op);
}

/* Only CUDA's compiler knows the sizes of the arguments. */
cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args,
			     size_t shared_bytes, cudaStream_t stream)
{
	if (args)
		return report(cudaErrorNotSupported);
	return report(launch(kernel, grid, block, shared_bytes, NULL, stream));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
	struct host_op *host;

	if (!function)
		return report(cudaErrorInvalidValue);
	host = op_new(sizeof(*host), host_run);
	if (host) {
		host->function = function;
		host->data = data;
	}
	return report(stream_push(stream, &host->op));
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *symbol)
{
	if (!function || !symbol)
		return report(symbol ? cudaErrorInvalidValue : cudaErrorInvalidDeviceFunction);
	memcpy(function, &symbol, sizeof(symbol));
	return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function)
{
	if (!attributes || !function)
		return report(function ? cudaErrorInvalidValue : cudaErrorInvalidDeviceFunction);
	memset(attributes, 0, sizeof(*attributes));
	attributes->maxThreadsPerBlock = GPU_BLOCK_THREADS_MAX;
	attributes->numRegs = GPU_REGISTERS / GPU_BLOCK_THREADS_MAX;
	attributes->ptxVersion = GPU_CAPABILITY_MAJOR * 10 + GPU_CAPABILITY_MINOR;
	attributes->binaryVersion = attributes->ptxVersion;
	attributes->maxDynamicSharedSizeBytes = GPU_SHARED_BYTES;
	attributes->preferredShmemCarveout = -1;
	return cudaSuccess;
}

/* Memory is not limited here: a kernel need not ask for more. */
cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value)
{
	if (!function)
		return report(cudaErrorInvalidDeviceFunction);
	if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize)
		return report(value >= 0 && value <= GPU_SHARED_OPTIN_BYTES
				      ? cudaSuccess
				      : cudaErrorInvalidValue);
	if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout)
		return report(value >= -1 && value <= 100 ? cudaSuccess : cudaErrorInvalidValue);
	return report(cudaErrorNotSupported);
}

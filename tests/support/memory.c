/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"
#include "capture.h"

#include <nccl_net/device.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#define ALIGN_BYTES 128
#define PAGE_BYTES  4096u

/* Maximum size of a GPU's pool, which is never freed. */
#define POOL_STREAMS 2
#define POOL_PINNED  1

struct registration {
	LIST_ENTRY(registration) next;
	struct test_net *net;
	void *comm, *mhandle;
	const char *data;
};

struct allocation {
	LIST_ENTRY(allocation) next;
	char *data;
	size_t bytes;
};

static struct opened_cuda fake;

static struct {
	pthread_mutex_t lock;
	bool open;
	CUcontext context;
	LIST_HEAD(, allocation) allocations;
	LIST_HEAD(, registration) registrations;
	unsigned turn; /* rotates over the ways to register */
	int nets, gpus;
	bool allow_misuse;
} cuda = { .lock = PTHREAD_MUTEX_INITIALIZER };

bool memory_is_cuda(void)
{
	const char *wanted = getenv("TEST_MEMORY");

	check_that(!wanted || !*wanted || !strcmp(wanted, "cuda"), "TEST_MEMORY=%s is not known",
		   wanted);
	return wanted && *wanted;
}

/* The caller holds the lock. */
static void open_cuda(void)
{
	const char *file = getenv("ANYNET_CUDA_LIB");

	check_that(file, "ANYNET_CUDA_LIB is not set");
	cuda_open(file, &fake);
	check_ok(fake.calls.cuInit(0));
	check_ok(fake.calls.cuDevicePrimaryCtxRetain(&cuda.context, 0));
	cuda.gpus = 1;
	cuda.open = true;
}

static void need_cuda(void)
{
	pthread_mutex_lock(&cuda.lock);
	if (!cuda.open)
		open_cuda();
	pthread_mutex_unlock(&cuda.lock);
}

void memory_choose_gpu(int ordinal)
{
	need_cuda();
	check_ok(fake.calls.cuDevicePrimaryCtxRetain(&cuda.context, ordinal));
	cuda.gpus++;
}

/* For the test's own calls. */
static int enter(void)
{
	int mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	need_cuda();
	fake.own(true);
	check_ok(fake.calls.cuThreadExchangeStreamCaptureMode(&mode));
	check_ok(fake.calls.cuCtxPushCurrent_v2(cuda.context));
	return mode;
}

static void leave(int mode)
{
	CUcontext context;

	check_ok(fake.calls.cuCtxPopCurrent_v2(&context));
	check_ok(fake.calls.cuThreadExchangeStreamCaptureMode(&mode));
	fake.own(false);
}

void memory_as_application(void (*run)(const struct cuda_calls *calls, void *arg), void *arg)
{
	int mode = enter();

	run(&fake.calls, arg);
	leave(mode);
}

void memory_check_thread(void)
{
	int mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	CUcontext context;

	if (!cuda.open)
		return;
	fake.own(true);
	check_ok(fake.calls.cuCtxGetCurrent(&context));
	check_that(!context, "the net leaves a CUDA context in the thread");
	check_ok(fake.calls.cuThreadExchangeStreamCaptureMode(&mode));
	fake.own(false);
	check_that(mode == CU_STREAM_CAPTURE_MODE_GLOBAL, "the net leaves capture mode %d", mode);
}

void *memory_alloc(size_t bytes)
{
	struct allocation *made;
	CUdeviceptr memory;
	void *host = NULL;
	int mode;

	if (!memory_is_cuda()) {
		check_that(!posix_memalign(&host, ALIGN_BYTES, bytes),
			   "no memory for a buffer of %zu bytes", bytes);
		return host;
	}
	bytes += !bytes;
	mode = enter();
	check_ok(fake.calls.cuMemAlloc_v2(&memory, bytes));
	leave(mode);
	made = calloc(1, sizeof(*made));
	check(made);
	made->data = (char *)memory;
	made->bytes = bytes;
	pthread_mutex_lock(&cuda.lock);
	LIST_INSERT_HEAD(&cuda.allocations, made, next);
	pthread_mutex_unlock(&cuda.lock);
	return made->data;
}

/* The caller holds the lock; NULL = not GPU memory. */
static struct allocation *allocation_of(const void *memory)
{
	struct allocation *found;

	LIST_FOREACH(found, &cuda.allocations, next)
	if ((const char *)memory >= found->data &&
	    (const char *)memory < found->data + found->bytes)
		return found;
	return NULL;
}

bool memory_is_device(const void *memory)
{
	bool is;

	pthread_mutex_lock(&cuda.lock);
	is = allocation_of(memory);
	pthread_mutex_unlock(&cuda.lock);
	return is;
}

void *memory_view(const void *memory, size_t bytes)
{
	void *view;

	if (!memory_is_device(memory))
		return (void *)(uintptr_t)memory;
	view = fake.view(memory, bytes);
	check_that(view, "%zu bytes are more than were allocated", bytes);
	return view;
}

/* Removes the registrations of a comm, or of an allocation, from the list, and deregisters them. */
static void end_registrations(const struct allocation *allocation, const void *comm)
{
	struct registration *each;

	for (;;) {
		pthread_mutex_lock(&cuda.lock);
		LIST_FOREACH(each, &cuda.registrations, next)
		if (allocation ? each->data == allocation->data : each->comm == comm)
			break;
		if (each)
			LIST_REMOVE(each, next);
		pthread_mutex_unlock(&cuda.lock);
		if (!each)
			return;
		check_ok(driver_dereg_mr(each->net->driver, each->comm, each->mhandle));
		free(each);
	}
}

/* False: it is not GPU memory. */
static bool let_go(const void *memory)
{
	struct allocation *found;

	pthread_mutex_lock(&cuda.lock);
	found = allocation_of(memory);
	pthread_mutex_unlock(&cuda.lock);
	if (!found)
		return false;
	end_registrations(found, NULL);
	pthread_mutex_lock(&cuda.lock);
	LIST_REMOVE(found, next);
	pthread_mutex_unlock(&cuda.lock);
	free(found);
	return true;
}

void memory_forsake(void *memory)
{
	check(let_go(memory));
}

void memory_free(void *memory)
{
	int mode;

	if (!let_go(memory)) {
		free(memory);
		return;
	}
	mode = enter();
	check_ok(fake.calls.cuMemFree_v2((CUdeviceptr)memory));
	leave(mode);
}

/* The dma-buf of the whole pages around it, as NCCL exports it; closed after the registration. */
static int reg_dmabuf(struct test_net *net, void *comm, void *data, size_t bytes, void **mhandle)
{
	CUdeviceptr first = (CUdeviceptr)data / PAGE_BYTES * PAGE_BYTES;
	uint64_t offset = (CUdeviceptr)data - first;
	size_t whole = (offset + bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
	int fd = -1, mode = enter(), ret;

	check_ok(fake.calls.cuMemGetHandleForAddressRange(&fd, first, whole,
							  CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	leave(mode);
	ret = driver_reg_mr_dmabuf(net->driver, comm,
				   &(struct driver_region){ data, bytes, ANYNET_PTR_CUDA, offset,
							    fd },
				   mhandle);
	close(fd);
	return ret;
}

int memory_reg(struct test_net *net, void *comm, void *data, size_t bytes, void **mhandle)
{
	bool by_dmabuf = false;
	int ret;

	if (!memory_is_device(data))
		return driver_reg_mr(net->driver, comm, data, bytes, ANYNET_PTR_HOST, mhandle);
	if (net->props.ptr_support & ANYNET_PTR_DMABUF)
		by_dmabuf = __atomic_fetch_add(&cuda.turn, 1, __ATOMIC_RELAXED) % 2;
	bytes += !bytes; /* NCCL has no empty buffers */
	ret = by_dmabuf ? reg_dmabuf(net, comm, data, bytes, mhandle)
			: driver_reg_mr(net->driver, comm, data, bytes, ANYNET_PTR_CUDA, mhandle);
	memory_check_thread();
	return ret;
}

void *memory_mhandle(struct test_net *net, void *comm, const void *data, void *mhandle)
{
	const struct allocation *allocation;
	struct registration *each;

	if (mhandle || !memory_is_device(data))
		return mhandle;
	pthread_mutex_lock(&cuda.lock);
	allocation = allocation_of(data);
	LIST_FOREACH(each, &cuda.registrations, next)
	if (each->data == allocation->data && each->comm == comm)
		break;
	pthread_mutex_unlock(&cuda.lock);
	if (each)
		return each->mhandle;
	each = calloc(1, sizeof(*each));
	check(each);
	each->net = net;
	each->comm = comm;
	each->data = allocation->data;
	check_ok(memory_reg(net, comm, allocation->data, allocation->bytes, &each->mhandle));
	pthread_mutex_lock(&cuda.lock);
	LIST_INSERT_HEAD(&cuda.registrations, each, next);
	pthread_mutex_unlock(&cuda.lock);
	return each->mhandle;
}

void memory_leave(struct test_net *net, void *comm)
{
	(void)net;
	end_registrations(NULL, comm);
}

bool memory_is_offered(const struct test_net *net)
{
	return net->props.ptr_support & (ANYNET_PTR_CUDA | ANYNET_PTR_DMABUF);
}

void memory_net_opened(const struct test_net *net)
{
	if (!memory_is_cuda())
		return;
	need_cuda();
	if (!memory_is_offered(net))
		capture_allow_warn(); /* it is slow */
	__atomic_fetch_add(&cuda.nets, 1, __ATOMIC_RELAXED);
}

static bool is_clean(const struct fake_cuda_counts *counts)
{
	uint64_t gpus = (uint64_t)cuda.gpus;

	return counts->streams <= gpus * POOL_STREAMS && counts->pinned <= gpus * POOL_PINNED &&
	       counts->contexts <= 3 * gpus && !counts->registrations && !counts->waiting;
}

void memory_net_closed(void)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "GPU memory to be let go of");
	struct fake_cuda_counts counts;

	if (!memory_is_cuda())
		return;
	counts = memory_counts();
	check_that(!counts.misuses || cuda.allow_misuse, "CUDA was misused %lu times",
		   counts.misuses);
	if (__atomic_sub_fetch(&cuda.nets, 1, __ATOMIC_RELAXED))
		return;
	while (counts = memory_counts(), !is_clean(&counts))
		deadline_turn(&deadline);
}

void memory_allow_misuse(void)
{
	cuda.allow_misuse = true;
}

void memory_command(const char *script)
{
	need_cuda();
	check_int(fake.script(script), 0);
}

struct fake_cuda_counts memory_counts(void)
{
	struct fake_cuda_counts counts;

	need_cuda();
	fake.counts(&counts);
	return counts;
}

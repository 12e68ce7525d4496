/* SPDX-License-Identifier: Apache-2.0 */
/* Device and host memory: the records by address. A device pointer is a host pointer. */
#include "runtime.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The handle of a pool points to this. All memory has the same source. */
struct CUmemPoolHandle_st {
	uint64_t release_threshold;
};

struct free_op {
	struct op op;
	void *memory;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* no function is called with it */
static void *ranges;                                     /* a tree of tsearch(3), of struct range */
static size_t device_bytes;

/* Overlapping ranges compare equal: so the tree has none, and finds the range of an address. */
static int range_compare(const void *a_key, const void *b_key)
{
	const struct range *a = a_key, *b = b_key;

	if (a->start + a->bytes <= b->start)
		return -1;
	return b->start + b->bytes <= a->start;
}

/* With the lock held. */
static struct range *range_at(const void *start)
{
	struct range key = { .start = (char *)start, .bytes = 1 };
	struct range **found = tfind(&key, &ranges, range_compare);

	return found ? *found : NULL;
}

enum place range_find(const void *start, size_t bytes, struct range *found)
{
	enum place place = PLACE_PAGEABLE;
	const struct range *range;

	pthread_mutex_lock(&lock);
	range = range_at(start);
	if (range) {
		*found = *range;
		place = range->place;
		if (bytes > (size_t)(range->start + range->bytes - (const char *)start))
			place = PLACE_BROKEN;
	}
	pthread_mutex_unlock(&lock);
	return place;
}

static cudaError_t range_add(void *start, size_t bytes, enum place place)
{
	static unsigned long long ids; /* protected by the lock */
	struct range *range = malloc(sizeof(*range)), **found;
	cudaError_t ret = cudaErrorMemoryAllocation;

	if (!range)
		return ret;
	*range = (struct range){ .start = start, .bytes = bytes, .place = place };
	pthread_mutex_lock(&lock);
	range->id = ++ids;
	if (place != PLACE_DEVICE || bytes <= GPU_MEMORY_BYTES - device_bytes) {
		found = tsearch(range, &ranges, range_compare);
		if (found)
			ret = *found == range ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered;
	}
	if (!ret && place == PLACE_DEVICE)
		device_bytes += bytes;
	pthread_mutex_unlock(&lock);
	if (ret)
		free(range);
	return ret;
}

/* Returns its size, or 0 if no such range begins there. */
static size_t range_remove(const void *start, enum place place, bool leaving)
{
	struct range *range;
	size_t bytes = 0;

	pthread_mutex_lock(&lock);
	range = range_at(start);
	if (range && (range->start != start || range->place != place || range->leaving != leaving))
		range = NULL;
	if (range) {
		bytes = range->bytes;
		tdelete(range, &ranges, range_compare);
		if (place == PLACE_DEVICE)
			device_bytes -= bytes;
	}
	pthread_mutex_unlock(&lock);
	free(range);
	return bytes;
}

/* Moves the range from cudaFree to cudaFreeAsync, or back. */
static bool range_leave(const void *start, bool leaving)
{
	struct range *range;
	bool ok;

	pthread_mutex_lock(&lock);
	range = range_at(start);
	ok = range && range->start == start && range->place == PLACE_DEVICE &&
	     range->leaving != leaving;
	if (ok)
		range->leaving = leaving;
	pthread_mutex_unlock(&lock);
	return ok;
}

static cudaError_t memory_alloc(void **memory, size_t bytes, enum place place)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	cudaError_t ret;
	void *mapping;

	if (!memory)
		return cudaErrorInvalidValue;
	*memory = NULL;
	if (!bytes)
		return cudaSuccess;
	if (bytes > GPU_MEMORY_BYTES)
		return cudaErrorMemoryAllocation;
	bytes = (bytes + page - 1) / page * page;
	mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mapping == MAP_FAILED)
		return cudaErrorMemoryAllocation;
	ret = range_add(mapping, bytes, place);
	if (ret)
		munmap(mapping, bytes);
	else
		*memory = mapping;
	return ret;
}

static cudaError_t memory_free(void *memory, enum place place, bool leaving)
{
	size_t bytes = range_remove(memory, place, leaving);

	if (!bytes)
		return cudaErrorInvalidValue;
	munmap(memory, bytes);
	return cudaSuccess;
}

static void free_run(struct op *op)
{
	memory_free(((struct free_op *)op)->memory, PLACE_DEVICE, true);
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *total)
{
	if (!unused || !total)
		return report(cudaErrorInvalidValue);
	pthread_mutex_lock(&lock);
	*unused = GPU_MEMORY_BYTES - device_bytes;
	*total = GPU_MEMORY_BYTES;
	pthread_mutex_unlock(&lock);
	return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
	return report(memory_alloc(memory, bytes, PLACE_DEVICE));
}

/* As in CUDA, it waits for all possible users of the memory. */
cudaError_t cudaFree(void *memory)
{
	struct range range;

	if (!memory)
		return cudaSuccess;
	if (range_find(memory, 1, &range) != PLACE_DEVICE || range.start != memory || range.leaving)
		return report(cudaErrorInvalidValue);
	device_finish();
	return report(memory_free(memory, PLACE_DEVICE, false));
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
	if (flags &
	    ~(unsigned)(cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined))
		return report(cudaErrorInvalidValue);
	return report(memory_alloc(memory, bytes, PLACE_PINNED));
}

cudaError_t cudaFreeHost(void *memory)
{
	return memory ? report(memory_free(memory, PLACE_PINNED, false)) : cudaSuccess;
}

/* Unmapped memory cannot be pinned; msync(2) detects it. */
static bool is_mapped(const void *memory, size_t bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), address = (uintptr_t)memory;
	uintptr_t start = address / page * page;

	return address + bytes > address &&
	       !msync((void *)start, address + bytes - start, MS_ASYNC);
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags)
{
	if (!memory || !bytes ||
	    flags & ~(unsigned)(cudaHostRegisterPortable | cudaHostRegisterMapped) ||
	    !is_mapped(memory, bytes))
		return report(cudaErrorInvalidValue);
	return report(range_add(memory, bytes, PLACE_REGISTERED));
}

cudaError_t cudaHostUnregister(void *memory)
{
	if (!memory)
		return report(cudaErrorInvalidValue);
	return report(range_remove(memory, PLACE_REGISTERED, false)
			      ? cudaSuccess
			      : cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags)
{
	struct range range;
	enum place place;

	if (!device || !host || flags)
		return report(cudaErrorInvalidValue);
	place = range_find(host, 1, &range);
	if (place != PLACE_PINNED && place != PLACE_REGISTERED)
		return report(cudaErrorInvalidValue);
	*device = host;
	return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
	struct range range;

	if (!attributes)
		return report(cudaErrorInvalidValue);
	memset(attributes, 0, sizeof(*attributes));
	switch (range_find(pointer, 1, &range)) {
	case PLACE_DEVICE:
		attributes->type = cudaMemoryTypeDevice;
		attributes->devicePointer = (void *)pointer;
		break;
	case PLACE_PINNED:
	case PLACE_REGISTERED:
		attributes->type = cudaMemoryTypeHost;
		attributes->devicePointer = (void *)pointer;
		attributes->hostPointer = (void *)pointer;
		break;
	default:
		attributes->type = cudaMemoryTypeUnregistered;
		attributes->device = cudaInvalidDeviceId;
		attributes->hostPointer = (void *)pointer;
	}
	return cudaSuccess;
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *props)
{
	if (!pool || !props || props->allocType != cudaMemAllocationTypePinned)
		return report(cudaErrorInvalidValue);
	if (props->location.type != cudaMemLocationTypeDevice ||
	    props->handleTypes != cudaMemHandleTypeNone)
		return report(cudaErrorNotSupported);
	if (props->location.id)
		return report(cudaErrorInvalidDevice);
	*pool = calloc(1, sizeof(**pool));
	return report(*pool ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
	if (!pool)
		return report(cudaErrorInvalidValue);
	free(pool);
	return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
	if (!pool || !value)
		return report(cudaErrorInvalidValue);
	if (attribute != cudaMemPoolAttrReleaseThreshold)
		return report(cudaErrorNotSupported);
	memcpy(&pool->release_threshold, value, sizeof(pool->release_threshold));
	return cudaSuccess;
}

/* The memory is available at once, which is earlier than necessary. */
cudaError_t cudaMallocFromPoolAsync(void **memory, size_t bytes, cudaMemPool_t pool,
				    cudaStream_t stream)
{
	unsigned long long id;
	cudaError_t ret;

	if (!pool)
		return report(cudaErrorInvalidValue);
	ret = cudaStreamGetId(stream, &id);
	return ret ? ret : report(memory_alloc(memory, bytes, PLACE_DEVICE));
}

cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream)
{
	struct free_op *op;
	cudaError_t ret;

	if (!range_leave(memory, true))
		return report(cudaErrorInvalidValue);
	op = op_new(sizeof(*op), free_run);
	if (op)
		op->memory = memory;
	ret = stream_push(stream, &op->op);
	if (ret)
		range_leave(memory, false);
	return report(ret);
}

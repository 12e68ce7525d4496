/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory. A device allocation is a memfd that is mapped twice: at the address that callers get no processor may access
 * it, and a freed range stays inaccessible; the library itself uses the view.
 */
#include "fake.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* CUDA places small allocations side by side, so they do not start on page boundaries. */
#define ALIGN_BYTES 512u
#define LARGE_BYTES ((size_t)1 << 20)

#define POISON 0xa5 /* in fresh pinned memory */

struct allocation *allocation_at(uintptr_t at, size_t bytes, bool device)
{
	struct allocation *found;

	LIST_FOREACH(found, &fake.allocations, next)
	if (found->device == device && !found->freed && at >= found->at &&
	    at - found->at <= found->bytes && bytes <= found->bytes - (at - found->at) &&
	    (bytes || at - found->at < found->bytes))
		return found;
	return NULL;
}

char *allocation_view(const struct allocation *allocation, uintptr_t at)
{
	return allocation->view + (at - (uintptr_t)allocation->shown);
}

static struct allocation *allocation_add(size_t bytes, bool device)
{
	struct allocation *made = calloc(1, sizeof(*made));

	if (!made)
		return NULL;
	made->context = context_current();
	made->bytes = bytes;
	made->device = device;
	made->id = ++fake.allocated;
	LIST_INSERT_HEAD(&fake.allocations, made, next);
	return made;
}

static void allocation_forget(struct allocation *allocation)
{
	LIST_REMOVE(allocation, next);
	free(allocation);
}

static int map_device(struct allocation *allocation, size_t skew)
{
	size_t mapped = (skew + allocation->bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
	int fd = memfd_create("gpu", MFD_CLOEXEC);
	void *shown, *view;

	if (fd < 0)
		return -1;
	view = shown = MAP_FAILED;
	if (!ftruncate(fd, (off_t)mapped)) {
		view = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		shown = mmap(NULL, mapped, PROT_NONE, MAP_SHARED, fd, 0);
	}
	close(fd);
	if (view == MAP_FAILED || shown == MAP_FAILED) {
		if (view != MAP_FAILED)
			munmap(view, mapped);
		if (shown != MAP_FAILED)
			munmap(shown, mapped);
		return -1;
	}
	allocation->mapped = mapped;
	allocation->view = view;
	allocation->shown = shown;
	allocation->at = (uintptr_t)shown + skew;
	return 0;
}

/* The addresses are not reused. */
static void close_addresses(const struct allocation *allocation)
{
	if (mmap(allocation->shown, allocation->mapped, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		abort();
}

void allocation_drop(struct allocation *allocation)
{
	munmap(allocation->view, allocation->mapped);
	allocation_forget(allocation);
}

CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes)
{
	static unsigned count;
	CUresult ret = call_begin("cuMemAlloc", CONTEXT | UNSAFE);
	struct allocation *made;
	size_t skew = bytes < LARGE_BYTES ? ++count % (PAGE_BYTES / ALIGN_BYTES) * ALIGN_BYTES : 0;

	if (!ret && !bytes)
		ret = CUDA_ERROR_INVALID_VALUE;
	if (ret)
		return call_end(ret);
	made = allocation_add(bytes, true);
	if (made && map_device(made, skew)) {
		allocation_forget(made);
		made = NULL;
	}
	if (made) {
		*memory = made->at;
		fake.counts.allocations++;
		fake.counts.device_bytes += bytes;
	}
	return call_end(made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

/* Freeing memory that a stream still uses is reported; the last copies are not performed. */
static void check_unused(const struct allocation *allocation)
{
	if (copies_touch(allocation->at, allocation->bytes))
		misuse(CUDA_ERROR_INVALID_VALUE, "a copy from or to this memory is not done");
	if (allocation->pins)
		misuse(CUDA_ERROR_INVALID_VALUE, "an adapter has this memory registered");
}

static void free_device(struct allocation *allocation)
{
	check_unused(allocation);
	fake.counts.allocations--;
	fake.counts.device_bytes -= allocation->bytes;
	allocation->freed = true;
	close_addresses(allocation);
	dmabufs_forget(allocation);
	if (!allocation->pins)
		allocation_drop(allocation);
}

static void free_host(struct allocation *allocation)
{
	check_unused(allocation);
	fake.counts.pinned--;
	fake.counts.pinned_bytes -= allocation->bytes;
	if (!allocation->registered)
		free((void *)allocation->at);
	allocation_forget(allocation);
}

CUresult cuMemFree_v2(CUdeviceptr memory)
{
	CUresult ret = call_begin("cuMemFree", CONTEXT | UNSAFE);
	struct allocation *found;

	if (!ret && fake.busy && fake.locks)
		fake_wait_idle(context_current());
	if (!ret && memory) {
		found = allocation_at(memory, 0, true);
		if (found && found->at == memory)
			free_device(found);
		else
			ret = misuse(CUDA_ERROR_INVALID_VALUE, "%#lx is not allocated", memory);
	}
	return call_end(ret);
}

static CUresult host_add(const char *name, void **memory, size_t bytes, unsigned flags,
			 bool registered)
{
	CUresult ret = call_begin(name, CONTEXT | UNSAFE);
	struct allocation *made;

	if (!ret && (!bytes || flags > 7))
		ret = CUDA_ERROR_INVALID_VALUE;
	if (ret)
		return call_end(ret);
	if (!registered)
		*memory = aligned_alloc(PAGE_BYTES,
					(bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1));
	made = *memory ? allocation_add(bytes, false) : NULL;
	if (!made)
		return call_end(CUDA_ERROR_OUT_OF_MEMORY);
	made->at = (uintptr_t)*memory;
	made->registered = registered;
	memset(*memory, POISON, bytes);
	fake.counts.pinned++;
	fake.counts.pinned_bytes += bytes;
	return call_end(CUDA_SUCCESS);
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
	return host_add("cuMemHostAlloc", memory, bytes, flags, false);
}

/* The memory stays the caller's. It is private memory of the process, which CUDA knows until then, or until its context
 * ends. */
CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
	return host_add("cuMemHostRegister", &memory, bytes, flags, true);
}

static CUresult host_free(const char *name, void *memory, bool registered)
{
	CUresult ret = call_begin(name, CONTEXT | UNSAFE);
	struct allocation *found = allocation_at((uintptr_t)memory, 0, false);

	if (!ret && found && found->at == (uintptr_t)memory && found->registered == registered)
		free_host(found);
	else if (!ret)
		ret = misuse(CUDA_ERROR_INVALID_VALUE, "%p is not such memory", memory);
	return call_end(ret);
}

CUresult cuMemFreeHost(void *memory)
{
	return host_free("cuMemFreeHost", memory, false);
}

CUresult cuMemHostUnregister(void *memory)
{
	return host_free("cuMemHostUnregister", memory, true);
}

/* Everything left in a context is freed with it. */
void allocations_end(const struct fake_context *context)
{
	struct allocation *each, *next;

	for (each = LIST_FIRST(&fake.allocations); each; each = next) {
		next = LIST_NEXT(each, next);
		if (each->context != context || each->freed)
			continue;
		if (each->device)
			free_device(each);
		else
			free_host(each);
	}
}

CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr pointer)
{
	CUresult ret = call_begin("cuPointerGetAttribute", INIT);
	const struct allocation *found;

	if (ret)
		return call_end(ret);
	found = allocation_at(pointer, 0, true);
	if (!found)
		found = allocation_at(pointer, 0, false);
	if (!found)
		ret = CUDA_ERROR_INVALID_VALUE;
	else if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
		*(unsigned *)data = found->device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	else if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID)
		*(uint64_t *)data = found->id;
	else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
		*(int *)data = found->context->device;
	else
		ret = misuse(CUDA_ERROR_INVALID_VALUE, "attribute %d is not in the fake",
			     attribute);
	return call_end(ret);
}

void *fake_cuda_view(const void *device, size_t bytes)
{
	const struct allocation *found;
	char *view = NULL;

	fake_lock();
	found = allocation_at((uintptr_t)device, bytes, true);
	if (found)
		view = allocation_view(found, (uintptr_t)device);
	fake_unlock();
	return view;
}

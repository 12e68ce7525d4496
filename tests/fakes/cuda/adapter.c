/* SPDX-License-Identifier: Apache-2.0 */
/* Access of network adapters to device memory: pinned ranges, dma-bufs, flushes. */
#include "fake.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void (*on_flush)(void);

/* As with a GPU's pages, which are larger than the host's, whole pages of an allocation are available. */
static struct allocation *pages_at(uintptr_t at, size_t bytes)
{
	struct allocation *found;

	LIST_FOREACH(found, &fake.allocations, next)
	if (found->device && !found->freed && at - (uintptr_t)found->shown < found->mapped &&
	    bytes <= found->mapped - (at - (uintptr_t)found->shown))
		return found;
	return NULL;
}

static void *pin(struct allocation *allocation, uintptr_t at)
{
	if (!allocation)
		return NULL;
	allocation->pins++;
	fake.counts.registrations++;
	return allocation_view(allocation, at);
}

void *fake_cuda_pin(const void *device, size_t bytes)
{
	void *view;

	fake_lock();
	view = pin(pages_at((uintptr_t)device, bytes), (uintptr_t)device);
	fake_unlock();
	return view;
}

void fake_cuda_unpin(const void *view)
{
	uintptr_t at = (uintptr_t)view;
	struct allocation *found;

	fake_lock();
	LIST_FOREACH(found, &fake.allocations, next)
	if (found->pins && at - (uintptr_t)found->view < found->mapped)
		break;
	if (found) {
		fake.counts.registrations--;
		if (!--found->pins && found->freed)
			allocation_drop(found);
	}
	fake_unlock();
}

static CUresult handle_refusal(CUdeviceptr memory, size_t bytes)
{
	const struct allocation *found = pages_at(memory, bytes);

	if (!bytes || memory % PAGE_BYTES || bytes % PAGE_BYTES)
		return misuse(CUDA_ERROR_INVALID_VALUE, "the range is not one of whole pages");
	if (!found)
		return misuse(CUDA_ERROR_INVALID_VALUE,
			      "%zu bytes at %#lx are not within an allocation", bytes, memory);
	return fake.devices[found->context->device].dmabuf ? CUDA_SUCCESS
							   : CUDA_ERROR_NOT_SUPPORTED;
}

/* Returns the descriptor, or -1. Each export is a separate dma-buf, as with nv_dma_buf_export (NVIDIA's
 * open-gpu-kernel-modules, kernel-open/nvidia/nv-dmabuf.c). */
static int dmabuf_add(uintptr_t at, size_t bytes)
{
	struct dmabuf *made = calloc(1, sizeof(*made));
	int fd = memfd_create("dmabuf", MFD_CLOEXEC);
	struct stat stat;

	if (!made || fd < 0 || ftruncate(fd, (off_t)bytes) || fstat(fd, &stat)) {
		free(made);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	made->inode = stat.st_ino;
	made->allocation = pages_at(at, bytes);
	made->at = at;
	made->bytes = bytes;
	LIST_INSERT_HEAD(&fake.dmabufs, made, next);
	fake.counts.dmabufs++;
	return fd;
}

/* A driver before 12.8 has no flags. */
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr memory, size_t bytes, int type,
				       unsigned long long flags)
{
	CUresult ret = call_begin("cuMemGetHandleForAddressRange", CONTEXT);

	if (!ret &&
	    (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags > (fake.version >= 12080)))
		ret = CUDA_ERROR_INVALID_VALUE;
	if (!ret)
		ret = handle_refusal(memory, bytes);
	if (!ret) {
		*(int *)handle = dmabuf_add(memory, bytes);
		ret = *(int *)handle < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
		fake.counts.dmabufs_by_pcie += !ret && flags;
	}
	return call_end(ret);
}

void *fake_cuda_pin_dmabuf(int fd, uint64_t offset, size_t bytes)
{
	const struct dmabuf *found = NULL;
	struct stat stat;
	void *view = NULL;

	fake_lock();
	if (!fstat(fd, &stat))
		LIST_FOREACH(found, &fake.dmabufs, next)
	if (found->inode == stat.st_ino)
		break;
	if (found && offset <= found->bytes && bytes <= found->bytes - offset)
		view = pin(found->allocation, found->at + offset);
	fake_unlock();
	return view;
}

void dmabufs_forget(const struct allocation *allocation)
{
	struct dmabuf *each, *next;

	for (each = LIST_FIRST(&fake.dmabufs); each; each = next) {
		next = LIST_NEXT(each, next);
		if (each->allocation != allocation)
			continue;
		LIST_REMOVE(each, next);
		free(each);
	}
}

void fake_cuda_on_flush(void (*flush)(void))
{
	fake_lock();
	on_flush = flush;
	fake_unlock();
}

/* Adapters request views while they hold locks of their own: so they are called without the lock. */
CUresult cuFlushGPUDirectRDMAWrites(int target, int scope)
{
	CUresult ret = call_begin("cuFlushGPUDirectRDMAWrites", CONTEXT);
	void (*flush)(void) = on_flush;

	if (!ret && (target != CU_FLUSH_TARGET_CURRENT_CTX ||
		     (scope != CU_FLUSH_TO_OWNER && scope != CU_FLUSH_TO_ALL_DEVICES)))
		ret = CUDA_ERROR_INVALID_VALUE;
	if (!ret)
		fake.counts.flushes++;
	call_end(ret);
	if (!ret && flush)
		flush();
	return ret;
}

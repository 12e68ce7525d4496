/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory. Where it is is known to a fake libcuda.so.1 (tests/fakes/cuda), if one is loaded, which also
 * gives the view that an adapter has of it.
 *
 * With "unflushed", what adapters write to GPU memory is not seen there before something has been read
 * from GPU memory by an adapter, or CUDA has flushed, which is what real ones need. So it is always by an adapter's
 * Data Direct engine (ConnectX-8): data goes by its own PCI function, completions by another way (NCCL
 * src/graph/paths.cc:588@v2.30.7).
 *
 * With "lossy" it never is, and with "unreadable" READs of it fail: so it is where PCI bridges send what is for another
 * device upwards (Access Control Services), and nothing there takes it. WRITEs are posted, nobody hears
 * of them (NVIDIA's documents on GPUDirect RDMA and NCCL's on troubleshooting tell of ACS).
 */
#include "fake.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* As in tests/fakes/cuda/fake_cuda.h. */
static void *(*cuda_pin)(const void *device, size_t bytes);
static void *(*cuda_view)(const void *device, size_t bytes);
static void *(*cuda_pin_dmabuf)(int fd, uint64_t offset, size_t bytes);
static void (*cuda_unpin)(const void *view);

/* Written, and not visible yet. */
struct late_write {
	STAILQ_ENTRY(late_write) next;
	char *to;
	size_t bytes;
	char data[];
};

static STAILQ_HEAD(, late_write) late_writes = STAILQ_HEAD_INITIALIZER(late_writes);

int gpu_set(char *words)
{
	const char *word;

	fake.peer_memory = fake.unflushed = fake.lossy = fake.unreadable = false;
	while ((word = strtok_r(words, " \t", &words))) {
		if (!strcmp(word, "peer-memory"))
			fake.peer_memory = true;
		else if (!strcmp(word, "unflushed"))
			fake.unflushed = true;
		else if (!strcmp(word, "lossy"))
			fake.lossy = true;
		else if (!strcmp(word, "unreadable"))
			fake.unreadable = true;
		else
			return -EINVAL;
	}
	gpu_show();
	return 0;
}

static bool find(void *lib, const char *name, void *function)
{
	void *symbol = dlsym(lib, name);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol;
}

static void flush_by_cuda(void)
{
	fake_lock();
	gpu_show();
	fake_unlock();
}

static bool cuda_is_there(void)
{
	void (*call_on_flush)(void (*flush)(void));
	void *lib;

	if (cuda_unpin)
		return true;
	lib = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD); /* it stays */
	if (!lib || !find(lib, "fake_cuda_pin", &cuda_pin) ||
	    !find(lib, "fake_cuda_view", &cuda_view) ||
	    !find(lib, "fake_cuda_pin_dmabuf", &cuda_pin_dmabuf) ||
	    !find(lib, "fake_cuda_on_flush", &call_on_flush) ||
	    !find(lib, "fake_cuda_unpin", &cuda_unpin))
		return false;
	call_on_flush(flush_by_cuda);
	return true;
}

int gpu_pin(void *addr, size_t bytes, char **view)
{
	*view = cuda_is_there() ? cuda_pin(addr, bytes) : NULL;
	if (!*view || fake.peer_memory)
		return 0;
	cuda_unpin(*view);
	*view = NULL;
	return EFAULT;
}

char *gpu_pin_dmabuf(int fd, uint64_t offset, size_t bytes)
{
	return cuda_is_there() ? cuda_pin_dmabuf(fd, offset, bytes) : NULL;
}

void gpu_unpin(const char *view)
{
	gpu_show();
	cuda_unpin(view);
}

bool gpu_is_freed(const void *addr)
{
	return !cuda_view(addr, 1);
}

/* The registration of GPU memory that contains `at`; NULL: it is not GPU memory. */
static const struct fake_mr *mr_of_gpu(const char *at)
{
	const struct fake_mr *mr;

	LIST_FOREACH(mr, &fake.mrs, next)
	if (mr->kind != MEMORY_HOST && at >= mr->memory && at < mr->memory + mr->mr.length)
		return mr;
	return NULL;
}

bool gpu_refuses_read(const char *from)
{
	return fake.unreadable && mr_of_gpu(from);
}

bool gpu_write(char *to, const char *from, size_t bytes)
{
	const struct fake_mr *mr = mr_of_gpu(to);
	struct late_write *write;

	if (mr && fake.lossy)
		return true;
	if (!mr || !(fake.unflushed || mr->direct))
		return false;
	write = malloc(sizeof(*write) + bytes);
	if (!write)
		abort();
	write->to = to;
	write->bytes = bytes;
	memcpy(write->data, from, bytes);
	STAILQ_INSERT_TAIL(&late_writes, write, next);
	return true;
}

void gpu_read(const struct span *spans, int count)
{
	for (int i = 0; i < count && !STAILQ_EMPTY(&late_writes); i++)
		if (spans[i].bytes && mr_of_gpu(spans[i].at))
			gpu_show();
}

void gpu_show(void)
{
	struct late_write *write;

	while ((write = STAILQ_FIRST(&late_writes))) {
		STAILQ_REMOVE_HEAD(&late_writes, next);
		dma_store(write->to, write->data, write->bytes);
		free(write);
	}
}

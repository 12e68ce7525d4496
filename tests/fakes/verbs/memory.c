/* SPDX-License-Identifier: Apache-2.0 */
/* Protection domains, memory regions, and copies between them. */
#include "fake.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

#define ACCESS_KNOWN                                                                            \
	((unsigned)(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		    IBV_ACCESS_REMOTE_ATOMIC) |                                                 \
	 IBV_ACCESS_OPTIONAL_RANGE)
#define ACCESS_WRITES (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct fake_pd *pd = NULL;

	fake_lock();
	errno = fault_call("alloc_pd", context->device);
	if (!errno)
		pd = calloc(1, sizeof(*pd));
	if (pd) {
		pd->pd.context = context;
		context_of(context)->users++;
		fake.counts.pds++;
	}
	fake_unlock();
	return pd ? &pd->pd : NULL;
}

int ibv_dealloc_pd(struct ibv_pd *ibv_pd)
{
	struct fake_pd *pd = (struct fake_pd *)(void *)ibv_pd;
	int ret = call_begin("dealloc_pd", ibv_pd->context->device);

	if (!ret && pd->users)
		ret = EBUSY;
	if (!ret) {
		context_of(ibv_pd->context)->users--;
		fake.counts.pds--;
		free(pd);
	}
	fake_unlock();
	return ret;
}

/* Pins the pages: they exist, and are writable if the region says so. */
static int touch(void *addr, size_t bytes, bool write)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)addr & ~(page - 1);
	size_t whole = ((uintptr_t)addr + bytes - from + page - 1) & ~(page - 1);

	if (!bytes || !madvise((char *)addr - ((uintptr_t)addr - from), whole,
			       write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return 0;
	if (errno == EINVAL && madvise(NULL, 0, MADV_POPULATE_READ))
		return 0; /* the kernel cannot tell */
	return errno == ENOMEM ? ENOMEM : EFAULT;
}

static bool is_whole(const void *addr, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (uintptr_t)addr % page == 0 && bytes % page == 0;
}

/* The whole range of a registration. */
static bool is_mapped(const struct ibv_mr *mr)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *first = (char *)mr->addr - (uintptr_t)mr->addr % page;

	return !mr->length ||
	       !madvise(first, (size_t)((char *)mr->addr - first) + mr->length, MADV_NORMAL) ||
	       errno != ENOMEM;
}

static int mr_refusal(const struct ibv_pd *pd, size_t bytes, unsigned access)
{
	int ret = fault_call("reg_mr", pd->context->device);

	if (ret)
		return ret;
	if (access & ~ACCESS_KNOWN)
		return access & IBV_ACCESS_ON_DEMAND ? EOPNOTSUPP : EINVAL;
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	if (fake.counts.bytes_pinned + bytes > fake.memlock)
		return ENOMEM;
	return 0;
}

static struct fake_mr *fake_mr_of(struct ibv_mr *mr)
{
	return (struct fake_mr *)(void *)mr;
}

/* With the lock. */
static struct ibv_mr *mr_add(struct ibv_pd *pd, void *addr, size_t bytes, uint64_t iova,
			     unsigned access)
{
	struct fake_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->mr = (struct ibv_mr){ .context = pd->context, .pd = pd, .addr = addr, .length = bytes };
	/* In real keys the low byte belongs to the application; the two keys differ, as they may. */
	mr->mr.lkey = ++fake.next_key << 9;
	mr->mr.rkey = mr->mr.lkey | 0x100;
	mr->mr.handle = fake.next_key;
	mr->iova = iova;
	mr->access = access;
	mr->memory = addr;
	LIST_INSERT_HEAD(&fake.mrs, mr, next);
	((struct fake_pd *)(void *)pd)->users++;
	fake.counts.mrs++;
	fake.counts.registrations++;
	fake.counts.bytes_pinned += bytes;
	return &mr->mr;
}

static struct ibv_mr *reg(struct ibv_pd *pd, void *addr, size_t bytes, uint64_t iova,
			  unsigned access)
{
	struct ibv_mr *mr = NULL;
	char *view = NULL;
	int ret = 0;

	fake_lock();
	ret = mr_refusal(pd, bytes, access);
	if (!ret)
		ret = gpu_pin(addr, bytes, &view);
	if (!ret && !view)
		ret = touch(addr, bytes, access & ACCESS_WRITES);
	if (!ret)
		mr = mr_add(pd, addr, bytes, iova, access);
	if (mr)
		fake.counts.ragged += !is_whole(addr, bytes);
	if (mr && view) {
		fake_mr_of(mr)->memory = view;
		fake_mr_of(mr)->kind = MEMORY_PEER;
	}
	fake_unlock();
	fault_sleep();
	if (!mr)
		errno = ret ? ret : ENOMEM;
	return mr;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	return reg(pd, addr, length, iova, access);
}

/* Pages of the dma-buf are mapped to pages of addresses, and all of it has to exist. */
static int dmabuf_refusal(int fd, uint64_t offset, size_t length, uint64_t iova)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct stat stat;

	if (fstat(fd, &stat))
		return errno;
	if (!length || offset % page != iova % page || offset > (uint64_t)stat.st_size ||
	    length > (uint64_t)stat.st_size - offset)
		return EINVAL;
	return 0;
}

/* With the lock. 0 or errno. */
static int dmabuf_add(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
		      unsigned access, struct ibv_mr **mr)
{
	size_t before = (size_t)(offset % (uint64_t)sysconf(_SC_PAGESIZE));
	char *memory = gpu_pin_dmabuf(fd, offset, length), *mapped = NULL;

	if (!memory) {
		mapped = mmap(NULL, before + length, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			      (off_t)(offset - before));
		if (mapped == MAP_FAILED)
			return errno;
		memory = mapped + before;
	}
	*mr = mr_add(pd, memory, length, iova, access);
	if (!*mr)
		return ENOMEM;
	(*mr)->addr = NULL;
	fake_mr_of(*mr)->kind = mapped ? MEMORY_MAPPED : MEMORY_DMABUF;
	fake_mr_of(*mr)->mapped = mapped;
	fake_mr_of(*mr)->mapped_bytes = before + length;
	return 0;
}

static struct ibv_mr *reg_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access, bool direct)
{
	const struct fake_device *device = device_of(pd->context);
	struct ibv_mr *mr = NULL;
	int ret;

	fake_lock();
	ret = device->dmabuf ? fault_call("reg_dmabuf_mr", &device->device) : EOPNOTSUPP;
	if (!ret)
		ret = mr_refusal(pd, length, (unsigned)access);
	if (!ret)
		ret = dmabuf_refusal(fd, offset, length, iova);
	if (!ret)
		ret = dmabuf_add(pd, offset, length, iova, fd, (unsigned)access, &mr);
	if (mr && direct) {
		fake_mr_of(mr)->direct = true;
		fake.counts.direct++;
	}
	fake_unlock();
	if (!mr)
		errno = ret;
	return mr;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	return reg_dmabuf(pd, offset, length, iova, fd, access, false);
}

/* That of libmlx5 in rdma-core 56; for a device without an engine the kernel refuses it. */
struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access, int mlx5_access);
struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access, int mlx5_access)
{
	bool direct = mlx5_access & 1; /* MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT */

	if (mlx5_access & ~1 || (direct && !*device_of(pd->context)->data_direct)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return reg_dmabuf(pd, offset, length, iova, fd, access, direct);
}

int mlx5dv_get_data_direct_sysfs_path(struct ibv_context *context, char *path, size_t bytes);
int mlx5dv_get_data_direct_sysfs_path(struct ibv_context *context, char *path, size_t bytes)
{
	const char *engine = device_of(context)->data_direct;

	if (!*engine)
		return ENODEV;
	if (strlen(engine) >= bytes)
		return ENOSPC;
	strcpy(path, engine);
	return 0;
}

int ibv_dereg_mr(struct ibv_mr *ibv_mr)
{
	struct fake_mr *mr = fake_mr_of(ibv_mr);
	int ret = call_begin("dereg_mr", ibv_mr->context->device);

	if (!ret) {
		if (mr->kind != MEMORY_HOST)
			gpu_show(); /* while there is room for it */
		else
			fake.counts.orphans += !is_mapped(ibv_mr);
		LIST_REMOVE(mr, next);
		((struct fake_pd *)(void *)ibv_mr->pd)->users--;
		fake.counts.mrs--;
		fake.counts.bytes_pinned -= ibv_mr->length;
		if (mr->kind == MEMORY_MAPPED)
			munmap((void *)(uintptr_t)mr->mapped, mr->mapped_bytes);
		if (mr->kind == MEMORY_DMABUF || mr->kind == MEMORY_PEER)
			gpu_unpin(mr->memory);
		free(mr);
	}
	fake_unlock();
	return ret;
}

struct fake_mr *mr_find(uint32_t key, const struct ibv_pd *pd)
{
	struct fake_mr *mr;

	LIST_FOREACH(mr, &fake.mrs, next)
	if (mr->mr.pd == pd && (mr->mr.lkey == key || mr->mr.rkey == key))
		return mr;
	return NULL;
}

char *mr_range(const struct fake_mr *mr, uint64_t addr, uint64_t bytes)
{
	uint64_t offset = addr - mr->iova;

	if (addr < mr->iova || offset > mr->mr.length || bytes > mr->mr.length - offset)
		return NULL;
	if (mr->kind == MEMORY_PEER && gpu_is_freed((const char *)mr->mr.addr + offset))
		return NULL;
	return mr->memory + offset;
}

bool spans_resolve(const struct ibv_sge *sges, int count, const struct ibv_pd *pd, unsigned access,
		   struct span *spans)
{
	for (int i = 0; i < count; i++) {
		const struct fake_mr *mr;

		spans[i] = (struct span){ .at = NULL, .bytes = sges[i].length };
		if (!sges[i].length)
			continue;
		mr = mr_find(sges[i].lkey, pd);
		if (!mr || mr->mr.lkey != sges[i].lkey || (mr->access & access) != access)
			return false;
		spans[i].at = mr_range(mr, sges[i].addr, sges[i].length);
		if (!spans[i].at)
			return false;
	}
	return true;
}

uint64_t spans_bytes(const struct span *spans, int count)
{
	uint64_t bytes = 0;

	for (int i = 0; i < count; i++)
		bytes += spans[i].bytes;
	return bytes;
}

typedef uint64_t __attribute__((may_alias)) word;
typedef uint32_t __attribute__((may_alias)) half;
static_assert(sizeof(word) == WORD_BYTES, "a word is what comes at once");

/* The largest of word, half and byte that fits and is aligned; returns its size. */
__attribute__((no_sanitize("thread"))) static size_t store_one(char *to, const char *from,
							       size_t bytes)
{
	word whole;
	half part;

	if (bytes >= sizeof(whole) && !((uintptr_t)to % sizeof(whole))) {
		__builtin_memcpy(&whole, from, sizeof(whole));
		__atomic_store_n((word *)(void *)to, whole, __ATOMIC_RELEASE);
		return sizeof(whole);
	}
	if (bytes >= sizeof(part) && !((uintptr_t)to % sizeof(part))) {
		__builtin_memcpy(&part, from, sizeof(part));
		__atomic_store_n((half *)(void *)to, part, __ATOMIC_RELEASE);
		return sizeof(part);
	}
	__atomic_store_n(to, *from, __ATOMIC_RELEASE);
	return 1;
}

/*
 * Stores as an adapter mostly does: in ascending order, aligned words at once, so that a poller may rely on the last
 * word (but see dma_copy_end). Hidden from ThreadSanitizer, which does not know how applications synchronise with DMA.
 */
void dma_store(char *to, const char *from, size_t bytes)
{
	for (size_t done = 0; done < bytes;)
		done += store_one(to + done, from + done, bytes - done);
}

void dma_copy(const struct span *to, const struct span *from, uint64_t bytes)
{
	size_t to_done = 0, from_done = 0;

	while (bytes) {
		size_t part = to->bytes - to_done;

		if (part > from->bytes - from_done)
			part = from->bytes - from_done;
		if (part > bytes)
			part = (size_t)bytes;
		if (part && !gpu_write(to->at + to_done, from->at + from_done, part))
			dma_store(to->at + to_done, from->at + from_done, part);
		bytes -= part;
		to_done += part;
		from_done += part;
		if (to_done == to->bytes) {
			to++;
			to_done = 0;
		}
		if (from_done == from->bytes) {
			from++;
			from_done = 0;
		}
	}
}

/* An adapter may also begin at the end. */
void dma_copy_end(char *to, const struct span *from, uint64_t bytes)
{
	size_t end = ((uintptr_t)to + bytes - 1) % WORD_BYTES + 1, at = (size_t)bytes - end;
	char last[WORD_BYTES];

	for (size_t i = 0; i < end; i++, at++) {
		while (at >= from->bytes)
			at -= (from++)->bytes;
		last[i] = from->at[at];
	}
	if (!gpu_write(to + bytes - end, last, end))
		dma_store(to + bytes - end, last, end);
}

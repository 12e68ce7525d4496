/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of memory registrations; see ib_mr.h. */
#include "memory/ib_mr.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <search.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <nccl_net/log.h>
#include <nccl_net/util.h>

#include "base/libc_text.h"
#include "base/pinned.h"
#include "device/ib_port.h"

struct ib_mr_cache {
	const struct verbs *verbs;
	struct ibv_pd *pd;
	bool relaxed_ordering;
	uintptr_t in_page; /* page size - 1 */
	atomic_flag told;  /* a failed deregistration has been logged */

	pthread_mutex_t lock; /* protects `tree` and the `refs` of its entries */
	void *tree;           /* pointers to struct ib_mr, by key (tsearch) */
};

#define DMABUF 0x100u /* in the flags of a key, beside IB_MR_*: registered by a dma-buf */

struct request {
	struct ib_mr_key key;
	uint64_t offset; /* of the page of key.first in the dma-buf `fd` */
	int fd;
};

static bool is_dmabuf(const struct request *req)
{
	return req->key.flags & DMABUF;
}

/* The address of the first page. */
static uintptr_t page_of(const struct ib_mr_cache *cache, const struct ib_mr_key *key)
{
	return key->first & ~cache->in_page;
}

/* Bytes of the pages. */
static size_t span(const struct ib_mr_cache *cache, const struct ib_mr_key *key)
{
	return (key->last | cache->in_page) - page_of(cache, key) + 1;
}

static_assert(sizeof(struct ib_mr_key) == 5 * sizeof(uint64_t), "no padding, for memcmp");

static int compare_keys(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct ib_mr_key));
}

static unsigned access_of(uint64_t flags, bool relaxed)
{
	return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
	       (flags & IB_MR_READ ? IBV_ACCESS_REMOTE_READ : 0) |
	       (relaxed ? IBV_ACCESS_RELAXED_ORDERING : 0);
}

/* NULL = failed, with errno. */
static struct ibv_mr *try_register(const struct ib_mr_cache *cache, const struct request *req,
				   bool relaxed)
{
	unsigned access = access_of(req->key.flags, relaxed);
	uintptr_t addr = page_of(cache, &req->key);
	size_t bytes = span(cache, &req->key);

	errno = 0;
	if (is_dmabuf(req))
		return cache->verbs->reg_dmabuf_mr(cache->pd, req->offset, bytes, addr, req->fd,
						   (int)access);
	if (relaxed)
		return cache->verbs->reg_mr_iova2(cache->pd, (void *)addr, bytes, addr, access);
	return cache->verbs->reg_mr(cache->pd, (void *)addr, bytes, (int)access);
}

/* Can the access flags be the cause of this error? */
static bool refuses_access(int error)
{
	return error == EINVAL || error == EOPNOTSUPP || error == EPROTONOSUPPORT ||
	       error == ENOSYS;
}

static int register_pages(struct ib_mr_cache *cache, const struct request *req, struct ib_mr *mr)
{
	bool relaxed = cache->relaxed_ordering;
	struct ibv_mr *verbs_mr = try_register(cache, req, relaxed);

	if (!verbs_mr && relaxed && refuses_access(errno))
		verbs_mr = try_register(cache, req, false);
	if (!verbs_mr) /* not -EAGAIN: callers would try again */
		return errno == EAGAIN ? -ENOMEM : errno ? -errno : -EIO;
	*mr = (struct ib_mr){
		.key = req->key,
		.lkey = verbs_mr->lkey,
		.rkey = verbs_mr->rkey,
		.cache = cache,
		.verbs_mr = verbs_mr,
		.refs = 1,
	};
	return 0;
}

static void deregister(struct ib_mr *mr)
{
	struct ib_mr_cache *cache = mr->cache;
	int error = cache->verbs->dereg_mr(mr->verbs_mr);

	/* Logged once: a removed device refuses every deregistration. */
	if (error && !atomic_flag_test_and_set(&cache->told))
		anynet_warn("dev %s: cannot deregister %zu bytes at %#lx, which stay registered: "
			    "%s; they are pinned until the process ends",
			    cache->pd->context->device->name, span(cache, &mr->key),
			    (unsigned long)page_of(cache, &mr->key), error_text(error));
	free(mr);
}

static void explain(const struct ib_mr_cache *cache, const struct request *req, int ret, char *why,
		    size_t why_bytes)
{
	char hint[160] = "", memlock[32];

	if (ret == -ENOMEM && is_dmabuf(req)) /* no limit of the process counts */
		snprintf(hint, sizeof(hint),
			 "; the GPU may have no BAR space left (nvidia-smi -q -d MEMORY)");
	else if (ret == -ENOMEM)
		snprintf(hint, sizeof(hint),
			 "; RLIMIT_MEMLOCK is %s (ulimit -l, or the container's memlock limit)",
			 ib_memlock_text(memlock, sizeof(memlock)));
	else if (ret == -EFAULT && !is_dmabuf(req))
		snprintf(hint, sizeof(hint),
			 "; it is not mapped, not writable, or GPU memory without a peer-memory "
			 "module");
	snprintf(why, why_bytes, "cannot register %zu bytes of %s at %#lx: %s%s",
		 span(cache, &req->key), is_dmabuf(req) ? "a dma-buf" : "memory",
		 (unsigned long)page_of(cache, &req->key), error_text(-ret), hint);
}

static struct ib_mr *take_existing(struct ib_mr_cache *cache, const struct request *req)
{
	struct ib_mr *mr = NULL;
	struct ib_mr *const *found;

	pthread_mutex_lock(&cache->lock);
	found = tfind(&req->key, &cache->tree, compare_keys);
	if (found) {
		mr = *found;
		mr->refs++;
	}
	pthread_mutex_unlock(&cache->lock);
	return mr;
}

/* Inserts the new *mr into the cache. If another thread has inserted one for the same request, uses that and
 * deregisters *mr. On an error *mr is deregistered as well. */
static int publish(struct ib_mr_cache *cache, struct ib_mr **mr)
{
	struct ib_mr *mine = *mr;
	struct ib_mr *const *found;

	pthread_mutex_lock(&cache->lock);
	found = tsearch(mine, &cache->tree, compare_keys);
	if (found && *found != mine) {
		*mr = *found;
		(*mr)->refs++;
	}
	pthread_mutex_unlock(&cache->lock);
	if (!found || *mr != mine)
		deregister(mine);
	return found ? 0 : -ENOMEM;
}

static int get(struct ib_mr_cache *cache, const struct request *req, struct ib_mr **out, char *why,
	       size_t why_bytes)
{
	struct ib_mr *mr;
	int ret;

	*out = take_existing(cache, req);
	if (*out)
		return 0;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		goto err_memory;
	ret = register_pages(cache, req, mr);
	if (ret) {
		free(mr);
		/* Another thread's registration of the same range may have used up the limit. */
		*out = take_existing(cache, req);
		if (*out)
			return 0;
		explain(cache, req, ret, why, why_bytes);
		return ret;
	}
	ret = publish(cache, &mr);
	if (ret)
		goto err_memory;
	*out = mr;
	return 0;

err_memory:
	snprintf(why, why_bytes, "out of memory for a registration");
	return -ENOMEM;
}

/* Sets the request's range. 0 or -EINVAL. */
static int set_range(const struct ib_mr_cache *cache, struct request *req,
		     const struct memory_range *range, char *why, size_t why_bytes)
{
	uintptr_t addr = (uintptr_t)range->addr;

	req->key.memory = range->id;
	req->key.first = addr;
	req->key.last = addr + range->bytes - 1;
	/* The size of the whole address space does not fit in size_t. */
	if (range->bytes - 1 <= UINTPTR_MAX - addr && span(cache, &req->key))
		return 0;
	snprintf(why, why_bytes, "%zu bytes at %#lx exceed the address space", range->bytes,
		 (unsigned long)addr);
	return -EINVAL;
}

int ib_mr_get(struct ib_mr_cache *cache, const struct memory_range *range, unsigned flags,
	      struct ib_mr **mr, char *why, size_t why_bytes)
{
	struct request req = { .key.flags = flags };
	int ret;

	assert(range->bytes && (flags == 0 || flags == IB_MR_READ));
	*mr = NULL;
	ret = set_range(cache, &req, range, why, why_bytes);
	return ret ? ret : get(cache, &req, mr, why, why_bytes);
}

/* Sets the request's dma-buf and the offset of its first page. 0 or -errno. */
static int set_dmabuf(const struct ib_mr_cache *cache, struct request *req, const void *addr,
		      const struct anynet_dmabuf *dmabuf, char *why, size_t why_bytes)
{
	uint64_t in_page = dmabuf->offset & cache->in_page;

	if (in_page && in_page != ((uintptr_t)addr & cache->in_page)) {
		snprintf(why, why_bytes,
			 "offset %llu of a dma-buf and address %#lx differ within their pages",
			 (unsigned long long)dmabuf->offset, (unsigned long)(uintptr_t)addr);
		return -EINVAL;
	}
	if (fcntl(dmabuf->fd, F_GETFD) < 0) {
		int error = errno;

		snprintf(why, why_bytes, "fd %d is not a dma-buf: %s", dmabuf->fd,
			 error_text(error));
		return -error;
	}
	req->fd = dmabuf->fd;
	req->offset = dmabuf->offset - in_page;
	req->key.flags |= DMABUF;
	return 0;
}

int ib_mr_get_dmabuf(struct ib_mr_cache *cache, const struct memory_range *range,
		     const struct anynet_dmabuf *dmabuf, struct ib_mr **mr, char *why,
		     size_t why_bytes)
{
	struct request req = { .key.flags = IB_MR_READ };
	int ret;

	*mr = NULL;
	if (!cache->verbs->reg_dmabuf_mr) {
		snprintf(why, why_bytes,
			 "libibverbs is older than rdma-core 34 and does not support dma-buf");
		return -EOPNOTSUPP;
	}
	ret = set_range(cache, &req, range, why, why_bytes);
	if (!ret)
		ret = set_dmabuf(cache, &req, range->addr, dmabuf, why, why_bytes);
	return ret ? ret : get(cache, &req, mr, why, why_bytes);
}

/* Registers by NCCL's dma-buf. Without one, or after regMr, CUDA exports another for this call. */
static int register_dmabuf(struct ib_mr_cache *cache, const struct anynet_mr *mr,
			   struct ib_mr **made, char *why, size_t why_bytes)
{
	uintptr_t addr = (uintptr_t)mr->range.addr, in_page = addr & cache->in_page;
	struct anynet_dmabuf own = { .offset = in_page };
	char cuda_why[160];
	int ret;

	if (mr->dmabuf.fd >= 0)
		return ib_mr_get_dmabuf(cache, &mr->range, &mr->dmabuf, made, why, why_bytes);
	own.fd = gpu_dmabuf_fd(mr->gpu, (void *)(addr - in_page),
			       pinned_round(in_page + mr->range.bytes));
	if (own.fd < 0) {
		snprintf(why, why_bytes, "cannot get a dma-buf of GPU memory: %s",
			 own.fd == -EIO ? gpu_why(mr->gpu, cuda_why, sizeof(cuda_why))
					: "the CUDA driver is older than 11.7");
		return -ENOMEM;
	}
	ret = ib_mr_get_dmabuf(cache, &mr->range, &own, made, why, why_bytes);
	close(own.fd);
	return ret;
}

int ib_mr_register(struct ib_mr_cache *cache, const struct anynet_mr *mr, struct ib_mr **made,
		   char *why, size_t why_bytes)
{
	switch (mr->way) {
	case MR_BY_ADDRESS:
		return ib_mr_get(cache, &mr->range, mr->gpu ? IB_MR_READ : 0, made, why, why_bytes);
	case MR_BY_DMABUF:
		return register_dmabuf(cache, mr, made, why, why_bytes);
	case MR_COPIED:
		break;
	}
	snprintf(why, why_bytes, "the device cannot access GPU memory");
	return -EOPNOTSUPP;
}

void ib_mr_put(struct ib_mr *mr)
{
	struct ib_mr_cache *cache;
	bool was_last;

	if (!mr)
		return;
	cache = mr->cache;
	pthread_mutex_lock(&cache->lock);
	was_last = !--mr->refs;
	if (was_last)
		tdelete(mr, &cache->tree, compare_keys);
	pthread_mutex_unlock(&cache->lock);
	if (was_last)
		deregister(mr);
}

struct ib_mr_cache *ib_mr_cache_create(const struct verbs *verbs, struct ibv_pd *pd,
				       bool relaxed_ordering)
{
	struct ib_mr_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return NULL;
	cache->verbs = verbs;
	cache->pd = pd;
	cache->relaxed_ordering = relaxed_ordering && verbs->reg_mr_iova2;
	cache->in_page = pinned_round(1) - 1;
	atomic_flag_clear(&cache->told);
	pthread_mutex_init(&cache->lock, NULL);
	return cache;
}

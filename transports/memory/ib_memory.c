/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations of NCCL's memory on verbs devices; see ib_memory.h. */
#include "memory/ib_memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/net.h"
#include "device/carrier.h"
#include "device/ib_events.h"
#include "memory/gpu_proof.h"
#include "memory/ib_flush.h"

/* The nics, by number. Entries are only added; the lock is for adding. */
static struct {
	pthread_mutex_t lock;
	_Atomic unsigned count;
	struct nic_memory entries[ANYNET_MR_NICS];
} table = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int find(const struct ib_nic *nic)
{
	unsigned count = atomic_load_explicit(&table.count, memory_order_acquire);

	for (unsigned i = 0; i < count; i++)
		if (table.entries[i].nic == nic)
			return (int)i;
	return -ENOENT;
}

static int add(struct ib_nic *nic)
{
	unsigned count;
	int ret;

	pthread_mutex_lock(&table.lock);
	ret = find(nic);
	count = atomic_load(&table.count);
	if (ret < 0 && count < ANYNET_MR_NICS) {
		table.entries[count].nic = nic;
		table.entries[count].cache =
			ib_mr_cache_create(nic->verbs, nic->pd, anynet_net.cfg->ib_relaxed);
		ret = table.entries[count].cache ? (int)count : -ENOMEM;
		if (ret >= 0)
			atomic_store_explicit(&table.count, count + 1, memory_order_release);
	}
	pthread_mutex_unlock(&table.lock);
	return ret;
}

static int number_of(struct ib_nic *nic)
{
	int ret = find(nic);

	return ret < 0 ? add(nic) : ret;
}

/* Registers by the caller's dma-buf. Without one, or after regMr, CUDA exports another for this call. */
static int get_dmabuf(struct ib_mr_cache *cache, const struct anynet_mr *mr, struct ib_mr **made,
		      char *why, size_t why_bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), addr = (uintptr_t)mr->range.addr;
	uintptr_t first = addr & ~(page - 1);
	size_t bytes = (addr + mr->range.bytes - first + page - 1) & ~(page - 1);
	struct anynet_dmabuf own = { .offset = addr - first };
	char cuda_why[160];
	int ret;

	if (mr->dmabuf.fd >= 0)
		return ib_mr_get_dmabuf(cache, &mr->range, &mr->dmabuf, made, why, why_bytes);
	own.fd = gpu_dmabuf_fd(mr->gpu, (void *)first, bytes);
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

static int get(struct ib_mr_cache *cache, const struct anynet_mr *mr, struct ib_mr **made,
	       char *why, size_t why_bytes)
{
	switch (mr->way) {
	case MR_BY_ADDRESS:
		return ib_mr_get(cache, &mr->range, mr->gpu ? IB_MR_READ : 0, made, why, why_bytes);
	case MR_BY_DMABUF:
		return get_dmabuf(cache, mr, made, why, why_bytes);
	case MR_COPIED:
		break;
	}
	snprintf(why, why_bytes, "the device cannot access GPU memory");
	return -EOPNOTSUPP;
}

/* Is it GPU memory that verbs devices access? */
static bool is_direct(const struct anynet_mr *mr)
{
	return mr->gpu && mr->range.bytes && mr->way != MR_COPIED;
}

const struct ib_mr *ib_memory_on(struct anynet_mr *mr, struct ib_nic *nic, char *why,
				 size_t why_bytes)
{
	int number = number_of(nic), ret = 0;
	struct ib_mr *made, *there = NULL;

	if (number < 0) {
		snprintf(why, why_bytes, "memory is registered on too many devices");
		errno = ENOMEM;
		return NULL;
	}
	made = atomic_load_explicit(&mr->ib[number], memory_order_acquire);
	if (made)
		return made;
	if (is_direct(mr))
		ret = gpu_prove(&table.entries[number], mr, get, true, why, why_bytes);
	if (!ret)
		ret = get(table.entries[number].cache, mr, &made, why, why_bytes);
	if (ret) {
		errno = -ret;
		return NULL;
	}
	if (atomic_compare_exchange_strong(&mr->ib[number], &there, made))
		return made;
	ib_mr_put(table.entries[number].cache, made);
	return there;
}

static int register_on(struct anynet_mr *mr, const struct anynet_device *port, bool is_flushed,
		       char *why, size_t why_bytes)
{
	struct ib_nic *nic = ib_events_open(port, why, why_bytes);
	int number = nic ? number_of(nic) : -ENODEV, ret;

	if (!nic)
		return -ENODEV;
	if (is_direct(mr) && number >= 0) {
		ret = gpu_prove(&table.entries[number], mr, get, false, why, why_bytes);
		if (ret) /* -EAGAIN: registered at the first use, when the port is up */
			return ret == -EAGAIN ? 0 : ret;
		if (is_flushed)
			ib_flush_prepare(nic);
	}
	if (ib_memory_on(mr, nic, why, why_bytes))
		return 0;
	/* A device that fails is opened again: the memory is registered at the next use. */
	return errno == EIO || errno == ENODEV || atomic_load(&nic->failed) ? -ENODEV : -ENOMEM;
}

/* The other ports of a fused device are used even if one is gone for now. */
int ib_memory_register(struct anynet_mr *mr, const struct anynet_device *dev, bool is_flushed,
		       char *why, size_t why_bytes)
{
	int result = -ENODEV;

	if (is_direct(mr))
		gpu_proof_prepare(mr->gpu);
	for (int i = 0; i < anynet_members(dev); i++) {
		int ret = register_on(mr, anynet_member(dev, i), is_flushed, why, why_bytes);

		if (ret == -ENOMEM || ret == -EALREADY)
			return ret;
		result = ret ? result : 0;
	}
	return result;
}

uint32_t ib_memory_bit(const struct ib_nic *nic)
{
	int number = find(nic);

	return number < 0 ? 0 : (uint32_t)1 << number;
}

int ib_memory_flush(unsigned number, struct anynet_mr *mr, const void *data, uint64_t *ticket)
{
	struct ib_nic *nic = table.entries[number].nic;
	const struct ib_mr *made;
	char why[200];

	if (atomic_load_explicit(&nic->failed, memory_order_relaxed))
		return -ENODEV;
	/* The NIC may have written another buffer only. */
	made = ib_memory_on(mr, nic, why, sizeof(why));
	if (!made)
		return -EIO;
	atomic_fetch_or_explicit(&mr->read_by, (uint32_t)1 << number, memory_order_relaxed);
	return ib_flush_post(nic, data, made->rkey, ticket);
}

int ib_memory_flushed(unsigned number, uint64_t ticket)
{
	struct ib_nic *nic = table.entries[number].nic;

	return atomic_load_explicit(&nic->failed, memory_order_relaxed) ? -ENODEV
									: ib_flush_done(nic, ticket);
}

bool ib_memory_is_down(unsigned number)
{
	return carrier_port_is_down(table.entries[number].nic->dev);
}

/* Waits for the READs of flushes first, whose queue pairs all comms share. */
void ib_memory_release(struct anynet_mr *mr)
{
	uint32_t read_by = atomic_load(&mr->read_by);

	for (unsigned i = 0; i < ANYNET_MR_NICS; i++) {
		if (!mr->ib[i])
			continue;
		if (read_by & (uint32_t)1 << i)
			ib_flush_drain(table.entries[i].nic);
		ib_mr_put(table.entries[i].cache, mr->ib[i]);
	}
}

void mr_return(struct anynet_mr *mr)
{
	if (mr->borrowed)
		LIST_REMOVE(mr, among);
	ib_memory_release(mr);
	free(mr);
}

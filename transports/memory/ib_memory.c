/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations of NCCL's memory on verbs devices; see ib_memory.h. */
#include "memory/ib_memory.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <nccl_net/util.h>

#include "base/net.h"
#include "device/ib_events.h"
#include "memory/gpu_proof.h"
#include "memory/ib_flush.h"

static_assert(ANYNET_DEVICES_MAX <= 64, "one bit for each nic");

/* Gives the nic its struct nic_memory. NULL = no memory. */
static ANYNET_COLD struct nic_memory *create(struct ib_nic *nic)
{
	struct nic_memory *mine = calloc(1, sizeof(*mine)), *there = NULL;

	if (!mine)
		return NULL;
	mine->nic = nic;
	mine->cache = ib_mr_cache_create(nic->verbs, nic->pd, anynet_net.cfg->ib_relaxed);
	if (mine->cache && atomic_compare_exchange_strong(&nic->memory, &there, mine))
		return mine;
	free(mine->cache);
	free(mine);
	return there;
}

static struct nic_memory *memory_of(struct ib_nic *nic)
{
	struct nic_memory *memory = atomic_load_explicit(&nic->memory, memory_order_acquire);

	return anynet_likely(memory) ? memory : create(nic);
}

/* Is it GPU memory that verbs devices access? */
static bool is_direct(const struct anynet_mr *mr)
{
	return mr->gpu && mr->range.bytes && mr->way != MR_COPIED;
}

const struct ib_mr *ib_memory_on(struct anynet_mr *mr, struct ib_nic *nic, char *why,
				 size_t why_bytes)
{
	static const struct ib_mr nothing; /* an empty message is sent without keys */
	struct ib_mr *made = atomic_load_explicit(&mr->ib[nic->number], memory_order_acquire);
	struct ib_mr *there = NULL;
	struct nic_memory *memory;
	int ret = 0;

	if (made)
		return made;
	if (!mr->range.bytes)
		return &nothing;
	memory = memory_of(nic);
	if (!memory) {
		snprintf(why, why_bytes, "out of memory");
		errno = ENOMEM;
		return NULL;
	}
	if (is_direct(mr))
		ret = gpu_prove(memory, mr, true, why, why_bytes);
	if (!ret)
		ret = ib_mr_register(memory->cache, mr, &made, why, why_bytes);
	if (ret) {
		errno = -ret;
		return NULL;
	}
	if (atomic_compare_exchange_strong(&mr->ib[nic->number], &there, made))
		return made;
	ib_mr_put(made);
	return there;
}

static int register_on(struct anynet_mr *mr, const struct anynet_device *port, bool is_flushed,
		       char *why, size_t why_bytes)
{
	struct ib_nic *nic = ib_events_open(port, why, why_bytes);
	struct nic_memory *memory = nic ? memory_of(nic) : NULL;
	int ret;

	if (!nic)
		return -ENODEV;
	if (is_direct(mr) && memory) {
		ret = gpu_prove(memory, mr, false, why, why_bytes);
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

uint64_t ib_memory_bit(const struct ib_nic *nic)
{
	return atomic_load_explicit(&nic->memory, memory_order_relaxed) ? 1ull << nic->number : 0;
}

int ib_memory_flush(struct ib_nic *nic, struct anynet_mr *mr, const void *data, uint64_t *ticket)
{
	const struct ib_mr *made;
	char why[200];

	if (atomic_load_explicit(&nic->failed, memory_order_relaxed))
		return -ENODEV;
	/* The NIC may have written another buffer only. */
	made = ib_memory_on(mr, nic, why, sizeof(why));
	if (!made)
		return -EIO;
	atomic_fetch_or_explicit(&mr->read_by, 1ull << nic->number, memory_order_relaxed);
	return ib_flush_post(nic, data, made->rkey, ticket);
}

int ib_memory_flushed(struct ib_nic *nic, uint64_t ticket)
{
	return atomic_load_explicit(&nic->failed, memory_order_relaxed) ? -ENODEV
									: ib_flush_done(nic, ticket);
}

/* Waits for the READs of flushes first, whose queue pairs all comms share. */
void ib_memory_release(struct anynet_mr *mr)
{
	uint64_t read_by = atomic_load(&mr->read_by);

	for (int i = 0; i < ANYNET_DEVICES_MAX; i++) {
		if (!mr->ib[i])
			continue;
		if (read_by & 1ull << i)
			ib_flush_drain(ib_nic_opened(i));
		ib_mr_put(mr->ib[i]);
	}
}

void mr_return(struct anynet_mr *mr)
{
	if (mr->borrowed)
		LIST_REMOVE(mr, among);
	ib_memory_release(mr);
	free(mr);
}

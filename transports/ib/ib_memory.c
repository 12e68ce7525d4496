/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory on verbs devices; see ib_memory.h. */
#include "ib_memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

/* Caches by nic, found again by their number. Only ever added to. */
static struct {
	pthread_mutex_t lock;
	_Atomic unsigned count;
	struct {
		struct ib_nic *nic;
		struct ib_mr_cache *cache;
	} entries[ANYNET_MR_NICS];
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
			ib_mr_cache_create(nic->verbs, nic->pd, nic->cfg->ib_relaxed);
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

struct ib_mr_cache *ib_memory_cache(struct ib_nic *nic)
{
	int number = number_of(nic);

	return number < 0 ? NULL : table.entries[number].cache;
}

const struct ib_mr *ib_memory_on(struct anynet_mr *mr, struct ib_nic *nic, char *why,
				 size_t why_bytes)
{
	int number = number_of(nic);
	struct ib_mr *made, *there = NULL;

	if (number < 0) {
		snprintf(why, why_bytes, "memory cannot be registered on so many devices");
		return NULL;
	}
	made = atomic_load_explicit(&mr->ib[number], memory_order_acquire);
	if (made)
		return made;
	if (ib_mr_get(table.entries[number].cache, mr->addr, mr->bytes, 0, &made, why, why_bytes))
		return NULL;
	if (atomic_compare_exchange_strong(&mr->ib[number], &there, made))
		return made;
	ib_mr_put(table.entries[number].cache, made);
	return there;
}

int ib_memory_register(struct anynet_mr *mr, const struct anynet_device *dev, char *why,
		       size_t why_bytes)
{
	struct ib_nic *nic = ib_nic_open(dev, why, why_bytes);

	if (!nic)
		return -ENODEV;
	return ib_memory_on(mr, nic, why, why_bytes) ? 0 : -ENOMEM;
}

void ib_memory_release(struct anynet_mr *mr)
{
	for (unsigned i = 0; i < ANYNET_MR_NICS; i++)
		if (mr->ib[i])
			ib_mr_put(table.entries[i].cache, mr->ib[i]);
}

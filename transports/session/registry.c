/* SPDX-License-Identifier: Apache-2.0 */
/* The open comms of this process; see registry.h. */
#include "session/registry.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

struct slot {
	struct anynet_comm *comm; /* NULL = free */
	uint32_t generation;
};

/* Held shared by threads that work on comms, and exclusively to change the table. Writers go first, because several
 * I/O threads would hold it without a gap. So no thread may take it twice, or wait, holding it, for a thread that
 * needs it. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static struct slot *slots;
static uint32_t slot_count;
static uint32_t taken; /* no slot below this one is free */
static _Atomic uint32_t comms; /* number in the table */

static int grow(void)
{
	uint32_t count = slot_count ? slot_count * 2 : 64;
	struct slot *grown = realloc(slots, count * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	for (uint32_t i = slot_count; i < count; i++)
		grown[i] = (struct slot){ NULL, 0 };
	slots = grown;
	slot_count = count;
	return 0;
}

int registry_add(struct anynet_comm *comm)
{
	uint32_t slot;
	int ret = 0;

	pthread_rwlock_wrlock(&lock);
	for (slot = taken; slot < slot_count && slots[slot].comm; slot++)
		;
	taken = slot;
	if (slot == slot_count)
		ret = grow();
	if (!ret) {
		slots[slot].comm = comm;
		slots[slot].generation++;
		comm->session->slot = (int)slot;
		comms++;
	}
	pthread_rwlock_unlock(&lock);
	return ret;
}

void registry_remove(struct anynet_comm *comm)
{
	if (comm->session->slot < 0)
		return;
	pthread_rwlock_wrlock(&lock);
	slots[comm->session->slot].comm = NULL;
	taken = (uint32_t)anynet_min(taken, (size_t)comm->session->slot);
	comm->session->slot = -1;
	comms--;
	pthread_rwlock_unlock(&lock);
}

uint64_t registry_token(const struct anynet_comm *comm)
{
	uint64_t token;

	pthread_rwlock_rdlock(&lock);
	token = (uint64_t)slots[comm->session->slot].generation << 32 | (uint32_t)comm->session->slot;
	pthread_rwlock_unlock(&lock);
	return token;
}

struct anynet_comm *registry_hold(uint64_t token)
{
	uint32_t slot = (uint32_t)token, generation = (uint32_t)(token >> 32);

	pthread_rwlock_rdlock(&lock);
	return slot < slot_count && slots[slot].generation == generation ? slots[slot].comm : NULL;
}

void registry_release(void)
{
	pthread_rwlock_unlock(&lock);
}

bool registry_is_empty(void)
{
	return !comms;
}

bool registry_at(uint32_t slot, void (*visit)(struct anynet_comm *comm, void *arg), void *arg)
{
	bool there;

	pthread_rwlock_rdlock(&lock);
	there = slot < slot_count;
	if (there && slots[slot].comm)
		visit(slots[slot].comm, arg);
	pthread_rwlock_unlock(&lock);
	return there;
}

void registry_each(void (*visit)(struct anynet_comm *comm, void *arg), void *arg)
{
	pthread_rwlock_rdlock(&lock);
	for (uint32_t i = 0; i < slot_count; i++)
		if (slots[i].comm)
			visit(slots[i].comm, arg);
	pthread_rwlock_unlock(&lock);
}

/* Visits the comm in a slot. False: there is no such slot. *busy: not visited, because another thread has the comm's
 * lock. */
static bool visit_slot(uint32_t slot, void (*visit)(struct anynet_comm *comm, void *arg), void *arg,
		       bool *busy)
{
	struct anynet_comm *comm;
	bool exists;

	pthread_rwlock_rdlock(&lock);
	exists = slot < slot_count;
	comm = exists ? slots[slot].comm : NULL;
	*busy = comm && !comm_try_enter(comm);
	if (comm && !*busy) {
		visit(comm, arg);
		comm_leave(comm);
	}
	pthread_rwlock_unlock(&lock);
	return exists;
}

/* Waits without the registry's lock: the thread that has the comm's lock may wait for one that needs the registry's. */
void registry_each_entered(void (*visit)(struct anynet_comm *comm, void *arg), void *arg)
{
	struct timespec moment = { .tv_nsec = 20000 };
	uint32_t slot = 0;
	bool busy;

	while (visit_slot(slot, visit, arg, &busy))
		if (busy)
			nanosleep(&moment, NULL);
		else
			slot++;
}

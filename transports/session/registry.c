/* SPDX-License-Identifier: Apache-2.0 */
/* The open comms of this process; see registry.h. */
#include "session/registry.h"

#include "base/slots.h"

/* Held shared by threads that work on comms, and exclusively to change the table. Writers go first, because several
 * I/O threads would hold it without a gap. So no thread may take it twice, or wait, holding it, for a thread that
 * needs it. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static struct slots comms;

int registry_add(struct anynet_comm *comm)
{
	uint32_t slot;
	int ret;

	pthread_rwlock_wrlock(&lock);
	ret = slots_add(&comms, comm, &slot);
	if (!ret) {
		comm->session->slot = (int)slot;
		comm->session->slot_token = slots_token(&comms, slot);
	}
	pthread_rwlock_unlock(&lock);
	return ret;
}

void registry_remove(struct anynet_comm *comm)
{
	if (comm->session->slot < 0)
		return;
	pthread_rwlock_wrlock(&lock);
	slots_remove(&comms, (uint32_t)comm->session->slot);
	comm->session->slot = -1;
	pthread_rwlock_unlock(&lock);
}

struct anynet_comm *registry_hold(uint64_t token)
{
	pthread_rwlock_rdlock(&lock);
	return slots_find(&comms, token);
}

void registry_release(void)
{
	pthread_rwlock_unlock(&lock);
}

bool registry_is_empty(void)
{
	bool empty;

	pthread_rwlock_rdlock(&lock);
	empty = !comms.used;
	pthread_rwlock_unlock(&lock);
	return empty;
}

bool registry_at(uint32_t slot, void (*visit)(struct anynet_comm *comm, void *arg), void *arg)
{
	struct anynet_comm *comm;
	bool there;

	pthread_rwlock_rdlock(&lock);
	there = slot < comms.count;
	comm = slots_at(&comms, slot);
	if (comm)
		visit(comm, arg);
	pthread_rwlock_unlock(&lock);
	return there;
}

void registry_each(void (*visit)(struct anynet_comm *comm, void *arg), void *arg)
{
	for (uint32_t slot = 0; registry_at(slot, visit, arg); slot++)
		;
}

struct entering {
	void (*visit)(struct anynet_comm *comm, void *arg);
	void *arg;
	bool busy; /* not visited, because another thread has the comm's lock */
};

static void enter(struct anynet_comm *comm, void *arg)
{
	struct entering *entering = arg;

	entering->busy = !comm_try_enter(comm);
	if (entering->busy)
		return;
	entering->visit(comm, entering->arg);
	comm_leave(comm);
}

/* Waits without the registry's lock: the thread that has the comm's lock may wait for one that needs the registry's. */
void registry_each_entered(void (*visit)(struct anynet_comm *comm, void *arg), void *arg)
{
	struct entering entering = { .visit = visit, .arg = arg };
	uint32_t slot = 0;

	while (registry_at(slot, enter, &entering)) {
		if (entering.busy)
			os_sleep_us(20);
		else
			slot++;
		entering.busy = false;
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After closeSend: messages reported done may still be in the kernel's send buffer, because the
 * receiver is slow. Such comms stay here, without NCCL, until the peer's kernel has everything or the
 * peer timeout is over. Looked after whenever a comm closes and at finalize.
 */
#include <stdlib.h>
#include <sys/queue.h>

#include "comm_internal.h"

#define LINGER_MAX   4096
#define LOOK_A_CLOSE 4 /* looked at when a comm closes: closing many at once stays linear */

struct lingering {
	TAILQ_ENTRY(lingering) link; /* least recently looked at first */
	struct anynet_comm *comm;
	uint64_t deadline_ms;
};

static struct {
	pthread_mutex_t lock;
	TAILQ_HEAD(, lingering) list;
	unsigned count;
} linger = { .lock = PTHREAD_MUTEX_INITIALIZER, .list = TAILQ_HEAD_INITIALIZER(linger.list) };

static bool must_linger(struct anynet_comm *comm)
{
	bool wait = false;

	for (unsigned i = 0; i < comm->rail_count; i++)
		if (comm->rails[i])
			wait |= comm->rails[i]->ops->linger(comm->rails[i]);
	return wait;
}

static void lingering_end(struct lingering *entry)
{
	TAILQ_REMOVE(&linger.list, entry, link);
	linger.count--;
	send_comm_destroy(entry->comm);
	free(entry);
}

/* Look at the `count` that were looked at least recently. */
static void trim_locked(unsigned count)
{
	uint64_t now = net_now_ms();

	for (count = count < linger.count ? count : linger.count; count; count--) {
		struct lingering *entry = TAILQ_FIRST(&linger.list);

		if (now >= entry->deadline_ms || !must_linger(entry->comm)) {
			lingering_end(entry);
		} else {
			TAILQ_REMOVE(&linger.list, entry, link);
			TAILQ_INSERT_TAIL(&linger.list, entry, link);
		}
	}
}

void linger_trim(void)
{
	pthread_mutex_lock(&linger.lock);
	trim_locked(linger.count);
	pthread_mutex_unlock(&linger.lock);
}

static bool linger_add(struct anynet_comm *comm)
{
	struct lingering *entry = malloc(sizeof(*entry));

	if (!entry)
		return false;
	entry->comm = comm;
	entry->deadline_ms = net_now_ms() + (uint64_t)anynet_net.cfg->user_timeout_ms;
	TAILQ_INSERT_TAIL(&linger.list, entry, link);
	if (++linger.count > LINGER_MAX)
		lingering_end(TAILQ_FIRST(&linger.list));
	return true;
}

void linger_comm(struct anynet_comm *comm)
{
	/* With requests in flight NCCL is aborting, and may have freed their buffers. */
	if (!comm_error(comm) && !send_pending(comm)) {
		send_bye(comm);
		comm_transmit(comm);
	}
	pthread_mutex_lock(&linger.lock);
	trim_locked(LOOK_A_CLOSE);
	if (comm_error(comm) || !must_linger(comm) || !linger_add(comm))
		send_comm_destroy(comm);
	pthread_mutex_unlock(&linger.lock);
}

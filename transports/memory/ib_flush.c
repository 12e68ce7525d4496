/* SPDX-License-Identifier: Apache-2.0 */
/* A nic's queue pair for flushes; see ib_flush.h. */
#include "memory/ib_flush.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/log.h>
#include <nccl_net/util.h>

#include "base/os.h"
#include "base/pinned.h"
#include "device/ib_self.h"

#define POLL_BATCH 16
#define RETRY_MS   1000  /* between attempts to make a queue pair, also when one breaks at once */
#define DRAIN_MS   10000 /* max wait for posted READs */

struct ib_flush {
	_Atomic bool busy; /* spin lock; protects the fields below */
	_Atomic bool ready; /* false = broken, or not made yet: ib_flush_mend makes a queue pair */
	struct ib_self self;
	_Atomic uint16_t lid;      /* of the port when it was made */
	uint64_t posted, done;     /* READs so far; a ticket is the number of one, from 1 */
	uint64_t gone;             /* READs of former queue pairs: their flushes have failed */
	_Atomic uint64_t retry_ms; /* time of the next attempt to make a queue pair */
	unsigned attempts;         /* to make one, since one was last made */
	unsigned breaks;           /* so far: the breaks 1, 2, 4, 8 and so on are logged */
	uint8_t *landing;          /* a page, the target of the READs; never freed */
};

/* Held while a queue pair of any nic is made or destroyed. Taken before the lock of a flush, which is not held during
 * the driver's calls. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static bool try_enter(struct ib_flush *flush)
{
	return !atomic_exchange_explicit(&flush->busy, true, memory_order_acquire);
}

/* Spins: the lock is held for well under a millisecond. */
static void enter(struct ib_flush *flush)
{
	while (!try_enter(flush))
		sched_yield();
}

static void leave(struct ib_flush *flush)
{
	atomic_store_explicit(&flush->busy, false, memory_order_release);
}

/* --- making --- */

/* Is the last break worth log lines? */
static bool is_news(const struct ib_flush *flush)
{
	return !(flush->breaks & (flush->breaks - 1));
}

static ANYNET_COLD void tell(const struct ib_nic *nic, const struct ib_flush *flush, int ret,
			     const char *why)
{
	if (!is_news(flush))
		return;
	if (ret && flush->attempts == 1)
		anynet_info("dev %s: cannot create a queue pair to flush GPU memory: %s; CUDA "
			    "flushes until it can be created",
			    nic->dev->name, why);
	else if (!ret && (flush->breaks || flush->attempts > 1))
		anynet_info("dev %s: GPU memory is flushed by a queue pair again", nic->dev->name);
}

/* Replaces the queue pair, with `making` held. Flushes fail meanwhile (-EIO). */
static void renew(struct ib_nic *nic, struct ib_flush *flush)
{
	struct ib_self self;
	char why[160];
	int ret;

	enter(flush);
	atomic_store(&flush->ready, false);
	self = flush->self;
	flush->self = (struct ib_self){ .qp = NULL };
	flush->gone = flush->done = flush->posted;
	flush->attempts++;
	leave(flush);
	ib_self_unmake(nic, &self);
	atomic_store(&flush->lid,
		     ib_nic_attr(nic).lid); /* if it changes again meanwhile, this is repeated */
	ret = ib_self_make(nic, flush->landing, &self, why, sizeof(why));
	tell(nic, flush, ret, why);
	enter(flush);
	if (!ret) {
		flush->self = self;
		flush->attempts = 0;
		atomic_store(&flush->ready, true);
	}
	atomic_store(&flush->retry_ms, os_now_ms() + RETRY_MS);
	leave(flush);
}

/* Gives the nic its struct ib_flush, without a queue pair. NULL = no memory. */
static ANYNET_COLD struct ib_flush *create(struct ib_nic *nic)
{
	struct ib_flush *mine = calloc(1, sizeof(*mine)), *there = NULL;

	if (mine)
		mine->landing = pinned_alloc(1);
	if (mine && mine->landing && atomic_compare_exchange_strong(&nic->flush, &there, mine))
		return mine;
	if (mine)
		pinned_free(mine->landing, 1);
	free(mine);
	return there;
}

/* Has the port another LID than when the queue pair was made? Each READ would wait for all retries first. */
static bool has_moved(struct ib_nic *nic, const struct ib_flush *flush)
{
	struct ibv_port_attr attr = ib_nic_attr(nic);

	return attr.state == IBV_PORT_ACTIVE && attr.lid != atomic_load(&flush->lid);
}

static bool is_due(struct ib_nic *nic)
{
	const struct ib_flush *flush = atomic_load(&nic->flush);

	return flush && (!atomic_load(&flush->ready) || has_moved(nic, flush)) &&
	       !atomic_load(&nic->failed) && os_now_ms() >= atomic_load(&flush->retry_ms);
}

bool ib_flush_is_due(void)
{
	struct ib_nic *nic;

	for (int i = 0; (nic = ib_nic_opened(i)); i++)
		if (is_due(nic))
			return true;
	return false;
}

static void mend(struct ib_nic *nic)
{
	if (!is_due(nic))
		return;
	pthread_mutex_lock(&making);
	if (is_due(nic))
		renew(nic, atomic_load(&nic->flush));
	pthread_mutex_unlock(&making);
}

void ib_flush_prepare(struct ib_nic *nic)
{
	if (!atomic_load(&nic->flush))
		create(nic);
	mend(nic);
}

void ib_flush_mend(void)
{
	struct ib_nic *nic;

	for (int i = 0; (nic = ib_nic_opened(i)); i++)
		mend(nic);
}

/* --- use --- */

static ANYNET_COLD void broke(const struct ib_nic *nic, struct ib_flush *flush, int status)
{
	flush->breaks++;
	if (is_news(flush))
		anynet_info(
			"dev %s: the queue pair that flushes GPU memory broke (status %d); CUDA "
			"flushes until it is replaced",
			nic->dev->name, status);
	atomic_store(&flush->ready, false);
}

/* Counts completed READs. A failed one breaks the queue pair. */
static void take_completions(const struct ib_nic *nic, struct ib_flush *flush)
{
	struct ibv_wc wcs[POLL_BATCH];
	int n = ibv_poll_cq(flush->self.cq, POLL_BATCH, wcs);

	for (int i = 0; i < n; i++) {
		if (wcs[i].status != IBV_WC_SUCCESS) {
			broke(nic, flush, (int)wcs[i].status);
			return;
		}
		flush->done++;
	}
	if (n < 0)
		broke(nic, flush, n);
}

/* A device that has failed need not tell what became of its requests. */
static bool is_ready(const struct ib_nic *nic, const struct ib_flush *flush)
{
	return atomic_load_explicit(&flush->ready, memory_order_relaxed) &&
	       !atomic_load_explicit(&nic->failed, memory_order_relaxed);
}

int ib_flush_post(struct ib_nic *nic, const void *addr, uint32_t rkey, uint64_t *ticket)
{
	struct ib_flush *flush = atomic_load_explicit(&nic->flush, memory_order_acquire);
	int ret = -EIO;

	if (anynet_unlikely(!flush))
		flush = create(nic); /* a stream has moved here after regMr */
	if (!flush)
		return -EIO;
	if (!try_enter(flush))
		return -EAGAIN;
	if (is_ready(nic, flush) && flush->posted - flush->done == IB_SELF_DEPTH)
		take_completions(nic, flush);
	if (is_ready(nic, flush) && flush->posted - flush->done == IB_SELF_DEPTH) {
		ret = -EAGAIN;
	} else if (is_ready(nic, flush)) {
		ret = ib_self_post(&flush->self, IBV_WR_RDMA_READ, flush->landing, 1,
				   (uintptr_t)addr, rkey);
		if (ret)
			broke(nic, flush, ret);
		ret = ret ? -EIO : 0;
		*ticket = ++flush->posted;
	}
	leave(flush);
	return ret;
}

/* ib_flush_done, with the lock held. */
static int look(const struct ib_nic *nic, struct ib_flush *flush, uint64_t ticket)
{
	if (!is_ready(nic, flush) || ticket <= flush->gone)
		return -EIO;
	if (flush->done < ticket)
		take_completions(nic, flush);
	return is_ready(nic, flush) ? flush->done >= ticket : -EIO;
}

int ib_flush_done(struct ib_nic *nic, uint64_t ticket)
{
	struct ib_flush *flush = atomic_load_explicit(&nic->flush, memory_order_acquire);
	int ret;

	if (!try_enter(flush))
		return 0;
	ret = look(nic, flush, ticket);
	leave(flush);
	return ret;
}

void ib_flush_drain(struct ib_nic *nic)
{
	struct ib_flush *flush = atomic_load_explicit(&nic->flush, memory_order_acquire);
	uint64_t until = os_now_ms() + DRAIN_MS, ticket;
	int over = 0;

	if (!flush)
		return;
	enter(flush);
	ticket = flush->posted;
	while (!(over = look(nic, flush, ticket)) && !atomic_load(&nic->failed) &&
	       os_now_ms() < until) {
		leave(flush);
		sched_yield();
		enter(flush);
	}
	if (!over)
		broke(nic, flush, -ETIMEDOUT);
	leave(flush);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of queue pairs, and other verbs calls that may take seconds: destroying queue pairs whose packets are still in
 * flight, recreating the queue pairs for flushes, and querying ports whose network interface appears or disappears. A
 * separate thread makes them, so that the background thread is not blocked. It ends when there is nothing left to do.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/pinned.h"
#include "base/thread.h"
#include "device/ib_events.h"
#include "memory/ib_flush.h"
#include "path/ib/ib_cm.h"

/* Queue pairs that are to be freed, linked by `next`. */
static struct ib_qp *_Atomic retired;

void ib_qp_end(struct ib_qp *qp, uint64_t *arrived)
{
	ib_cm_quit(qp);
	ib_qp_fence(qp, arrived);
}

void ib_qp_free(struct ib_qp *qp)
{
	if (!qp)
		return;
	ib_cm_free(qp);
	ib_qp_destroy_qp(qp);
	if (qp->cq)
		qp->nic->verbs->destroy_cq(qp->cq);
	if (qp->memory.mr)
		qp->nic->verbs->dereg_mr(qp->memory.mr);
	pinned_free(qp->memory.start, qp->memory.bytes);
	free(qp);
}

void ib_qp_retire(struct ib_qp *qp)
{
	if (!qp)
		return;
	ib_qp_given_up(qp);
	qp->next = atomic_load(&retired);
	while (!atomic_compare_exchange_weak(&retired, &qp->next, qp))
		continue; /* another thread was faster: next is up to date again */
}

static void free_retired(void)
{
	struct ib_qp *next;

	for (struct ib_qp *qp = atomic_exchange(&retired, NULL); qp; qp = next) {
		next = qp->next;
		ib_qp_free(qp);
	}
}

/* --- the thread --- */

static struct {
	pthread_mutex_t lock;
	pthread_t thread;
	bool exists;
	unsigned forks;       /* fd_forks when the thread was started; a forked child has none */
	_Atomic bool over;    /* the thread is about to end and can be joined */
	_Atomic bool changed; /* result of the next ib_chores(): comms should look at their ports */
} chores = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool are_due(void)
{
	return atomic_load(&retired) || ib_events_stale() || ib_flush_is_due();
}

static void *run(void *arg)
{
	while (are_due()) {
		free_retired();
		ib_flush_mend();
		if (ib_events_settle())
			atomic_store(&chores.changed, true);
	}
	atomic_store(&chores.over, true);
	return arg;
}

static void join(void)
{
	if (chores.exists && chores.forks == fd_forks())
		pthread_join(chores.thread, NULL);
	chores.exists = false;
}

bool ib_chores(void)
{
	pthread_mutex_lock(&chores.lock);
	if (chores.exists && (chores.forks != fd_forks() || atomic_load(&chores.over)))
		join();
	if (!chores.exists && are_due()) {
		atomic_store(&chores.over, false);
		chores.exists = !thread_start(&chores.thread, "anynet-chores", run, NULL);
		chores.forks = fd_forks();
	}
	pthread_mutex_unlock(&chores.lock);
	return atomic_exchange(&chores.changed, false);
}

void ib_chores_finish(void)
{
	pthread_mutex_lock(&chores.lock);
	join();
	pthread_mutex_unlock(&chores.lock);
	free_retired();
}

bool ib_chores_pending(void)
{
	bool exists;

	pthread_mutex_lock(&chores.lock);
	exists = chores.exists;
	pthread_mutex_unlock(&chores.lock);
	return exists || are_due();
}

void ib_chores_leave(uint64_t ms)
{
	pthread_mutex_lock(&chores.lock);
	if (chores.exists && thread_join_within(chores.thread, ms))
		chores.exists = false;
	pthread_mutex_unlock(&chores.lock);
}

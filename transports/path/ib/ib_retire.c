/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a queue pair: fenced, then freed at once or, because that may take seconds, later by ib_chores.c. */
#include <pthread.h>
#include <stdlib.h>

#include "base/pinned.h"
#include "path/ib/ib_cm.h"

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

static struct {
	pthread_mutex_t lock;
	struct ib_qp *qps;
} retired = { .lock = PTHREAD_MUTEX_INITIALIZER };

void ib_qp_retire(struct ib_qp *qp)
{
	if (!qp)
		return;
	ib_qp_given_up(qp);
	pthread_mutex_lock(&retired.lock);
	qp->next = retired.qps;
	retired.qps = qp;
	pthread_mutex_unlock(&retired.lock);
}

void ib_qps_reap(void)
{
	struct ib_qp *qp;

	pthread_mutex_lock(&retired.lock);
	qp = retired.qps;
	retired.qps = NULL;
	pthread_mutex_unlock(&retired.lock);
	while (qp) {
		struct ib_qp *next = qp->next;

		ib_qp_free(qp);
		qp = next;
	}
}

bool ib_qps_retired(void)
{
	bool any;

	pthread_mutex_lock(&retired.lock);
	any = retired.qps;
	pthread_mutex_unlock(&retired.lock);
	return any;
}

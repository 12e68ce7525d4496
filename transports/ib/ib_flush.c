/* SPDX-License-Identifier: Apache-2.0 */
/* A nic's queue pair for flushes; see ib_flush.h. */
#include "ib_flush.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/log.h>
#include <nccl_net/util.h>

#include "ib_loopback.h"
#include "pinned.h"

#define DEPTH       256 /* under way at once */
#define TICKET_BITS 48  /* of a ticket that count; above is which queue pair gave it */
#define POLL_BATCH  16

struct ib_flush {
	_Atomic bool busy; /* the lock of all of it */
	struct ibv_cq *cq;
	struct ibv_qp *qp; /* NULL: there is none, or it has broken */
	struct ibv_mr *mr;
	uint64_t generation; /* of qp */
	uint64_t posted, done;
	uint8_t *landing; /* the byte that is read goes here; a page, there as long as this is */
};

static bool try_enter(struct ib_flush *flush)
{
	return !atomic_exchange_explicit(&flush->busy, true, memory_order_acquire);
}

static void leave(struct ib_flush *flush)
{
	atomic_store_explicit(&flush->busy, false, memory_order_release);
}

/* --- making --- */

static void unmake(struct ib_nic *nic, struct ib_flush *flush)
{
	if (flush->qp)
		nic->verbs->destroy_qp(flush->qp);
	if (flush->cq)
		nic->verbs->destroy_cq(flush->cq);
	if (flush->mr)
		nic->verbs->dereg_mr(flush->mr);
	flush->qp = NULL;
	flush->cq = NULL;
	flush->mr = NULL;
}

static int make_queues(struct ib_nic *nic, struct ib_flush *flush)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = DEPTH,
						  .max_recv_wr = 1,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	flush->mr = nic->verbs->reg_mr(nic->pd, flush->landing, pinned_round(1),
				       IBV_ACCESS_LOCAL_WRITE);
	if (flush->mr)
		flush->cq = nic->verbs->create_cq(nic->context, DEPTH, NULL, NULL, 0);
	init.send_cq = init.recv_cq = flush->cq;
	if (flush->cq)
		flush->qp = nic->verbs->create_qp(nic->pd, &init);
	return flush->qp ? 0 : -ENOMEM;
}

static int make(struct ib_nic *nic, struct ib_flush *flush, char *why, size_t why_bytes)
{
	struct ibv_port_attr attr = ib_nic_attr(nic);
	struct gid gid;
	const struct ib_loop_port itself = { nic->cfg, nic->verbs, nic->port, &attr, &gid };
	char what[160];
	int match, ret;

	unmake(nic, flush);
	errno = 0;
	ret = make_queues(nic, flush);
	if (ret)
		snprintf(what, sizeof(what), "%s", errno ? strerror(errno) : "no reason given");
	else
		ret = ib_nic_choose_gid(nic, NULL, 0, &gid, &match, what, sizeof(what));
	if (!ret)
		ret = ib_loop_connect(&itself, flush->qp, what, sizeof(what));
	if (ret) {
		snprintf(why, why_bytes, "a queue pair to flush GPU memory cannot be made: %s",
			 what);
		unmake(nic, flush);
		return ret;
	}
	flush->generation++;
	flush->posted = flush->done = 0;
	return 0;
}

static struct ib_flush *create(void)
{
	struct ib_flush *flush = calloc(1, sizeof(*flush));

	if (flush)
		flush->landing = pinned_alloc(1);
	if (flush && !flush->landing) {
		free(flush);
		flush = NULL;
	}
	return flush;
}

int ib_flush_prepare(struct ib_nic *nic, char *why, size_t why_bytes)
{
	static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
	struct ib_flush *flush;
	int ret = 0;

	pthread_mutex_lock(&making);
	flush = atomic_load(&nic->flush);
	if (!flush) {
		flush = create();
		atomic_store(&nic->flush, flush);
	}
	if (flush) {
		while (!try_enter(flush))
			sched_yield();
		if (!flush->qp)
			ret = make(nic, flush, why, why_bytes);
		leave(flush);
	} else {
		snprintf(why, why_bytes, "out of memory");
		ret = -ENOMEM;
	}
	pthread_mutex_unlock(&making);
	return ret;
}

/* --- use --- */

static ANYNET_COLD void broke(struct ib_nic *nic, struct ib_flush *flush, int status)
{
	anynet_info(
		"dev %s: the queue pair that flushes GPU memory broke (status %d); CUDA does it until there is another",
		nic->dev->name, status);
	unmake(nic, flush);
}

static void take_completions(struct ib_nic *nic, struct ib_flush *flush)
{
	struct ibv_wc wcs[POLL_BATCH];
	int n = ibv_poll_cq(flush->cq, POLL_BATCH, wcs);

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

int ib_flush_post(struct ib_nic *nic, const void *addr, uint32_t rkey, uint64_t *ticket)
{
	struct ib_flush *flush = atomic_load_explicit(&nic->flush, memory_order_acquire);
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_READ,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { .remote_addr = (uintptr_t)addr, .rkey = rkey } },
			   *bad;
	int ret = -EIO;

	if (!flush)
		return -EIO;
	if (!try_enter(flush))
		return -EAGAIN;
	if (flush->qp && flush->posted - flush->done == DEPTH)
		take_completions(nic, flush);
	if (flush->qp && flush->posted - flush->done == DEPTH) {
		ret = -EAGAIN;
	} else if (flush->qp) {
		sge = (struct ibv_sge){ (uintptr_t)flush->landing, 1, flush->mr->lkey };
		ret = ibv_post_send(flush->qp, &wr, &bad);
		if (ret)
			broke(nic, flush, ret);
		ret = ret ? -EIO : 0;
		*ticket = flush->generation << TICKET_BITS | ++flush->posted;
	}
	leave(flush);
	return ret;
}

int ib_flush_done(struct ib_nic *nic, uint64_t ticket)
{
	struct ib_flush *flush = atomic_load_explicit(&nic->flush, memory_order_acquire);
	uint64_t number = ticket & (((uint64_t)1 << TICKET_BITS) - 1);
	int ret = -EIO;

	if (!try_enter(flush))
		return 0;
	if (flush->qp && flush->generation == ticket >> TICKET_BITS) {
		if (flush->done < number)
			take_completions(nic, flush);
		if (flush->qp)
			ret = flush->done >= number;
	}
	leave(flush);
	return ret;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iflush: makes data that NICs have written to GPU memory visible to the GPU (net-api.md §3.6). Data that the plugin
 * has copied there is visible already. Each NIC that has written since the last flush is flushed in turn; CUDA flushes
 * if a NIC cannot.
 */
#include <errno.h>
#include <stdlib.h>

#include "device/carrier.h"
#include "message/recv_internal.h"

struct recv_flush {
	struct anynet_request req; /* first */
	bool busy;                 /* between iflush and the test that reported it done */
	bool posted;               /* the flush of the first NIC in `due` is in flight, as `ticket` */
	uint64_t due;              /* bits of the NICs that have not been flushed */
	uint64_t ticket;
	uint64_t since_ms; /* since when neither the NIC nor CUDA can flush; 0 = one can */
	const void *data;  /* in the buffer, registered as mr */
	struct anynet_mr *mr;
};

/* A free flush; NULL = none, or no memory. */
static struct recv_flush *take(struct recv_comm *comm)
{
	if (!comm->flushes) {
		comm->flushes = calloc(ANYNET_REQUESTS, sizeof(*comm->flushes));
		for (int i = 0; comm->flushes && i < ANYNET_REQUESTS; i++) {
			comm->flushes[i].req.comm = &comm->base;
			comm->flushes[i].req.is_flush = true;
		}
	}
	for (int i = 0; comm->flushes && i < ANYNET_REQUESTS; i++)
		if (!comm->flushes[i].busy)
			return &comm->flushes[i];
	return NULL;
}

/* Flushes by CUDA because the NIC cannot. 0; -EAGAIN: CUDA cannot either, but the NIC may do `waits` within
 * ANYNET_RECOVERY_TIMEOUT; or the noted -errno. `waits` NULL: it will not. */
static int flush_by_cuda(struct recv_comm *comm, struct gpu *gpu, struct recv_flush *waits)
{
	int ret = gpu_flush(gpu);

	if (!ret)
		return 0;
	if (ret == -EOPNOTSUPP && waits) {
		if (!waits->since_ms)
			waits->since_ms = os_now_ms();
		if (os_now_ms() - waits->since_ms < (uint64_t)anynet_net.cfg->recovery_timeout_ms)
			return -EAGAIN;
	}
	return comm_note_gpu_fault(&comm->base, NULL, gpu);
}

/* 1: all NICs are flushed; 0: not yet; or -errno. */
static int step(struct recv_comm *comm, struct recv_flush *flush)
{
	while (flush->due) {
		struct ib_nic *nic = ib_nic_opened(__builtin_ctzll(flush->due));
		/* A READ on a port that is down may wait for all retries, which may be minutes. */
		bool skipped = carrier_port_is_down(nic->dev) && !gpu_flush(flush->mr->gpu);
		int ret = 1;

		if (!flush->posted && !skipped) {
			ret = ib_memory_flush(nic, flush->mr, flush->data, &flush->ticket);
			if (ret == -EAGAIN)
				return 0;
			flush->posted = !ret;
		}
		if (flush->posted && !skipped)
			ret = ib_memory_flushed(nic, flush->ticket);
		if (!ret)
			return 0;
		if (ret < 0) {
			flush->posted = false;
			ret = flush_by_cuda(comm, flush->mr->gpu, ret == -ENODEV ? NULL : flush);
		}
		if (ret < 0)
			return ret == -EAGAIN ? 0 : ret;
		flush->posted = false;
		flush->since_ms = 0;
		flush->due &= flush->due - 1;
	}
	return 1;
}

/* Index of the first buffer in GPU memory that is not empty; -1 = none. */
static int choose(int n, struct anynet_mr *const *mrs)
{
	for (int i = 0; i < n; i++)
		if (mrs[i] && mrs[i]->gpu && mrs[i]->range.bytes)
			return i;
	return -1;
}

/* NICs of flushes that are not done. They may have written this flush's data, too. */
static uint64_t in_flight(const struct recv_comm *comm)
{
	uint64_t due = 0;

	for (int i = 0; comm->flushes && i < ANYNET_REQUESTS; i++)
		due |= comm->flushes[i].busy ? comm->flushes[i].due : 0;
	return due;
}

int recv_flush(struct anynet_comm *base, int n, void *const *data, struct anynet_mr *const *mrs,
	       struct anynet_request **req)
{
	struct recv_comm *comm = (struct recv_comm *)base;
	int which = choose(n, mrs), ret;
	struct recv_flush *flush;
	uint64_t due;

	if (which < 0 || anynet_net.cfg->flush_disable)
		return 0;
	due = comm->wrote | in_flight(comm);
	if (!due)
		return 0;
	flush = take(comm);
	if (!flush) {
		comm->wrote = 0;
		return flush_by_cuda(comm, mrs[which]->gpu, NULL);
	}
	flush->due = due;
	comm->wrote = 0; /* later writes belong to the next flush */
	flush->posted = false;
	flush->since_ms = 0;
	flush->data = data[which];
	flush->mr = mrs[which];
	ret = step(comm, flush);
	if (ret)
		return ret < 0 ? ret : 0;
	flush->busy = true;
	mr_hold(&comm->base, flush->mr);
	*req = &flush->req;
	return 0;
}

bool recv_flush_uses(const struct recv_comm *comm, const struct anynet_mr *mr)
{
	for (int i = 0; comm->flushes && i < ANYNET_REQUESTS; i++)
		if (comm->flushes[i].busy && comm->flushes[i].mr == mr)
			return true;
	return false;
}

int recv_flush_done(struct anynet_request *req)
{
	struct recv_comm *comm = (struct recv_comm *)req->comm;
	struct recv_flush *flush = (struct recv_flush *)req;
	int ret = step(comm, flush);

	if (ret > 0) {
		mr_drop(&comm->base, flush->mr);
		flush->busy = false;
	}
	return ret;
}

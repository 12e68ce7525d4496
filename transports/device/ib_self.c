/* SPDX-License-Identifier: Apache-2.0 */
/* A nic's queue pair to itself; see ib_self.h. */
#include "device/ib_self.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <nccl_net/util.h>

#include "base/libc_text.h"
#include "base/net.h"
#include "base/pinned.h"
#include "device/ib_loopback.h"

#define READS_MAX 16 /* max RDMA READs in flight, if the device supports as many */

static int make_queues(struct ib_nic *nic, void *landing, struct ib_self *self)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = IB_SELF_DEPTH,
						  .max_recv_wr = 1,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };

	self->mr = nic->verbs->reg_mr(nic->pd, landing, pinned_round(1),
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	if (self->mr)
		self->cq = nic->verbs->create_cq(nic->context, IB_SELF_DEPTH, NULL, NULL, 0);
	init.send_cq = init.recv_cq = self->cq;
	if (self->cq)
		self->qp = nic->verbs->create_qp(nic->pd, &init);
	return self->qp ? 0 : -ENOMEM;
}

int ib_self_make(struct ib_nic *nic, void *landing, struct ib_self *self, char *why,
		 size_t why_bytes)
{
	size_t reads = anynet_min((size_t)nic->limits.max_qp_rd_atom,
				  (size_t)nic->limits.max_qp_init_rd_atom);
	struct ibv_port_attr attr = ib_nic_attr(nic);
	struct gid gid;
	const struct ib_loop_port itself = {
		.cfg = anynet_net.cfg,
		.verbs = nic->verbs,
		.number = nic->port,
		.attr = &attr,
		.gid = &gid,
		.timeout = (uint8_t)anynet_net.cfg->ib_timeout,
		.retries = (uint8_t)anynet_net.cfg->ib_retry_cnt,
		.reads = (uint8_t)anynet_max(1, anynet_min(READS_MAX, reads)),
	};
	int ret;

	*self = (struct ib_self){ .qp = NULL };
	errno = 0;
	ret = make_queues(nic, landing, self);
	if (ret)
		snprintf(why, why_bytes, "%s", errno ? error_text(errno) : "no reason given");
	else
		ret = ib_nic_choose_gid(nic, NULL, NULL, &gid, why, why_bytes);
	if (!ret)
		ret = ib_loop_connect(&itself, self->qp, why, why_bytes);
	if (ret)
		ib_self_unmake(nic, self);
	return ret;
}

void ib_self_unmake(struct ib_nic *nic, struct ib_self *self)
{
	if (self->qp)
		nic->verbs->destroy_qp(self->qp);
	if (self->cq)
		nic->verbs->destroy_cq(self->cq);
	if (self->mr)
		nic->verbs->dereg_mr(self->mr);
	*self = (struct ib_self){ .qp = NULL };
}

int ib_self_post(struct ib_self *self, enum ibv_wr_opcode opcode, void *local, uint32_t bytes,
		 uint64_t remote, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)local, bytes, self->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = opcode,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { .remote_addr = remote, .rkey = rkey } },
			   *bad;

	return ibv_post_send(self->qp, &wr, &bad);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A queue pair of an open nic to itself, which reads and writes what is registered there: for flushes, and for the
 * proof that GPU memory is reached. */
#ifndef ANYNET_IB_SELF_H
#define ANYNET_IB_SELF_H

#include "device/ib_nic.h"

#define IB_SELF_DEPTH 256 /* requests in flight at once */

struct ib_self {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr; /* of a page of the caller's */
};

/* With the page at `landing` registered for it. Blocks for as long as the driver takes. 0, or -errno and `why`. */
int ib_self_make(struct ib_nic *nic, void *landing, struct ib_self *self, char *why,
		 size_t why_bytes);

/* Nothing reads or writes by it when this returns. What is not there is fine. */
void ib_self_unmake(struct ib_nic *nic, struct ib_self *self);

/* Post a WRITE or READ of `bytes` between `local`, in the page, and `remote`, registered with `rkey`. 0 or an
 * errno. */
int ib_self_post(struct ib_self *self, enum ibv_wr_opcode opcode, void *local, uint32_t bytes,
		 uint64_t remote, uint32_t rkey);

#endif

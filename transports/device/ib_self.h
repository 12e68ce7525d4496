/* SPDX-License-Identifier: Apache-2.0 */
/* A queue pair of an open nic that is connected to itself. It reads and writes memory registered there, for flushes and
 * for the proof that the nic reaches GPU memory. */
#ifndef ANYNET_IB_SELF_H
#define ANYNET_IB_SELF_H

#include "device/ib_nic.h"

#define IB_SELF_DEPTH 256 /* max requests in flight */

struct ib_self {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr; /* registration of the caller's page */
};

/* Creates the queue pair and registers the page at `landing`. Takes as long as the driver takes. 0, or -errno: `why`
 * has the reason. */
int ib_self_make(struct ib_nic *nic, void *landing, struct ib_self *self, char *why,
		 size_t why_bytes);

/* Destroys what there is. Nothing reads or writes through it afterwards. */
void ib_self_unmake(struct ib_nic *nic, struct ib_self *self);

/* Posts a WRITE or READ of `bytes` between `local`, in the page, and `remote`, registered with `rkey`. 0 or a positive
 * errno. */
int ib_self_post(struct ib_self *self, enum ibv_wr_opcode opcode, void *local, uint32_t bytes,
		 uint64_t remote, uint32_t rkey);

#endif

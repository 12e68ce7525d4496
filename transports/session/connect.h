/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's connect, in steps that never block: dial, hello, WELCOME, then all further streams in parallel, then READY. */
#ifndef ANYNET_CONNECT_H
#define ANYNET_CONNECT_H

#include <nccl_net/comm.h>
#include <nccl_net/wire.h>

/* One step of anynet_connect. When it returns a comm, the comm is open, its READY is sent or queued, and it is in the
 * registry. */
int connect_step(const struct anynet_device *dev, const struct anynet_connect_options *opts, void *handle,
		 struct anynet_comm **comm);

/* Is a send comm with this comm_id and token being connected? */
bool connect_knows(uint64_t comm_id, const uint8_t token[ANYNET_TOKEN_BYTES]);

/* Free abandoned connects: those that NCCL has not called for ANYNET_CONNECT_TIMEOUT, and all of `owner` (NULL = none).
 * Those with a step in progress are left alone. */
void connect_trim(const void *owner);

#endif

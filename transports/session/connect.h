/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting, in steps that wait for nobody: dial, hello, welcome, then all further streams side by side, then READY. */
#ifndef ANYNET_CONNECT_H
#define ANYNET_CONNECT_H

#include <nccl_net/comm.h>
#include <nccl_net/wire.h>

/* A step of anynet_connect. *comm: it is open, has told the acceptor so, and is in the registry if there was memory for that. */
int connect_step(const struct anynet_device *dev, const struct anynet_connect_options *opts, void *handle,
		 struct anynet_comm **comm);

/* Is the send comm of this name still being connected? */
bool connect_knows(uint64_t comm_id, const uint8_t token[ANYNET_TOKEN_BYTES]);

/* Free connects that NCCL abandoned and no call works on: those past their deadline, and all of this owner (NULL = nobody). */
void connect_trim(const void *owner);

#endif

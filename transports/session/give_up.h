/* SPDX-License-Identifier: Apache-2.0 */
/* Part of recovery: give up, because the peer's process has ended, no connection can be made, connections move nothing
 * (progress.h), or an answer ends the comm. With the comm's lock. */
#ifndef ANYNET_GIVE_UP_H
#define ANYNET_GIVE_UP_H

#include "session/comm.h"

/* Fail the comm, or if it is idle, mark it as closed by the peer; then free its recovery and close its streams. Does
 * nothing if the peer's last frames, which it receives first, bring progress or an error. `why` is for the log. */
void give_up(struct anynet_comm *comm, int err, const char *why, uint64_t now_ms);

/* Give up if the peer has ended, or if recovery takes too long. May free the recovery. */
void give_up_if_lost(struct anynet_comm *comm, uint64_t now_ms);

/* Receive the peer's last frames, which may be unread in connections that stand. False: do not give up, because they
 * brought progress or an error, or wait for receives that NCCL has not posted yet. */
bool give_up_read_last(struct anynet_comm *comm);

/* READY may not have arrived. Until it has, accept does not return, and NCCL may post nothing. */
static inline bool comm_is_half_built(const struct anynet_comm *comm)
{
	return comm->is_send ? !send_comm_ready(comm) : !recv_comm_ready(comm);
}

#endif

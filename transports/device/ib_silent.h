/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers whose Ethernet address the kernel cannot find. Over RoCE it looks for it when a queue pair is connected, and the
 * call takes a second if nobody answers. So such a peer gets a pause in which the kernel is not asked. Any thread.
 */
#ifndef ANYNET_IB_SILENT_H
#define ANYNET_IB_SILENT_H

#include "device/ib_nic.h"

/* Has the peer with this GID a pause? */
bool ib_silent_pauses(struct ib_nic *nic, const union ibv_gid *peer);

/* The kernel has been asked: nobody has answered, so that its next pause begins, or it was found. */
void ib_silent_note(struct ib_nic *nic, const union ibv_gid *peer, bool silent);

/* The port has changed: all pauses end. */
void ib_silent_forget(struct ib_nic *nic);

#endif

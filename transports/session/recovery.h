/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recovery: new connections for streams that broke or give no sign (docs/wire.md, "Resume"). The sender
 * dials, over every pair of addresses that both sides know; the receiver, while none of its streams
 * works and it waits for something, asks whether the sender still lives. A comm that finds nothing
 * within ANYNET_RECOVERY_TIMEOUT, or whose peer is gone, fails. All calls with the comm's lock.
 */
#ifndef ANYNET_RECOVERY_H
#define ANYNET_RECOVERY_H

#include "session/comm.h"
#include "wire/auth.h"

static inline bool recovery_wanted(void)
{
	return anynet_net.cfg->recovery_timeout_ms > 0;
}

/* A stream has broken, or its path is suspect. `elsewhere`: begin with other paths than its present one. */
void recovery_stream(struct anynet_comm *comm, struct anynet_stream *stream, bool elsewhere);

/* The path of a stream is well again by itself. */
void recovery_cancel(struct anynet_comm *comm, struct anynet_stream *stream);

/* Has the peer been told of a new connection for this stream, which does not stand yet? */
bool recovery_announced(const struct anynet_comm *comm, const struct anynet_stream *stream);

/* Something has changed (a link came back): try at once what was put off. */
void recovery_hurry(struct anynet_comm *comm);

/* One step of what is in progress. */
void recovery_step(struct anynet_comm *comm, uint64_t now_ms);

void recovery_free(struct anynet_comm *comm);

/* --- the receiver's side --- */

/* A connection that is to resume a stream, handed over by the accept engine (any thread, without the
 * lock). It owns `fd`. -ENOMEM: it does not. `auth` as for endpoint_admit. */
int recovery_post(struct anynet_comm *comm, int fd, const struct anynet_wire_hello *hello,
	      const struct auth *auth);

/* Answer those that were handed over. */
void recovery_take_posted(struct anynet_comm *comm);
void recovery_drop_posted(struct anynet_comm *comm);

#endif

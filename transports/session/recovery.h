/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recovery: new connections for streams that are broken or suspect (docs/wire.md, "Resume"). The sender dials, over
 * every pair of addresses that both sides know. A receiver that waits for something and has no working stream sends
 * PROBEs to learn whether the sender still exists. The comm fails if the peer is gone, or if nothing is found within
 * ANYNET_RECOVERY_TIMEOUT. All calls with the comm's lock, unless stated otherwise.
 */
#ifndef ANYNET_RECOVERY_H
#define ANYNET_RECOVERY_H

#include "session/comm.h"
#include "wire/auth.h"

static inline bool recovery_wanted(void)
{
	return anynet_net.cfg->recovery_timeout_ms > 0;
}

/* Start to reconnect a stream that is broken or suspect. `elsewhere`: try its present pair last. A receive comm does
 * not dial: only its PROBEs start. */
void recovery_stream(struct anynet_comm *comm, struct anynet_stream *stream, bool elsewhere);

/* Send comm: start to dial a better path for a stream that works, if nothing is dialled for it yet. */
void recovery_home(struct anynet_comm *comm, struct anynet_stream *stream);

/* The stream's path works again by itself: stop dialling, unless a RESUME has been sent. */
void recovery_cancel(struct anynet_comm *comm, struct anynet_stream *stream);

/* Send comm: has a RESUME been sent for this stream whose connection does not carry it yet? */
bool recovery_announced(const struct anynet_comm *comm, const struct anynet_stream *stream);

/* A link has changed: end all pauses between tries. */
void recovery_hurry(struct anynet_comm *comm);

/* One step of recovery; comm->session->recovery must not be NULL. May free it, end streams and fail the comm. */
void recovery_step(struct anynet_comm *comm, uint64_t now_ms);

/* --- the receiver's side --- */

/* Hand over a connection whose hello is RESUME or QP. Called by the accept engine, in any thread, without the comm's
 * lock. 0: the comm owns `fd`; -ENOMEM: it does not. `auth`: as for endpoint_admit. */
int recovery_post(struct anynet_comm *comm, int fd, const struct anynet_wire_hello *hello,
	      const struct auth *auth);

/* recovery_take_posted: answer the connections handed over. recovery_drop_posted: close them. */
void recovery_take_posted(struct anynet_comm *comm);
void recovery_drop_posted(struct anynet_comm *comm);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a stream make progress over its connections? A connection that stands proves little: the
 * network may let a handshake through and lose every larger packet, a middlebox may reset it after the
 * same byte each time, the bytes of a chunk may never match their checksum. Only the peer's position
 * does, or its kernel's acknowledgements where the peer's process is slow. Connections that moved nothing
 * although there was something to move are counted, and the time they took; after ANYNET_RECOVERY_TIMEOUT
 * of it the comm fails. All calls with the comm's lock.
 */
#ifndef ANYNET_PROGRESS_H
#define ANYNET_PROGRESS_H

#include "session/comm.h"

/* What gets through at least, where the handshake does: TCP's segments, with their options. */
#define PROGRESS_NARROW_BYTES ((int)sizeof(struct anynet_wire_hello))

/* A connection begins, from this position of the receiver. */
void progress_begin(struct anynet_stream *stream, struct stream_position from);

/* It ends. Before ops->sever. */
void progress_end(struct anynet_stream *stream, uint64_t now_ms);

/* Has nothing moved for so long that it will not? */
bool progress_is_over(struct anynet_stream *stream, uint64_t now_ms);

/* For how long a new connection is put off: those that begin where the last one did shall not follow each other
 * at once. */
uint64_t progress_pause_ms(const struct anynet_stream *stream);

/* A queue pair that was used has broken (qp.err), if there was one. A fabric may carry all but what matters: the next queue pair
 * is put off for so long then, ever longer. */
void progress_qp_end(struct anynet_stream *stream);
uint64_t progress_qp_pause_ms(const struct anynet_stream *stream);

/* Are packets of full size lost between these two NICs, by all that is known? */
bool progress_is_narrow(const struct anynet_stream *stream, struct anynet_wire_pair pair);

/* Why the comm fails, for a message. */
void progress_describe(const struct anynet_stream *stream, char *text, size_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a stream make progress over its connections? An established connection proves little: the network may pass the
 * handshake and lose every larger packet, a middlebox may reset it after the same byte each time, or a checksum may
 * never match. Progress is a new position of the receiver or, if the peer's process is slow, bytes acknowledged by its
 * kernel. Connections that had something to move and moved nothing are counted, and so is their time. After
 * ANYNET_RECOVERY_TIMEOUT of it the comm fails. All calls with the comm's lock.
 */
#ifndef ANYNET_PROGRESS_H
#define ANYNET_PROGRESS_H

#include "session/comm.h"

/* Segment size, TCP options included, of a narrow connection: packets as large as the hello's get through. */
#define PROGRESS_NARROW_BYTES ((int)sizeof(struct anynet_wire_hello))

/* The stream has a new connection, which continues from this position of the receiver. */
void progress_begin(struct anynet_stream *stream, struct stream_position from);

/* Its connection ends. Call this before ops->sever. */
void progress_end(struct anynet_stream *stream, uint64_t now_ms);

/* Its connection stands. If that has moved something, the connections before it count no longer: it may stand for days. */
void progress_look(struct anynet_stream *stream, uint64_t now_ms);

/* Has nothing moved for ANYNET_RECOVERY_TIMEOUT, so that the comm must fail? */
bool progress_is_over(struct anynet_stream *stream, uint64_t now_ms);

/* The number of connections in a row that have brought nothing, or not moved the receiver's position. */
unsigned progress_in_vain(const struct anynet_stream *stream);

/* Delay before the next connection, in ms. It grows with the number of connections in a row that began at the same
 * position. */
uint64_t progress_pause_ms(const struct anynet_stream *stream);

/* Pauses between tries to return to a stream's own path. */
#define HOME_MIN_MS 1000
#define HOME_MAX_MS 10000

/* progress_lapse: after ops->sever, count the connection if it was the best that the stream can have, a queue pair or else
 * its own pair, and has broken. progress_home_pause_ms: delay before the stream returns to such a path, in ms. It doubles with
 * each one in a row that broke within a minute, or moved nearly nothing: a fabric may pass the proof of a queue pair and
 * lose the data. */
void progress_lapse(struct anynet_stream *stream, uint64_t now_ms);
uint64_t progress_home_pause_ms(const struct anynet_stream *stream);

/* Do the stream's connections so far, the present one included, show that full-size packets are lost between these two
 * NICs? */
bool progress_is_narrow(struct anynet_stream *stream, struct anynet_wire_pair pair);

/* Fill `text` with the reason, if progress_is_over. */
void progress_describe(const struct anynet_stream *stream, char *text, size_t bytes);

#endif

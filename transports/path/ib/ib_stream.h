/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of an IB device: a TCP stream with a queue pair beside it. While the queue pair is up it carries the stream's
 * frames, and the TCP connection only tells that the peer is there; without a queue pair it is a TCP stream.
 * The stream is the same, so that it goes on by the other when one breaks (docs/ib.md).
 */
#ifndef ANYNET_IB_STREAM_H
#define ANYNET_IB_STREAM_H

#include "memory/ib_memory.h"
#include "path/ib/ib_qp.h"
#include "path/tcp/tcp_stream.h"

struct ib_stream {
	struct tcp_stream tcp; /* first */
	const struct anynet_stream_ops *over_tcp;
	struct ib_qp *qp; /* NULL: frames go over TCP */
	bool had_qp;      /* so that it is worth asking for another one */
	/* Receive comm: fenced ones that brought what is not consumed, oldest first */
	struct ib_qp *rest;
	bool by_qp;                  /* send comm: what is out went over a queue pair … */
	uint64_t arrived;            /* … which is known to have brought all before this frame */
	size_t bytes_out;            /* … and in the others, as they lie on the wire */
	uint64_t asked;              /* the frame that ASK was sent for, plus one */
	bool sends_cts;              /* receive comm: posted receives are told to the sender */
	bool takes_frames;           /* … and that small messages may come in frames */
	bool asks;                   /* … and it knows from which on it has to ask */
	struct anynet_wire_cts *cts; /* send comm: of messages that had to ask, by slot */
};

static inline struct ib_stream *to_ib(struct anynet_stream *stream)
{
	return (struct ib_stream *)stream;
}

/* Of a linked stream: for a frame, which takes two requests at most and a slot of the peer's. */
static inline bool ib_stream_has_room(const struct ib_stream *stream)
{
	return ib_qp_has_room(stream->qp, 2) && ib_qp_credits(stream->qp);
}

/* What has come over the TCP connection: 1 something, 0 nothing, -errno it has ended. The word that the
 * RDMA connection manager has failed is taken here. */
int ib_peek(struct ib_stream *stream);

/* The queue pair that frames go by; NULL = over TCP. */
static inline void ib_stream_set_qp(struct ib_stream *stream, struct ib_qp *qp)
{
	stream->qp = qp;
	stream->tcp.base.qp.carries = qp;
	stream->tcp.base.qp.frames = qp && qp->is_send ? &qp->memory.cts_ring->frames : NULL;
	stream->tcp.base.qp.gathers = !qp || qp->limits.sges > 1;
}

/* Frames cannot go over the queue pair any more, or never could. */
void ib_stream_drop_qp(struct ib_stream *stream);

int ib_transmit_data(struct anynet_stream *stream); /* of a send comm */
int ib_transmit_control(struct anynet_stream *stream);
int ib_receive_data(struct anynet_stream *stream); /* of a receive comm */
int ib_receive_control(struct anynet_stream *stream);

/* Send comm: where the queue pair may write this message; NULL: the peer has not said so on this stream. */
const struct anynet_wire_cts *ib_find_cts(const struct ib_stream *stream,
					  const struct send_msg *msg);

/* Send comm: may the message go in a frame? Without bytes it does. */
bool ib_goes_in_frame(const struct ib_qp *qp, const struct send_msg *msg);

/* Frames before number `end` have arrived. */
void ib_confirm(struct ib_stream *stream, uint64_t end);

/* From time to time: the receive for the oldest message that waits may be too small. */
void ib_show_oldest(struct ib_stream *stream);

/* Receive comm: leave the queue pair. Nothing is written through it when this returns; what it has brought comes
 * before all else of the stream (ib_rx.c). */
void ib_leave_qp(struct ib_stream *stream);
uint64_t ib_rest_frames(const struct ib_stream *stream); /* of what it has brought */
void ib_free_rest(struct ib_stream *stream);

#endif

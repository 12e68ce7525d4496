/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of an IB device: a TCP stream with a queue pair beside it. While there is a queue pair, it carries the
 * stream's frames, and the TCP connection only shows that the peer is alive. If its network fails, the queue pair goes on
 * alone. Without a queue pair, it behaves as a TCP stream.
 * Frames are numbered the same way over both, so either path can resume the stream when the other breaks (docs/ib.md).
 */
#ifndef ANYNET_IB_STREAM_H
#define ANYNET_IB_STREAM_H

#include <stdlib.h>

#include "memory/ib_memory.h"
#include "path/ib/ib_flow.h"
#include "path/ib/ib_qp.h"
#include "path/tcp/tcp_stream.h"

/* What this end has done with a queue pair. */
struct ib_use {
	/* Send comm */
	struct anynet_wire_cts *cts; /* CTS that came in frames, by slot; NULL = none */
	uint64_t asked;              /* 1 + the frame for which ASK was last sent; 0 = none */
	uint64_t waits;              /* 1 + the frame that last had to wait for its CTS; 0 = none */
	size_t bytes_out;            /* bytes in flight, headers included */
	struct ib_flow flow;
	/* Receive comm */
	bool sends_cts;    /* it has begun to send CTS */
	bool takes_frames; /* last `frames` written to the peer's CTS ring */
	bool asks;         /* ASK_ALL has been sent */
};

struct ib_stream {
	struct tcp_stream tcp;                    /* first */
	const struct anynet_stream_ops *over_tcp; /* operations of the TCP stream */
	struct ib_qp *qp;                         /* NULL = frames go over TCP */
	struct ib_use use;                        /* of `qp` */
	/* Receive comm: fenced queue pairs with frames that are not consumed, oldest first */
	struct ib_qp *rest;
	bool by_qp; /* send comm: the frames in flight were sent by a queue pair */
};

static inline struct ib_stream *to_ib(struct anynet_stream *stream)
{
	return (struct ib_stream *)stream;
}

/* The stream has a queue pair. Is there room for a frame, that is for two work requests and in the peer's slots? */
static inline bool ib_stream_has_room(const struct ib_stream *stream)
{
	return ib_qp_has_room(stream->qp, 2) && ib_qp_credits(stream->qp);
}

/* Looks at the TCP connection beside the queue pair. 0; or -errno: the stream's path has ended. If the connection has
 * failed and the queue pair works, it goes on alone: 0.
 * Receive comm: if data has come, the sender has given up the queue pair, and so does this end. But a PING may say that the
 * RDMA CM has failed: then this connects without the CM and answers. */
int ib_peek(struct ib_stream *stream);

/* Sets the queue pair that carries the frames; NULL = TCP does. Its use begins. */
static inline void ib_stream_set_qp(struct ib_stream *stream, struct ib_qp *qp)
{
	free(stream->use.cts);
	stream->use = (struct ib_use){ .cts = NULL };
	stream->qp = qp;
	stream->tcp.base.qp.carries = qp;
	stream->tcp.base.qp.frames = qp && qp->is_send ? &qp->memory.cts_ring->frames : NULL;
	if (!qp) /* the rest stays: what goes over TCP may be sent again by the next one */
		return;
	stream->tcp.base.qp.fetches = qp->limits.sges < 2;
	stream->tcp.base.qp.nic = qp->nic->dev;
}

/* The NIC of the queue pair cannot register what the comm needs: `err`, an errno, and `why`. If it is one of the comm's
 * device, the comm uses TCP. Else the stream had only moved to it, and the comm makes no more queue pairs on that NIC. A
 * device that has failed, or fails (EIO, ENODEV), is opened again, so it changes nothing. The caller breaks the stream with
 * the returned -errno. */
int ib_leave_nic(struct ib_stream *stream, int err, const char *why) ANYNET_COLD;

int ib_transmit_data(struct anynet_stream *stream);    /* send comm */
int ib_transmit_control(struct anynet_stream *stream); /* receive comm */
int ib_receive_data(struct anynet_stream *stream);     /* receive comm */
int ib_receive_control(struct anynet_stream *stream);  /* send comm */

/* Send comm: copies the message's CTS on this stream. The peer may overwrite the one in the CTS ring at any time. False = it
 * has not come. */
bool ib_find_cts(const struct ib_stream *stream, const struct send_msg *msg,
		 struct anynet_wire_cts *cts);

/* Send comm: does the message's payload travel in its frame, without a CTS? An empty message always does. */
bool ib_goes_in_frame(const struct ib_stream *stream, const struct send_msg *msg);

/* Send comm: reports the frames before number `end` as arrived. */
void ib_confirm(struct ib_stream *stream, uint64_t end);

/* Send comm, called periodically: sends LOOK for the oldest message that waits for a CTS. A receive that is
 * too small may get no CTS; LOOK makes the receiver report the mismatch. One that is posted gets its CTS again: an older
 * CTS may have arrived after it. */
void ib_show_oldest(struct ib_stream *stream);

/* Receive comm: fences the queue pair and moves it to `rest`. The NIC writes nothing through it after this returns. The
 * frames it has brought are consumed before all that come by another path. */
void ib_leave_qp(struct ib_stream *stream);
uint64_t ib_rest_frames(const struct ib_stream *stream); /* numbered frames in `rest` */
void ib_free_rest(struct ib_stream *stream);

#endif

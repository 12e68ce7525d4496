/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving side of a stream with a queue pair. Frames are consumed in the order of their completions. A frame
 * without a posted receive stays in its slot, and so do those behind it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <nccl_net/log.h>

#include "base/libc_text.h"
#include "base/socket.h"
#include "message/recv_internal.h"
#include "path/ib/ib_stream.h"

static int bad_frame(struct ib_stream *stream, uint32_t bytes)
{
	comm_note_fault(stream->tcp.base.comm, &stream->tcp.base, -EPROTO,
			"invalid frame of %u bytes on the queue pair", bytes);
	return -EPROTO;
}

/* The header of a message that came by WRITE WITH IMM: it has answered the CTS of its slot, or it is the next one of
 * the comm, which has one stream. */
static void header_of_written(const struct recv_comm *comm, const struct ib_inbound *inbound,
			      struct anynet_wire_frame *header)
{
	const struct recv_msg *msg = &comm->msgs[inbound->imm >> 24];
	bool asked = msg->state == RECV_MATCHED;

	*header = (struct anynet_wire_frame){
		.type = ANYNET_FRAME_DATA,
		.slot = (uint16_t)(inbound->imm >> 24),
		.tag = asked ? msg->tag : comm->tag,
		.seq = asked ? msg->seq : comm->seen.all,
		.length = inbound->imm & 0xffffff,
		.size = inbound->imm & 0xffffff,
	};
}

/* Takes a DATA frame. `payload`: in the slot, behind the header; NULL = it has been written to its place. */
static int take_data(struct ib_stream *stream, const struct ib_qp *qp,
		     const struct anynet_wire_frame *header, const uint8_t *payload)
{
	struct recv_comm *comm = (struct recv_comm *)stream->tcp.base.comm;
	struct recv_msg *msg;
	uint8_t *dst;
	int ret = recv_place(comm, header, &msg, &dst);

	if (ret)
		return ret;
	if (payload) {
		recv_put(comm, msg, dst, payload, header->length);
		/* The sender believes that it may: `frames` may have arrived out of order, so it is written again. */
		stream->use.takes_frames |= recv_is_on_gpu(msg);
	} else if (header->length && (!msg->sub || msg->unexpected)) {
		return bad_frame(stream, 0); /* no CTS was given for it */
	} else if (anynet_unlikely(comm->base.gpu)) {
		comm->wrote |= ib_memory_bit(qp->nic);
	}
	recv_arrived(comm, msg, header->length);
	return comm->base.fault.err;
}

static const uint8_t *slot_of(const struct ib_qp *qp, const struct ib_inbound *inbound)
{
	return qp->memory.slots + (size_t)inbound->slot * qp->memory.slot_bytes;
}

/* Is a frame of this type numbered in the stream? */
static bool is_counted(uint8_t type)
{
	return type != ANYNET_FRAME_PING && type != ANYNET_FRAME_ASK && type != ANYNET_FRAME_LOOK;
}

/* Takes a frame that lies in its slot, and copies its header. */
static int take_sent(struct ib_stream *stream, const struct ib_qp *qp,
		     const struct ib_inbound *inbound, struct anynet_wire_frame *header)
{
	struct recv_comm *comm = (struct recv_comm *)stream->tcp.base.comm;
	const uint8_t *slot = slot_of(qp, inbound);

	if (inbound->bytes < HEADER_BYTES)
		return bad_frame(stream, inbound->bytes);
	memcpy(header, slot, HEADER_BYTES);
	switch (header->type) {
	case ANYNET_FRAME_ASK:
		return recv_asked(comm, &stream->tcp.base, header);
	case ANYNET_FRAME_LOOK:
		return recv_looked(comm, &stream->tcp.base, header);
	case ANYNET_FRAME_DATA:
		if (inbound->bytes == HEADER_BYTES)
			return take_data(stream, qp, header, NULL);
		if (inbound->bytes == HEADER_BYTES + header->length)
			return take_data(stream, qp, header, slot + HEADER_BYTES);
		return bad_frame(stream, inbound->bytes);
	default:
		return recv_control(comm, &stream->tcp.base, header);
	}
}

static int take_frame(struct ib_stream *stream, const struct ib_qp *qp,
		      const struct ib_inbound *inbound)
{
	struct recv_comm *comm = (struct recv_comm *)stream->tcp.base.comm;
	struct anynet_wire_frame header;
	int ret;

	if (inbound->written && comm->base.stream_count > 1)
		return bad_frame(stream, inbound->bytes);
	if (inbound->written) {
		header_of_written(comm, inbound, &header);
		ret = take_data(stream, qp, &header, NULL);
	} else {
		ret = take_sent(stream, qp, inbound, &header);
	}
	if (!ret && is_counted(header.type)) {
		stream->tcp.base.at.frames++;
		stream->tcp.base.at.part = 0;
	}
	return ret;
}

/* Consumes the inbound frames. 0, -EAGAIN: no receive is posted for the oldest one, or -errno. */
static int consume(struct ib_stream *stream, struct ib_qp *qp)
{
	struct ib_inbound *inbound;
	int ret = 0;

	while (!ret && (inbound = ib_qp_inbound(qp))) {
		ret = take_frame(stream, qp, inbound);
		if (!ret)
			ret = ib_qp_consumed(qp);
	}
	return ret;
}

/* --- frames in fenced queue pairs, which the sender counts as arrived --- */

static void retire_first(struct ib_stream *stream)
{
	struct ib_qp *qp = stream->rest;

	stream->rest = qp->next;
	ib_qp_retire(qp);
}

static int consume_rest(struct ib_stream *stream)
{
	while (stream->rest) {
		int ret = consume(stream, stream->rest);

		if (ret)
			return ret;
		retire_first(stream);
	}
	return 0;
}

void ib_leave_qp(struct ib_stream *stream)
{
	struct ib_qp *qp = stream->qp, **end = &stream->rest;

	ib_qp_end(qp, NULL);
	/* It may have written payload whose frame did not arrive, and that is retransmitted: the flush covers it. */
	if (stream->tcp.base.comm->gpu)
		((struct recv_comm *)stream->tcp.base.comm)->wrote |= ib_memory_bit(qp->nic);
	ib_stream_set_qp(stream, NULL);
	while (*end)
		end = &(*end)->next;
	*end = qp;
	consume_rest(stream);
}

bool ib_stream_take_rest(struct anynet_stream *stream)
{
	consume_rest(to_ib(stream));
	return to_ib(stream)->rest;
}

uint64_t ib_rest_frames(const struct ib_stream *stream)
{
	uint64_t frames = 0;

	for (const struct ib_qp *qp = stream->rest; qp; qp = qp->next)
		for (uint32_t i = qp->rq.head; i != qp->rq.tail; i++) {
			const struct ib_inbound *inbound = &qp->rq.inbound[i % IB_INBOUND];

			frames += inbound->written || is_counted(*slot_of(qp, inbound));
		}
	return frames;
}

void ib_free_rest(struct ib_stream *stream)
{
	while (stream->rest)
		retire_first(stream);
}

/* --- the TCP connection beside the queue pair --- */

/* Does the frame, from TCP, say that the RDMA CM has failed and the same queue pair is to be connected without it? */
static bool wants_rejoin(const struct ib_stream *stream, const struct anynet_wire_frame *frame)
{
	return stream->qp->cm && stream->qp->state == IB_QP_JOINED &&
	       frame->type == ANYNET_FRAME_PING && frame->seq == ANYNET_PING_JOIN;
}

/* Connects without the RDMA CM and returns the PING. The sender waits for it; without it the sender goes on over TCP.
 * False = cannot connect. */
static bool rejoin(struct ib_stream *stream)
{
	struct anynet_wire_frame frame;
	int fd = stream->tcp.base.path.fd;

	recv(fd, &frame, sizeof(frame), MSG_DONTWAIT);
	if (ib_qp_rejoin(stream->qp))
		return false;
	socket_send_whole(fd, &frame, sizeof(frame));
	return true;
}

/* Often the network of the TCP connection has failed, and not the queue pair's. A queue pair that works goes on, and shows by
 * itself if the peer is gone. 0, or `err`: the stream's path has ended. EPIPE: the peer had closed it before. */
static int take_failure(struct ib_stream *stream, int err)
{
	struct anynet_stream *base = &stream->tcp.base;
	const struct anynet_comm *comm = base->comm;

	if (err == -EPIPE || stream->qp->state != IB_QP_UP)
		return err;
	base->path.failed = true;
	anynet_info(
		"%s peer %s dev %s path %u (%s): the TCP connection has failed: %s; the queue pair continues without it",
		comm_direction(comm), comm->peer.host, comm->dev->name, base->index,
		base->path.text, error_text(-err));
	return 0;
}

/* Receive comm: the sender has given up the queue pair, because the proof failed or because it cannot register memory. It
 * has not read the control frames sent through the queue pair, so they are repeated over TCP. */
static void go_over(struct ib_stream *stream)
{
	struct anynet_stream *base = &stream->tcp.base;

	ib_leave_qp(stream);
	recv_tell_again(base->comm, base->index);
	base->path.readable = true;
}

int ib_peek(struct ib_stream *stream)
{
	struct anynet_stream *base = &stream->tcp.base;
	struct anynet_wire_frame frame;
	ssize_t n;

	if (!stream_stands(base) || base->path.failed)
		return 0;
	n = recv(base->path.fd, &frame, sizeof(frame), MSG_PEEK | MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : take_failure(stream, -errno);
	if (!n)
		return -ECONNRESET;
	if (base->comm->is_send ||
	    (n == sizeof(frame) && wants_rejoin(stream, &frame) && rejoin(stream)))
		return 0;
	go_over(stream);
	return 0;
}

/* --- receive comm --- */

/* May the sender still go over to TCP, although nothing waits for it? Before READY it may: it may fail to register its
 * ring after the proof. */
static bool may_leave(const struct ib_stream *stream)
{
	const struct recv_comm *comm = (const struct recv_comm *)stream->tcp.base.comm;

	return stream->qp && (stream->qp->state == IB_QP_JOINED || !comm->ready);
}

static int receive_by_qp(struct ib_stream *stream, int tcp_error)
{
	int broken = ib_qp_poll(stream->qp, NULL), ret;

	if (tcp_error && stream->qp->state == IB_QP_JOINED)
		return tcp_error;
	/* Before the first frame: a request of the proof has been refused here. The sender is about to use TCP. */
	if (anynet_unlikely(broken) && !tcp_error && !stream->qp->rq.tail &&
	    stream_stands(&stream->tcp.base)) {
		ib_leave_qp(stream);
		return stream->over_tcp->receive(&stream->tcp.base);
	}
	ret = consume(stream, stream->qp);
	if (!ret && tcp_error) /* before READY: nobody else looks at the connection, or waits */
		ret = tcp_error;
	/* On a new queue pair the sender has no CTS yet, not even for receives posted long ago. */
	if (!ret && !broken && !stream->use.sends_cts)
		ret = ib_transmit_control(&stream->tcp.base);
	return ret ? ret : broken;
}

int ib_receive_data(struct anynet_stream *base)
{
	struct ib_stream *stream = to_ib(base);
	bool ended = base->path.ended;
	/* The sender's first frame decides on the path: if it comes over TCP, the queue pair is not used. */
	int tcp_error = may_leave(stream) ? ib_peek(stream) : 0, ret = consume_rest(stream);

	if (!ret && !stream->qp)
		return stream->over_tcp->receive(base);
	if (!ret)
		ret = receive_by_qp(stream, tcp_error);
	if (ret == -EAGAIN) {
		base->path.parked = true;
		return 0;
	}
	return !ret && ended ? -ECONNRESET : ret;
}

/* --- send comm --- */

/* The receiver has taken so many frames. Those that no completion has confirmed are done when the adapter reads their memory
 * no more. */
static void take_bye(struct ib_stream *stream, uint64_t frames)
{
	uint64_t arrived = 0;

	if (frames <= stream->tcp.base.log.arrived)
		return;
	ib_qp_fence(stream->qp, &arrived);
	ib_confirm(stream, anynet_max(arrived, frames));
}

static int take_control(struct ib_stream *stream, const struct ib_inbound *inbound)
{
	struct send_comm *comm = (struct send_comm *)stream->tcp.base.comm;
	const uint8_t *slot = slot_of(stream->qp, inbound);
	struct anynet_wire_frame header;

	if (inbound->written || inbound->bytes < HEADER_BYTES)
		return bad_frame(stream, inbound->bytes);
	memcpy(&header, slot, HEADER_BYTES);
	if (inbound->bytes != HEADER_BYTES + header.length)
		return bad_frame(stream, inbound->bytes);
	if (header.type == ANYNET_FRAME_CTS && header.slot < ANYNET_WIRE_SLOTS &&
	    header.length == sizeof(struct anynet_wire_cts)) {
		if (!stream->use.cts)
			stream->use.cts = calloc(ANYNET_WIRE_SLOTS, sizeof(*stream->use.cts));
		if (!stream->use.cts)
			return -ENOMEM; /* the queue pair is replaced, and the CTS sent again */
		memcpy(&stream->use.cts[header.slot], slot + HEADER_BYTES, sizeof(*stream->use.cts));
		header.length = 0;
	}
	if (header.type == ANYNET_FRAME_ASK_ALL) {
		stream->use.asked = 0; /* an ASK that came before was no more than a LOOK there */
		send_ask_all(comm);
		return 0;
	}
	if (header.type == ANYNET_FRAME_BYE)
		take_bye(stream, header.offset);
	return send_control(comm, &stream->tcp.base, &header, slot + HEADER_BYTES);
}

int ib_receive_control(struct anynet_stream *base)
{
	struct ib_stream *stream = to_ib(base);
	struct ib_inbound *inbound;
	bool ended = base->path.ended;
	uint64_t arrived = 0;
	int ret = 0;

	send_look_for_cts((struct send_comm *)base->comm, base);
	if (!stream->qp)
		return stream->over_tcp->receive(base);
	ib_qp_poll(stream->qp, &arrived);
	ib_confirm(stream, arrived);
	while (!ret && (inbound = ib_qp_inbound(stream->qp))) {
		ret = take_control(stream, inbound);
		if (!ret)
			ret = ib_qp_consumed(stream->qp);
	}
	if (!ret)
		ret = stream->qp->fault.err;
	return ret ? ret : ended ? -ECONNRESET : 0;
}

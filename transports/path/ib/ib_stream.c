/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an IB device's stream: create, sever, resume, drain, close; the tables of stream operations. */
#include "path/ib/ib_stream.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <nccl_net/log.h>

#include "device/carrier.h"
#include "message/send_internal.h"
#include "path/ib/ib_setup.h"

/* Gives up the queue pair, which the caller has fenced or never used: frees what belongs to it and retires it. */
static void drop_qp(struct ib_stream *stream)
{
	struct ib_qp *qp = stream->qp;

	ib_stream_set_qp(stream, NULL);
	/* Not when the queue pair is freed: that is later, and the comm may free the ring's memory before. */
	if (qp->ring)
		qp->nic->verbs->dereg_mr(qp->ring);
	qp->ring = NULL;
	ib_qp_retire(qp);
}

/* Send comm: fences the queue pair, reports what has arrived, and drops it. */
static void leave_qp(struct ib_stream *stream)
{
	struct anynet_stream *base = &stream->tcp.base;
	uint64_t arrived = 0;
	int err = ib_qp_poll(stream->qp, &arrived); /* the cause, before the fence sets qp->fault.err */

	ib_qp_end(stream->qp, &arrived);
	ib_confirm(stream, arrived);
	base->qp.err = err ? err : base->breaks.err;
	base->qp.brought = base->log.arrived - base->progress.from.frames;
	drop_qp(stream);
}

static void ib_sever(struct anynet_stream *base)
{
	struct ib_stream *stream = to_ib(base);

	if (stream->qp && base->comm->is_send)
		leave_qp(stream);
	else if (stream->qp)
		ib_leave_qp(stream);
	stream->over_tcp->sever(base);
}

/* For local access only: no peer may read or write it. 0 or -errno. */
static int register_ring(struct ib_stream *stream)
{
	const struct send_comm *comm = (const struct send_comm *)stream->tcp.base.comm;
	struct ib_qp *qp = stream->qp;

	errno = 0;
	qp->ring = qp->nic->verbs->reg_mr(qp->nic->pd, comm->ring.memory, comm->ring.bytes,
					  IBV_ACCESS_LOCAL_WRITE);
	return qp->ring ? 0 : errno ? -errno : -EIO;
}

static void take_qp(struct ib_stream *stream, struct ib_qp *qp)
{
	struct anynet_stream *base = &stream->tcp.base;
	int ret = 0;

	ib_stream_set_qp(stream, qp);
	if (!base->comm->is_send)
		return;
	if (qp) {
		qp->sq.signal_all = base->comm->stream_count > 1;
		ret = register_ring(stream);
	}
	if (ret) {
		ib_leave_nic(stream, -ret, "cannot register the ring for small messages");
		drop_qp(stream);
	}
	stream->by_qp = stream->qp;
	/* The receiver uses the path on which the first frame comes. The proof has sent a PING through the queue pair. */
	if (!stream->qp)
		tcp_say_ping(&stream->tcp);
}

static int ib_resume(struct anynet_stream *base, int fd, struct anynet_wire_pair pair,
		     struct stream_position from)
{
	struct ib_stream *stream = to_ib(base);
	struct ib_qp *qp = base->qp.next;
	int ret;

	base->qp.next = NULL;
	if (base->comm->is_send && stream->by_qp)
		ib_confirm(stream, from.frames);
	ret = stream->over_tcp->resume(base, fd, pair, from);
	if (ret) {
		ib_qp_retire(qp);
		return ret;
	}
	take_qp(stream, qp);
	return 0;
}

/* Is the port or its own interface down, and since the queue pair was made? One that reports down from the start may
 * still work, if it only reaches itself. Some drivers report a lost carrier by the interface only (irdma). */
static bool has_lost_port(const struct ib_qp *qp)
{
	const struct anynet_device *dev = qp->nic->dev;
	bool down = carrier_port_is_down(dev) ||
		    (qp->port.gid.ifindex == dev->ifindex && carrier_interface_is_down(dev));

	return down && carrier_losses(dev) != qp->port.losses;
}

/* Streams of a comm that began with queue pairs are in no epoll set. So the end of a connection whose head frame waits for
 * another stream, and which is not read therefore, is looked for here. */
static void look_for_end(struct anynet_stream *base)
{
	struct pollfd end = { .fd = base->path.fd, .events = POLLRDHUP };

	if (base->comm->epfd < 0 && base->comm->stream_count > 1 && poll(&end, 1, 0) > 0)
		base->path.ended = true;
}

static bool ib_signs(struct anynet_stream *base, struct stream_signs *signs)
{
	struct ib_stream *stream = to_ib(base);
	int tcp_error = stream->qp ? ib_peek(stream) : 0;

	if (!stream->qp) {
		look_for_end(base);
		return stream->over_tcp->signs(base, signs);
	}
	*signs = (struct stream_signs){
		.lost = has_lost_port(stream->qp),
		.qp = { .acked = stream->use.flow.acked,
			.busy_us = ib_flow_busy_us(&stream->use.flow),
			.rtt_us = (unsigned)stream->use.flow.rtt_us },
	};
	if (tcp_error)
		base->path.ended = true;
	/* Nothing else polls it while the frame at its head waits. */
	if (base->path.parked && ib_qp_poll(stream->qp, NULL))
		base->path.ended = true;
	/* An error breaks the queue pair: the next poll returns it. */
	if (base->comm->is_send)
		ib_show_oldest(stream);
	else if (stream->qp->state == IB_QP_UP && ib_qp_has_room(stream->qp, 1))
		ib_qp_tell_again(stream->qp);
	return true;
}

/* With a queue pair, only the sender can tell that it is stuck: the receiver does not know what was sent. Frames that no
 * signalled request follows are mostly through. If requests wait, a heartbeat follows, which is signalled. */
static enum stream_moved ib_moved(struct anynet_stream *base)
{
	struct ib_stream *stream = to_ib(base);
	bool is_send = base->comm->is_send;

	if (!stream->qp)
		return stream->over_tcp->moved(base);
	if ((is_send ? base->log.arrived : base->at.frames) != base->progress.from.frames)
		return STREAM_MOVED;
	return is_send && base->log.next != base->log.arrived &&
			       stream->qp->sq.head != stream->qp->sq.tail
		       ? STREAM_STUCK
		       : STREAM_IDLE;
}

/* Will the completion of a request report all that has been posted? */
static bool is_asked_for(const struct ib_qp *qp)
{
	return qp->sq.head != qp->sq.tail && !qp->sq.unsignalled;
}

/* Without a free slot at the peer, a READ shows whether it is there. */
static void ib_ping(struct anynet_stream *base)
{
	struct ib_qp *qp = to_ib(base)->qp;

	if (!qp)
		to_ib(base)->over_tcp->ping(base);
	else if (!base->comm->is_send || qp->state != IB_QP_UP || is_asked_for(qp) ||
		 !ib_qp_has_room(qp, 1))
		return;
	else if (ib_qp_credits(qp))
		ib_qp_ping(qp);
	else
		ib_qp_read(qp);
}

/* Is there another stream that works and has a queue pair? */
static bool others_by_qp(const struct anynet_stream *base)
{
	const struct anynet_comm *comm = base->comm;

	for (unsigned i = 0; i < comm->stream_count; i++) {
		const struct anynet_stream *other = comm->streams[i];

		if (other != base && stream_works(other) && other->qp.carries)
			return true;
	}
	return false;
}

static bool ib_cleared(struct anynet_stream *base, const struct send_msg *msg)
{
	const struct ib_stream *stream = to_ib(base);
	struct anynet_wire_cts cts;

	/* TCP needs no CTS, but another stream's queue pair is faster, so the message waits for that. A stream that is
	 * down may come back with a queue pair: only small messages (with a record) are cleared. */
	if (!stream->qp)
		return (stream_stands(base) || msg->record) && !others_by_qp(base);
	return ib_goes_in_frame(stream, msg) || ib_find_cts(stream, msg, &cts);
}

static int ib_drain(struct anynet_stream *base)
{
	struct ib_stream *stream = to_ib(base);
	int ret;

	if (!stream->qp)
		return stream->over_tcp->drain(base);
	ret = base->ops->receive(base);
	/* A frame that waits for a receive, which will not come, hides what has become of the queue pair. */
	if (!ret && !base->comm->is_send && stream->qp)
		ret = ib_qp_poll(stream->qp, NULL);
	if (ret && ret != -EAGAIN)
		return ret;
	if (!stream->qp || base->bye.due || base->log.next != base->log.end)
		return -EAGAIN;
	/* BYE is signalled: wait for its completion. */
	return stream->qp->sq.head != stream->qp->sq.tail ? -EAGAIN : 0;
}

static void ib_close(struct anynet_stream *base)
{
	struct ib_stream *stream = to_ib(base);

	if (stream->qp) {
		ib_qp_end(stream->qp, NULL);
		drop_qp(stream);
	}
	ib_free_rest(stream);
	ib_qp_retire(base->qp.next);
	stream->over_tcp->close(base);
}

static size_t ib_backlog(struct anynet_stream *base)
{
	const struct ib_stream *stream = to_ib(base);

	if (!stream->qp)
		return stream->over_tcp->backlog(base);
	return ib_stream_has_room(stream) ? stream->use.bytes_out : SIZE_MAX;
}

static struct stream_position ib_position(struct anynet_stream *base)
{
	struct stream_position position = to_ib(base)->over_tcp->position(base);

	position.frames += ib_rest_frames(to_ib(base));
	return position;
}

static const struct anynet_stream_ops ib_send_stream_ops = {
	.receive = ib_receive_control,
	.transmit = ib_transmit_data,
	.backlog = ib_backlog,
	.signs = ib_signs,
	.moved = ib_moved,
	.ping = ib_ping,
	.sever = ib_sever,
	.resume = ib_resume,
	.drain = ib_drain,
	.close = ib_close,
	.cleared = ib_cleared,
};

static const struct anynet_stream_ops ib_recv_stream_ops = {
	.receive = ib_receive_data,
	.transmit = ib_transmit_control,
	.signs = ib_signs,
	.moved = ib_moved,
	.begun = tcp_begun, /* a queue pair brings whole frames, of up to 4 MiB */
	.ping = ib_ping,
	.sever = ib_sever,
	.position = ib_position,
	.resume = ib_resume,
	.drain = ib_drain,
	.close = ib_close,
};

struct anynet_stream *ib_stream_create(struct anynet_comm *comm, uint16_t index, int fd,
				       struct anynet_wire_pair pair, struct ib_qp *qp)
{
	struct ib_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	if (tcp_stream_init(&stream->tcp, comm, index, fd, pair)) {
		free(stream);
		return NULL;
	}
	stream->over_tcp = stream->tcp.base.ops;
	stream->tcp.base.ops = comm->is_send ? &ib_send_stream_ops : &ib_recv_stream_ops;
	take_qp(stream, qp);
	return &stream->tcp.base;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A TCP stream's life: create, sever, resume, drain, close; progress; the tables of stream operations. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/socket.h"
#include "device/carrier.h"
#include "device/nics.h"
#include "path/tcp/tcp_stream.h"
#include "wire/checksum.h"

static size_t tcp_backlog(struct anynet_stream *base)
{
	int unsent = socket_unsent(base->fd);

	return unsent < 0 ? 0 : (size_t)unsent;
}

/* Discards unread data, a bounded amount. 0 at its end or at the end of the connection; -EAGAIN: there may be more; or
 * -errno if the connection has broken. */
static int read_away(int fd)
{
	uint8_t scratch[4096];
	size_t bytes = 0;
	ssize_t n;

	do {
		n = recv(fd, scratch, sizeof(scratch), MSG_DONTWAIT);
		bytes += n > 0 ? (size_t)n : 0;
	} while ((n > 0 && bytes < TCP_RX_TURN) || (n < 0 && errno == EINTR));
	if (n > 0)
		return -EAGAIN;
	return !n || errno == EAGAIN ? 0 : -errno;
}

/* close() with unread data sends a reset, which discards what the kernel has not delivered yet. So this shuts down
 * sending, reads (ACKs, for a send comm), and waits until the peer's kernel has acknowledged everything. */
static int tcp_drain(struct anynet_stream *base)
{
	struct tcp_stream *stream = to_tcp(base);
	int ret;

	if (base->bye.due || stream->log.next != stream->log.end ||
	    stream->control.bytes != stream->control.gone)
		return stream->control.broken ? -EPIPE : -EAGAIN; /* the comm's turns send it */
	if (!stream->shut && shutdown(base->fd, SHUT_WR))
		return -errno;
	stream->shut = true;
	ret = base->comm->is_send ? base->ops->receive(base) : read_away(base->fd);
	if (ret)
		return ret;
	return socket_unsent(base->fd) ? -EAGAIN : 0;
}

/* Makes close() reset the connection: unsent data is dropped. With MSG_ZEROCOPY the kernel would go on reading NCCL's
 * buffers, which NCCL may free or reuse. */
static void discard_unsent(int fd)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

/* Could the kernel still send from memory that NCCL may free? Only after MSG_ZEROCOPY, and only if requests fail: large
 * messages that completed have been acknowledged. */
static bool may_send_freed(const struct tcp_stream *stream)
{
	const struct anynet_comm *comm = stream->base.comm;

	return stream->zerocopy.sent != stream->zerocopy.done &&
	       (comm_error(comm) || comm_pending(comm));
}

static void tcp_close(struct anynet_stream *base)
{
	struct tcp_stream *stream = to_tcp(base);

	/* The last tail byte may be unread. close() would then send a reset, which could overtake the last ACK. */
	if (base->fd >= 0 && !base->comm->is_send && !comm_error(base->comm))
		read_away(base->fd);
	if (base->fd >= 0 && may_send_freed(stream))
		discard_unsent(base->fd);
	fd_hang_up(&base->fd, -1);
	tcp_gpu_end(stream);
	free(stream->rx.buf);
	free(stream->log.frames);
	free(stream);
}

/* fd_hang_up: the peer must see the end even if a forked child holds a copy of the descriptor. */
static void tcp_sever(struct anynet_stream *base)
{
	struct tcp_stream *stream = to_tcp(base);

	discard_unsent(base->fd);
	fd_hang_up(&base->fd, -1);
	if (base->comm->is_send)
		tcp_gpu_rewind(stream);
	else
		tcp_gpu_place_all(stream);
	tcp_receive_severed(stream);
	stream->control.bytes = stream->control.gone = 0;
	stream->control.broken = stream->shut = false;
}

static struct stream_position tcp_position(struct anynet_stream *base)
{
	return (struct stream_position){ to_tcp(base)->rx.frames, to_tcp(base)->rx.part };
}

uint64_t tcp_frames(const struct anynet_stream *base)
{
	const struct tcp_stream *stream = (const struct tcp_stream *)base;

	return base->comm->is_send ? stream->log.next : stream->rx.frames;
}

/* Judges by what the peer's kernel has acknowledged: the receiver itself may be slow to read it. */
static enum stream_moved sent(struct anynet_stream *base)
{
	const struct tcp_stream *stream = to_tcp(base);
	struct stream_signs signs = { 0 };
	uint64_t carried;

	tcp_signs(base, &signs);
	carried = signs.acked - anynet_min(signs.acked, base->progress.acked);
	if (stream->log.next == stream->log.end && socket_unsent(base->fd) <= 0)
		return carried ? STREAM_MOVED : STREAM_IDLE;
	return carried >= STREAM_PROGRESS_BYTES ? STREAM_MOVED : STREAM_STUCK;
}

/* A parked frame does not make a stream stuck. Neither does a begun frame of which some payload would be kept. */
static enum stream_moved received(const struct tcp_stream *stream)
{
	const struct anynet_stream *base = &stream->base;
	bool begun = stream->rx.open || stream->rx.head != stream->rx.tail;

	if (stream->rx.frames != base->progress.from.frames || tcp_kept_bytes(stream))
		return STREAM_MOVED;
	return begun && !base->parked ? STREAM_STUCK : STREAM_IDLE;
}

enum stream_moved tcp_moved(struct anynet_stream *base)
{
	return base->comm->is_send ? sent(base) : received(to_tcp(base));
}

static void look_at_path(struct anynet_stream *base)
{
	struct sockaddr_storage local = { 0 }, peer = { 0 };
	socklen_t len = sizeof(local), peer_len = sizeof(peer);
	char from[SOCKET_TEXT_BYTES], to[SOCKET_TEXT_BYTES];

	getsockname(base->fd, (struct sockaddr *)&local, &len);
	base->nic.dev = nic_with_addr(&local);
	base->nic.losses = base->nic.dev ? carrier_losses(base->nic.dev) : 0;
	getpeername(base->fd, (struct sockaddr *)&peer, &peer_len);
	snprintf(base->path, sizeof(base->path), "%s -> %s",
		 socket_text(&local, from, sizeof(from)), socket_text(&peer, to, sizeof(to)));
}

static int tcp_resume(struct anynet_stream *base, struct stream_position from)
{
	struct tcp_stream *stream = to_tcp(base);
	int ret = base->comm->is_send ? tcp_log_rewind(stream, from) : 0;

	if (ret)
		return ret;
	tcp_gpu_rewind(stream);
	look_at_path(base);
	base->sent.rate = 0;
	stream->rate.at = base->sent.bytes;
	stream->rate.busy_us = stream->rate.acked = 0;
	stream->zerocopy.sent = stream->zerocopy.done = 0;
	if (base->comm->is_send)
		tcp_zerocopy_init(stream);
	return 0;
}

void tcp_say_ping(const struct tcp_stream *stream)
{
	struct anynet_wire_frame frame = { .type = ANYNET_FRAME_PING };

	if (stream->base.comm->checksum)
		checksum_header(&frame, NULL);
	socket_send_whole(stream->base.fd, &frame, sizeof(frame));
}

/* Sends only if the socket's send queue is empty: then it takes the whole frame, unless the kernel is out of memory. */
static void tcp_ping(struct anynet_stream *base)
{
	const struct tcp_stream *stream = to_tcp(base);

	if (!socket_unsent(base->fd) && !stream->shut &&
	    stream->control.bytes == stream->control.gone &&
	    (!base->comm->is_send || stream->log.next == stream->log.end))
		tcp_say_ping(stream);
}

static const struct anynet_stream_ops tcp_send_stream_ops = {
	.receive = tcp_receive_control,
	.transmit = tcp_transmit_data,
	.backlog = tcp_backlog,
	.signs = tcp_signs,
	.frames = tcp_frames,
	.moved = tcp_moved,
	.ping = tcp_ping,
	.sever = tcp_sever,
	.position = tcp_position,
	.resume = tcp_resume,
	.drain = tcp_drain,
	.close = tcp_close,
};

static const struct anynet_stream_ops tcp_recv_stream_ops = {
	.receive = tcp_receive_data,
	.transmit = tcp_transmit_control,
	.backlog = tcp_backlog,
	.signs = tcp_signs,
	.frames = tcp_frames,
	.moved = tcp_moved,
	.ping = tcp_ping,
	.sever = tcp_sever,
	.position = tcp_position,
	.resume = tcp_resume,
	.drain = tcp_drain,
	.close = tcp_close,
};

int tcp_stream_init(struct tcp_stream *stream, struct anynet_comm *comm, int fd, uint16_t index)
{
	stream->rx.bytes = comm->is_send ? TCP_CONTROL_BYTES : TCP_STAGING_BYTES;
	stream->rx.buf = malloc(stream->rx.bytes);
	if (!stream->rx.buf || (comm->is_send && tcp_log_init(stream))) {
		free(stream->rx.buf);
		return -ENOMEM;
	}
	stream->base.ops = comm->is_send ? &tcp_send_stream_ops : &tcp_recv_stream_ops;
	stream->base.comm = comm;
	stream->base.fd = fd;
	stream->base.state = STREAM_UP;
	stream->base.index = index;
	stream->base.readable = stream->base.writable = true;
	look_at_path(&stream->base);
	if (comm->is_send && !index)
		send_keep_start((struct send_comm *)comm, tcp_round_trip_us(fd));
	if (comm->is_send)
		tcp_zerocopy_init(stream);
	return 0;
}

struct anynet_stream *tcp_stream_create(struct anynet_comm *comm, int fd, uint16_t index)
{
	struct tcp_stream *stream = calloc(1, sizeof(*stream));

	if (stream && tcp_stream_init(stream, comm, fd, index)) {
		free(stream);
		stream = NULL;
	}
	return stream ? &stream->base : NULL;
}

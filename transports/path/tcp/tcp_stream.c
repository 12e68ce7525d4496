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
	int unsent = socket_unsent(base->path.fd);

	return unsent < 0 ? 0 : (size_t)unsent;
}

/* Discards unread data, a bounded amount. 0 at its end or at the end of the connection, which path->ended then shows;
 * -EAGAIN: there may be more; or -errno if the connection has broken. */
static int read_away(struct stream_path *path)
{
	uint8_t scratch[4096];
	size_t bytes = 0;
	ssize_t n;

	do {
		n = recv(path->fd, scratch, sizeof(scratch), MSG_DONTWAIT);
		bytes += n > 0 ? (size_t)n : 0;
	} while ((n > 0 && bytes < TCP_RX_TURN) || (n < 0 && errno == EINTR));
	if (n > 0)
		return -EAGAIN;
	path->ended |= !n;
	return !n || errno == EAGAIN ? 0 : -errno;
}

/* close() with unread data sends a reset, which discards what the kernel has not delivered yet. So this shuts down
 * sending, reads (ACKs, for a send comm), and waits until the peer's kernel has acknowledged everything. */
static int tcp_drain(struct anynet_stream *base)
{
	struct tcp_stream *stream = to_tcp(base);
	int ret;

	if (base->bye.due || base->log.next != base->log.end ||
	    stream->control.bytes != stream->control.gone)
		return stream->control.broken ? -EPIPE : -EAGAIN; /* the comm's turns send it */
	if (!stream->shut && shutdown(base->path.fd, SHUT_WR))
		return -errno;
	stream->shut = true;
	ret = base->comm->is_send ? base->ops->receive(base) : read_away(&base->path);
	if (ret)
		return ret;
	return socket_unsent(base->path.fd) ? -EAGAIN : 0;
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
	if (base->path.fd >= 0 && !base->comm->is_send && !comm_error(base->comm))
		read_away(&base->path);
	if (may_send_freed(stream))
		discard_unsent(base->path.fd);
	fd_hang_up(&base->path.fd, -1);
	tcp_gpu_end(stream);
	free(stream->rx.buf);
	free(stream->base.log.frames);
	free(stream);
}

static void begin_path(struct anynet_stream *base, int fd, struct anynet_wire_pair pair)
{
	struct stream_path *path = &base->path;
	struct sockaddr_storage local = { 0 }, peer = { 0 };
	socklen_t len = sizeof(local), peer_len = sizeof(peer);
	char from[SOCKET_TEXT_BYTES], to[SOCKET_TEXT_BYTES];

	*path = (struct stream_path){
		.fd = fd,
		.readable = true,
		.writable = true,
		.pair = pair,
	};
	getsockname(fd, (struct sockaddr *)&local, &len);
	path->nic.dev = nic_with_addr(&local);
	path->nic.losses = path->nic.dev ? carrier_losses(path->nic.dev) : 0;
	getpeername(fd, (struct sockaddr *)&peer, &peer_len);
	snprintf(path->text, sizeof(path->text), "%s -> %s", socket_text(&local, from),
		 socket_text(&peer, to));
}

/* fd_hang_up: the peer must see the end even if a forked child holds a copy of the descriptor. */
static void end_path(struct stream_path *path)
{
	fd_hang_up(&path->fd, -1);
	path->readable = path->writable = path->ended = path->parked = false;
	path->health = (struct path_health){ .silent_ms = 0 };
}

/* Forgets what has been read, sent and measured on the connection that has ended. */
static void forget_connection(struct tcp_stream *stream)
{
	stream->rx = (struct tcp_rx){ .buf = stream->rx.buf, .bytes = stream->rx.bytes };
	stream->control = (struct tcp_control){ .bytes = 0 };
	stream->rate = (struct tcp_rate){ .at = stream->base.sent.bytes };
	stream->zerocopy = (struct tcp_zerocopy){ .works = false };
	stream->shut = stream->tail_due = false;
}

static void tcp_sever(struct anynet_stream *base)
{
	struct tcp_stream *stream = to_tcp(base);

	discard_unsent(base->path.fd);
	end_path(&base->path);
	if (base->comm->is_send) {
		tcp_gpu_rewind(stream);
	} else {
		tcp_gpu_place_all(stream);
		tcp_unplace(stream);
	}
	forget_connection(stream);
}

static struct stream_position tcp_position(struct anynet_stream *base)
{
	return base->at;
}

/* Judges by what the peer's kernel has acknowledged: the receiver itself may be slow to read it. */
static enum stream_moved sent(struct anynet_stream *base)
{
	struct stream_signs signs = { 0 };
	uint64_t carried;

	tcp_signs(base, &signs);
	carried = signs.acked - anynet_min(signs.acked, base->progress.acked);
	if (base->log.next == base->log.end && socket_unsent(base->path.fd) <= 0)
		return carried ? STREAM_MOVED : STREAM_IDLE;
	return carried >= STREAM_PROGRESS_BYTES ? STREAM_MOVED : STREAM_STUCK;
}

/* A parked frame does not make a stream stuck. Neither does a begun frame of which some payload would be kept. */
static enum stream_moved received(struct anynet_stream *base)
{
	const struct tcp_stream *stream = to_tcp(base);
	bool begun = stream->rx.open || stream->rx.head != stream->rx.tail;

	if (base->at.frames != base->progress.from.frames || tcp_begun(base))
		return STREAM_MOVED;
	return begun && !base->path.parked ? STREAM_STUCK : STREAM_IDLE;
}

static int tcp_resume(struct anynet_stream *base, int fd, struct anynet_wire_pair pair,
		      struct stream_position from)
{
	struct tcp_stream *stream = to_tcp(base);
	int ret;

	begin_path(base, fd, pair);
	ret = base->comm->is_send ? stream_log_rewind(base, from) : 0;
	if (ret)
		return ret;
	tcp_gpu_rewind(stream);
	base->sent.rate = 0;
	if (base->comm->is_send)
		tcp_zerocopy_init(stream);
	return 0;
}

void tcp_say_ping(const struct tcp_stream *stream)
{
	struct anynet_wire_frame frame = { .type = ANYNET_FRAME_PING };

	if (stream->base.comm->checksum)
		checksum_header(&frame, NULL);
	socket_send_whole(stream->base.path.fd, &frame, sizeof(frame));
}

/* Sends only if the socket's send queue is empty: then it takes the whole frame, unless the kernel is out of memory. */
static void tcp_ping(struct anynet_stream *base)
{
	const struct tcp_stream *stream = to_tcp(base);

	if (!socket_unsent(base->path.fd) && !stream->shut && !stream->tail_due &&
	    stream->control.bytes == stream->control.gone &&
	    base->log.next == base->log.end)
		tcp_say_ping(stream);
}

static const struct anynet_stream_ops tcp_send_stream_ops = {
	.receive = tcp_receive_control,
	.transmit = tcp_transmit_data,
	.backlog = tcp_backlog,
	.signs = tcp_signs,
	.moved = sent,
	.ping = tcp_ping,
	.sever = tcp_sever,
	.resume = tcp_resume,
	.drain = tcp_drain,
	.close = tcp_close,
};

static const struct anynet_stream_ops tcp_recv_stream_ops = {
	.receive = tcp_receive_data,
	.transmit = tcp_transmit_control,
	.signs = tcp_signs,
	.moved = received,
	.begun = tcp_begun,
	.ping = tcp_ping,
	.sever = tcp_sever,
	.position = tcp_position,
	.resume = tcp_resume,
	.drain = tcp_drain,
	.close = tcp_close,
};

int tcp_stream_init(struct tcp_stream *stream, struct anynet_comm *comm, uint16_t index, int fd,
		    struct anynet_wire_pair pair)
{
	stream->rx.bytes = comm->is_send ? TCP_CONTROL_BYTES : TCP_STAGING_BYTES;
	stream->rx.buf = malloc(stream->rx.bytes);
	if (!stream->rx.buf || (comm->is_send && stream_log_init(&stream->base))) {
		free(stream->rx.buf);
		return -ENOMEM;
	}
	stream->base.ops = comm->is_send ? &tcp_send_stream_ops : &tcp_recv_stream_ops;
	stream->base.comm = comm;
	stream->base.state = STREAM_UP;
	stream->base.index = index;
	begin_path(&stream->base, fd, pair);
	if (comm->is_send && !index)
		send_keep_start((struct send_comm *)comm, tcp_round_trip_us(fd));
	if (comm->is_send)
		tcp_zerocopy_init(stream);
	return 0;
}

struct anynet_stream *tcp_stream_create(struct anynet_comm *comm, uint16_t index, int fd,
					struct anynet_wire_pair pair)
{
	struct tcp_stream *stream = calloc(1, sizeof(*stream));

	if (stream && tcp_stream_init(stream, comm, index, fd, pair)) {
		free(stream);
		stream = NULL;
	}
	return stream ? &stream->base : NULL;
}

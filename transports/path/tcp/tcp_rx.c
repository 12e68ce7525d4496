/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving side of a TCP stream. Small frames are read through the staging buffer, many in one call. The payload
 * of large messages is read straight into place; the same call reads the next header into the staging buffer. After a
 * short read, or one that completed a request, the socket is not read again: an empty read costs as much as a useful
 * one.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <nccl_net/log.h>

#include "memory/copy.h"
#include "path/tcp/tcp_stream.h"
#include "wire/checksum.h"

/* In a turn: more than an honest peer ever has in flight. */
#define CONTROL_READS (TCP_RX_TURN / TCP_CONTROL_BYTES)

static uint32_t staged(const struct tcp_stream *stream)
{
	return stream->rx.tail - stream->rx.head;
}

static void compact(struct tcp_stream *stream)
{
	uint32_t bytes = staged(stream);

	if (!stream->rx.head)
		return;
	if (bytes)
		memmove(stream->rx.buf, stream->rx.buf + stream->rx.head, bytes);
	stream->rx.head = 0;
	stream->rx.tail = bytes;
}

/*
 * Bytes to read into the staging buffer, behind the payload that is read into place.
 *
 * If a single frame is expected, it is read without its tail byte. A read that empties the socket of a one-way
 * connection makes the kernel send an ACK from inside the call, before the caller sees the data (tcp_cleanup_rbuf).
 * With the tail byte left in the socket, the kernel sends the ACK in the next call, while we wait anyway. Measured:
 * 1.5 us of a 6.4 us half round trip.
 */
static size_t read_ahead(const struct tcp_stream *stream, size_t direct, size_t room)
{
	size_t expect = HEADER_BYTES - staged(stream) % HEADER_BYTES;
	bool tail = stream->rx.open && stream->rx.frame.flags & ANYNET_FLAG_TAIL;

	if (stream->base.comm->is_send) /* control frames are small: read all */
		return room;
	if (stream->rx.last >= TCP_LARGE_BYTES) /* expect another large frame: only its header */
		return anynet_min(room, (direct ? 0 : stream->rx.left) + stream->rx.crc +
						stream->rx.skip + (tail ? ANYNET_TAIL_BYTES : 0) +
						expect);
	if (stream->rx.quiet && !stream->rx.left && !staged(stream))
		return anynet_min(room, stream->rx.skip + HEADER_BYTES + stream->rx.last +
						stream->rx.crc);
	return room;
}

/* Is payload for GPU memory in the staging buffer? Then no bounce was free for it. */
static bool waits_for_bounce(const struct tcp_stream *stream)
{
	return stream->rx.open && stream->rx.on_gpu && stream->rx.left && staged(stream);
}

/* The frame's payload goes to GPU memory: is some missing, and no bounce free for it? */
static ANYNET_COLD bool starved(struct tcp_stream *stream)
{
	size_t room;

	return stream->rx.open && stream->rx.left && (staged(stream) || !tcp_gpu_room(stream, &room));
}

/* Destination of the payload that is read straight from the socket: its place, or a bounce. */
static struct iovec direct_piece(struct tcp_stream *stream)
{
	size_t room;
	uint8_t *to;

	if (anynet_likely(!stream->rx.on_gpu))
		return (struct iovec){ stream->rx.dst, stream->rx.left };
	to = tcp_gpu_room(stream, &room);
	return (struct iovec){ to, anynet_min(room, stream->rx.left) };
}

/* `bytes` of payload have been written there. 0 or -errno. */
static int took_direct(struct tcp_stream *stream, size_t bytes)
{
	stream->rx.dst += bytes;
	stream->rx.left -= (uint32_t)bytes;
	return anynet_unlikely(stream->rx.on_gpu) ? tcp_gpu_filled(stream, bytes) : 0;
}

static ssize_t recv_pieces(int fd, struct iovec *iov, unsigned pieces)
{
	if (pieces == 1)
		return recv(fd, iov[0].iov_base, iov[0].iov_len, MSG_DONTWAIT);
	return recvmsg(fd, &(struct msghdr){ .msg_iov = iov, .msg_iovlen = pieces }, MSG_DONTWAIT);
}

/* One read. 1: it was short, so the socket is empty; 0: there may be more; -EAGAIN or another -errno. */
static int read_some(struct tcp_stream *stream)
{
	struct iovec iov[2];
	size_t direct = 0, room = 0;
	unsigned pieces = 0;
	ssize_t n;
	bool drained;

	compact(stream);
	if (stream->rx.left >= TCP_DIRECT_BYTES) {
		iov[pieces++] = direct_piece(stream);
		direct = iov[0].iov_len;
	}
	if (!direct || direct == stream->rx.left) {
		room = read_ahead(stream, direct, stream->rx.bytes - stream->rx.tail);
		iov[pieces++] = (struct iovec){ stream->rx.buf + stream->rx.tail, room };
	}
	do
		n = recv_pieces(stream->base.path.fd, iov, pieces);
	while (n < 0 && errno == EINTR);
	stream->rx.quiet = n < 0 || (stream->rx.quiet && n == ANYNET_TAIL_BYTES && stream->rx.skip);
	if (n < 0)
		return -errno;
	if (!n)
		return -ECONNRESET;
	drained = (size_t)n < direct + room;
	if (direct) {
		size_t taken = anynet_min((size_t)n, direct);
		int ret = took_direct(stream, taken);

		if (ret)
			return ret;
		n -= (ssize_t)taken;
	}
	stream->rx.tail += (uint32_t)n;
	return drained;
}

/* --- receive comm: data --- */

static ANYNET_COLD int corrupt(struct tcp_stream *stream, const char *what)
{
	if (stream_is_news(stream->base.breaks.count + 1))
		anynet_warn("receive from peer %s dev %s path %u (%s): wrong checksum of a %s; "
			    "the connection is replaced and the data retransmitted (break %u)",
			    stream->base.comm->peer.host, stream->base.comm->dev->name,
			    stream->base.index, stream->base.path.text, what,
			    stream->base.breaks.count + 1);
	return -EBADMSG;
}

static int take_frame(struct tcp_stream *stream)
{
	struct recv_comm *comm = (struct recv_comm *)stream->base.comm;
	struct anynet_wire_frame *frame = &stream->rx.frame;
	int ret;

	memcpy(frame, stream->rx.buf + stream->rx.head, HEADER_BYTES);
	if (anynet_unlikely(stream->base.comm->checksum) && !checksum_check(frame, NULL))
		return corrupt(stream, "header");
	if (anynet_unlikely(frame->type != ANYNET_FRAME_DATA)) {
		ret = recv_control(comm, &stream->base, frame);
		if (ret)
			return ret;
		stream->rx.head += HEADER_BYTES;
		if (frame->type != ANYNET_FRAME_PING) {
			stream->base.at.frames++;
			stream->base.at.part = 0;
		}
		return 0;
	}
	ret = recv_place(comm, frame, &stream->rx.msg, &stream->rx.dst);
	if (ret)
		return ret;
	stream->rx.open = true;
	stream->base.at.part = 0;
	stream->rx.head += HEADER_BYTES;
	stream->rx.left = stream->rx.last = frame->length;
	stream->rx.crc = frame->flags & ANYNET_FLAG_CRC ? ANYNET_CRC_BYTES : 0;
	stream->rx.on_gpu = false;
	if (anynet_likely(!stream->base.comm->gpu || !frame->length ||
			  !recv_is_on_gpu(stream->rx.msg)))
		return 0;
	stream->rx.on_gpu = true;
	stream->rx.sum = 0;
	return tcp_gpu_begin(stream);
}

static ANYNET_COLD int take_payload_to_gpu(struct tcp_stream *stream)
{
	int ret = 0;

	while (!ret && staged(stream) && stream->rx.left) {
		size_t room, bytes = anynet_min(staged(stream), stream->rx.left);
		uint8_t *to = tcp_gpu_room(stream, &room);

		if (!to)
			return 0;
		bytes = anynet_min(bytes, room);
		memcpy(to, stream->rx.buf + stream->rx.head, bytes);
		stream->rx.head += (uint32_t)bytes;
		ret = took_direct(stream, bytes);
	}
	return ret;
}

static int take_payload(struct tcp_stream *stream)
{
	uint32_t bytes = staged(stream) < stream->rx.left ? staged(stream) : stream->rx.left;

	if (anynet_unlikely(stream->rx.on_gpu))
		return take_payload_to_gpu(stream);
	if (bytes) {
		copy_ascending(stream->rx.dst, stream->rx.buf + stream->rx.head, bytes);
		stream->rx.head += bytes;
		stream->rx.dst += bytes;
		stream->rx.left -= bytes;
	}
	return 0;
}

static ANYNET_COLD bool is_corrupt(const struct tcp_stream *stream)
{
	uint32_t length = stream->rx.frame.length, sum = 0, crc;

	memcpy(&crc, stream->rx.buf + stream->rx.head, sizeof(crc));
	if (stream->rx.on_gpu)
		sum = stream->rx.sum;
	else if (length)
		sum = crc32c(0, stream->rx.dst - length, length);
	return sum != crc;
}

/* The frame is complete, except for its tail byte. 0 or -errno. */
static int finish_frame(struct tcp_stream *stream)
{
	const struct anynet_wire_frame *frame = &stream->rx.frame;

	if (anynet_unlikely(stream->rx.crc)) {
		if (is_corrupt(stream))
			return corrupt(stream, "chunk");
		stream->rx.head += ANYNET_CRC_BYTES;
	}
	stream->rx.open = false;
	stream->base.at.frames++;
	stream->rx.skip = frame->flags & ANYNET_FLAG_TAIL ? ANYNET_TAIL_BYTES : 0;
	if (anynet_unlikely(stream->rx.on_gpu))
		return tcp_gpu_end_frame(stream, stream->rx.msg, frame->length);
	recv_placed((struct recv_comm *)stream->base.comm, stream->rx.msg, frame->length);
	return 0;
}

/* Consumes the staged bytes. 0: more bytes are needed; -EAGAIN: no receive is posted for the frame; or -errno. */
static int consume(struct tcp_stream *stream)
{
	int ret;

	for (;;) {
		if (stream->rx.open) {
			ret = take_payload(stream);
			if (ret || stream->rx.left || staged(stream) < stream->rx.crc)
				return ret;
			ret = finish_frame(stream);
		} else if (stream->rx.skip && staged(stream)) {
			stream->rx.head += stream->rx.skip;
			stream->rx.skip = 0;
			ret = 0;
		} else if (staged(stream) < HEADER_BYTES) {
			return 0;
		} else {
			ret = take_frame(stream);
		}
		if (ret)
			return ret;
	}
}

size_t tcp_begun(const struct anynet_stream *base)
{
	const struct tcp_stream *stream = (const struct tcp_stream *)base;
	const struct anynet_wire_frame *frame = &stream->rx.frame;
	uint32_t placed = frame->length - stream->rx.left;

	if (!stream->rx.open || frame->flags & (ANYNET_FLAG_TAIL | ANYNET_FLAG_CRC))
		return 0;
	return placed - placed % ANYNET_PART_ALIGN;
}

void tcp_unplace(struct tcp_stream *stream)
{
	const struct anynet_wire_frame *frame = &stream->rx.frame;
	uint32_t keep = (uint32_t)tcp_begun(&stream->base);

	if (!stream->rx.open)
		return;
	recv_unplace((struct recv_comm *)stream->base.comm, stream->rx.msg, frame->length, keep);
	stream->base.at.part = keep ? (uint32_t)frame->offset + keep : 0;
}

/* The socket is empty, so the stream waits for an epoll event. It stays readable without an epoll set, while it holds
 * bounces or waits for one (they have no event), and after the peer's end is shut. */
static void wait_readable(struct tcp_stream *stream)
{
	struct anynet_stream *base = &stream->base;

	if (anynet_unlikely(stream->gpu))
		tcp_gpu_wait(stream);
	base->path.readable = base->comm->epfd < 0 || base->path.ended || tcp_gpu_is_busy(stream) ||
			 waits_for_bounce(stream);
}

static int receive_data(struct anynet_stream *base)
{
	struct tcp_stream *stream = to_tcp(base);
	unsigned before = comm_pending(base->comm);
	uint64_t budget = TCP_RX_TURN;
	int ret, got = 0; /* of the last read */

	if (anynet_unlikely(stream->shut))
		return 0; /* closing: tcp_drain discards what comes */
	ret = anynet_unlikely(stream->gpu) ? tcp_gpu_take_placed(stream) : 0;
	while (!ret) {
		uint32_t left, tail;

		ret = consume(stream);
		if (ret || got || !budget || comm_pending(base->comm) != before ||
		    (anynet_unlikely(stream->rx.on_gpu) && starved(stream)))
			break;
		left = stream->rx.left;
		tail = staged(stream);
		got = read_some(stream);
		if (got < 0)
			break;
		budget -= anynet_min(budget, left - stream->rx.left + staged(stream) - tail);
	}
	if (got == 1 || got == -EAGAIN)
		wait_readable(stream);
	else if (got < 0)
		return got;
	if (ret == -EAGAIN) {
		base->path.parked = !tcp_gpu_is_busy(stream);
		base->path.readable = true; /* there is no event for staged bytes */
		ret = 0;
	}
	return ret;
}

int tcp_receive_data(struct anynet_stream *base)
{
	int ret = receive_data(base);

	/* The connection has ended or broken: what arrived before counts, so wait for its copies. */
	if (anynet_unlikely(ret))
		tcp_gpu_place_all(to_tcp(base));
	return ret;
}

/* --- send comm: acks and CTS --- */

/* Takes one control frame. 0, -EAGAIN: it is incomplete, or -errno. */
static int take_control(struct tcp_stream *stream)
{
	struct anynet_comm *comm = stream->base.comm;
	struct anynet_wire_frame header;
	const uint8_t *payload;
	int ret;

	if (staged(stream) < HEADER_BYTES)
		return -EAGAIN;
	memcpy(&header, stream->rx.buf + stream->rx.head, HEADER_BYTES);
	payload = stream->rx.buf + stream->rx.head + HEADER_BYTES;
	if (header.length > ANYNET_ACK_BYTES) {
		if (comm->checksum)
			return corrupt(stream, "control frame");
		comm_note_fault(comm, &stream->base, -EPROTO, "control frame of %u bytes",
				header.length);
		return -EPROTO;
	}
	if (staged(stream) < HEADER_BYTES + header.length)
		return -EAGAIN;
	if (anynet_unlikely(comm->checksum) && !checksum_check(&header, payload))
		return corrupt(stream, "control frame");
	ret = send_control((struct send_comm *)comm, &stream->base, &header, payload);
	if (!ret)
		stream->rx.head += (uint32_t)HEADER_BYTES + header.length;
	return ret;
}

int tcp_receive_control(struct anynet_stream *base)
{
	struct tcp_stream *stream = to_tcp(base);
	int ret, got = 0;

	if (stream->zerocopy.sent != stream->zerocopy.done)
		tcp_zerocopy_reap(stream);
	for (unsigned reads = 0; !got; reads++) {
		if (reads == CONTROL_READS)
			return 0;
		got = read_some(stream);
		if (got < 0)
			break;
		do
			ret = take_control(stream);
		while (!ret);
		if (ret != -EAGAIN)
			return ret;
	}
	if (got < 0 && got != -EAGAIN)
		return got;
	base->path.readable = base->comm->epfd < 0 || base->path.ended;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending side of a TCP stream. Frames are pulled from the comm; one sendmsg sends several, headers and payload.
 * Payload is sent from where it lies. A frame stays queued until the socket has taken its last byte.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "path/tcp/tcp_stream.h"
#include "wire/crc32c.h"

#define ZEROCOPY_BYTES (64u << 10) /* for less, pinning pages costs more than the copy */

static void add_checksum(const struct send_comm *comm, struct log_frame *entry)
{
	struct stream_frame frame;

	send_frame(comm, &entry->id, &frame);
	entry->crc = 0;
	/* A copied frame has its checksum; that of GPU memory is computed from the bounces (tcp_gpu_checksum). */
	if (frame.payload && !frame.framed && !frame.on_gpu)
		entry->crc = crc32c(0, frame.payload, frame.header.length);
}

/* Pulls frames from the comm until enough for one call are queued. False: the comm has no more now. */
static bool pull(struct tcp_stream *stream)
{
	size_t queued = 0;

	for (uint64_t n = stream->base.log.next; n != stream->base.log.end; n++) {
		if (n - stream->base.log.next == TCP_TX_FRAMES)
			return true;
		queued += stream_log_at(&stream->base, n)->id.length;
	}
	while (stream->base.log.end - stream->base.log.next < TCP_TX_FRAMES && queued < TCP_TX_TURN) {
		struct log_frame *frame;

		if (!stream_pull(&stream->base))
			return false;
		frame = stream_log_at(&stream->base, stream->base.log.end - 1);
		if (anynet_unlikely(stream->base.comm->checksum))
			add_checksum((struct send_comm *)stream->base.comm, frame);
		queued += frame->id.length;
		/* With several streams, pull one chunk at a time: the stream that is free first takes the next. */
		if (stream->base.comm->stream_count > 1)
			return true;
	}
	return true;
}

static unsigned add_piece(struct iovec *iov, unsigned n, const void *data, size_t bytes)
{
	if (!bytes)
		return n;
	if (n && (const char *)iov[n - 1].iov_base + iov[n - 1].iov_len == (const char *)data) {
		iov[n - 1].iov_len += bytes;
		return n;
	}
	iov[n].iov_base = (void *)(uintptr_t)data;
	iov[n].iov_len = bytes;
	return n + 1;
}

/* One call of sendmsg. A frame has up to three pieces: header, payload, checksum. Payload in GPU memory has a piece for
 * each bounce instead. */
struct tx_call {
	struct iovec iov[3 * TCP_TX_FRAMES + TCP_GPU_PIECES];
	unsigned pieces, frames;
	size_t bytes;
	int flags; /* MSG_ZEROCOPY: this is the payload; MSG_MORE: the next call sends the payload */
	struct anynet_wire_frame headers[TCP_TX_FRAMES];
	size_t totals[TCP_TX_FRAMES]; /* size of each frame on the wire without its tail byte, from frame log.next on */
	uint32_t tails;               /* bit i: a tail byte follows frame i */
	uint32_t checksums[TCP_TX_FRAMES];
};

static bool by_reference(const struct tcp_stream *stream, const struct stream_frame *frame)
{
	return stream->zerocopy.works && !frame->framed && frame->header.length >= ZEROCOPY_BYTES;
}

/* Adds the part of a piece that has not been sent yet. *skip is the number of sent bytes from the piece on. */
static void call_add(struct tx_call *call, const void *data, size_t bytes, size_t *skip)
{
	size_t gone = anynet_min(bytes, *skip);

	*skip -= gone;
	call->pieces =
		add_piece(call->iov, call->pieces, (const uint8_t *)data + gone, bytes - gone);
	call->bytes += bytes - gone;
}

static size_t checksum_bytes(const struct stream_frame *frame)
{
	return frame->header.flags & ANYNET_FLAG_CRC && frame->header.type == ANYNET_FRAME_DATA ? ANYNET_CRC_BYTES : 0;
}

/* Adds a frame in GPU memory, as far as its payload has been copied. False: the call takes nothing more. */
static bool call_gpu_frame(struct tcp_stream *stream, struct tx_call *call, uint64_t n,
			   const struct stream_frame *frame, size_t *skip)
{
	uint32_t length = frame->header.length, *checksum = &call->checksums[call->frames];
	size_t gone = *skip > HEADER_BYTES ? *skip - HEADER_BYTES : 0, bytes;
	uint32_t from = (uint32_t)anynet_min(gone, length);
	const uint8_t *data;

	if (from < length && !tcp_gpu_copied(stream, n, from, &bytes))
		return false;
	call->headers[call->frames] = frame->header;
	call_add(call, &call->headers[call->frames++], HEADER_BYTES, skip);
	for (*skip -= from; from < length; from += (uint32_t)bytes) {
		data = tcp_gpu_copied(stream, n, from, &bytes);
		if (!data)
			return false;
		call->pieces = add_piece(call->iov, call->pieces, data, bytes);
		call->bytes += bytes;
	}
	if (checksum_bytes(frame)) {
		*checksum = tcp_gpu_checksum(stream, n);
		call_add(call, checksum, checksum_bytes(frame), skip);
	}
	return true;
}

/* Adds frame `n`. False: the call takes nothing more. */
static bool call_frame(struct tcp_stream *stream, struct tx_call *call, uint64_t n, size_t *skip)
{
	struct log_frame *entry = stream_log_at(&stream->base, n);
	struct stream_frame frame;
	size_t total, room;

	send_frame((struct send_comm *)stream->base.comm, &entry->id, &frame);
	total = HEADER_BYTES + frame.header.length + checksum_bytes(&frame);
	call->totals[call->frames] = total;
	if (anynet_unlikely(frame.on_gpu))
		return call_gpu_frame(stream, call, n, &frame, skip);
	if (frame.framed) {
		call_add(call, frame.payload - HEADER_BYTES, total + ANYNET_TAIL_BYTES, skip);
		call->tails |= 1u << call->frames++;
		return true;
	}
	call->headers[call->frames] = frame.header;
	call_add(call, &call->headers[call->frames++], HEADER_BYTES, skip);
	if (by_reference(stream, &frame)) {
		/* MSG_ZEROCOPY takes the payload alone: the kernel may read its memory long after this call, when
		 * call->headers holds something else. */
		if (call->bytes) {
			call->flags = MSG_MORE;
			return false;
		}
		call->flags = MSG_ZEROCOPY;
	}
	room = *skip + TCP_TX_TURN;
	if (frame.payload)
		call_add(call, frame.payload, anynet_min(frame.header.length, room), skip);
	if (frame.header.length > room || (call->flags & MSG_ZEROCOPY && call->bytes))
		return false;
	call->flags = 0;
	call_add(call, &entry->crc, checksum_bytes(&frame), skip);
	return true;
}

/* Fills one call from the queued frames, without the first log.gone bytes. */
static void gather(struct tcp_stream *stream, struct tx_call *call)
{
	size_t skip = stream->base.log.gone;

	call->pieces = call->frames = call->tails = 0;
	call->bytes = 0;
	call->flags = 0;
	if (anynet_unlikely(stream->tail_due))
		call_add(call, "", ANYNET_TAIL_BYTES, &skip);
	for (uint64_t n = stream->base.log.next; n != stream->base.log.end && call->frames < TCP_TX_FRAMES;
	     n++)
		if (!call_frame(stream, call, n, &skip) || call->bytes >= TCP_TX_TURN)
			return;
}

/* The socket has taken `bytes` of the call. The receiver does not need a frame's tail byte. So a frame is taken without
 * it, and the byte goes before whatever comes next. */
static void advance(struct tcp_stream *stream, const struct tx_call *call, size_t bytes)
{
	size_t tail = stream->tail_due; /* bytes of it before the next frame */

	bytes += stream->base.log.gone;
	for (unsigned i = 0; i < call->frames && bytes >= tail + call->totals[i]; i++) {
		bytes -= tail + call->totals[i];
		tail = call->tails >> i & 1;
		stream_taken(&stream->base);
	}
	stream->tail_due = tail > bytes;
	bytes -= anynet_min(tail, bytes);
	stream->base.log.gone = (uint32_t)bytes;
	if (anynet_unlikely(stream->gpu))
		tcp_gpu_sent(stream, bytes > HEADER_BYTES ? (uint32_t)(bytes - HEADER_BYTES) : 0);
}

static ssize_t send_pieces(int fd, struct tx_call *call)
{
	int flags = call->flags | MSG_DONTWAIT | MSG_NOSIGNAL;

	if (call->pieces == 1)
		return send(fd, call->iov[0].iov_base, call->iov[0].iov_len, flags);
	return sendmsg(fd, &(struct msghdr){ .msg_iov = call->iov, .msg_iovlen = call->pieces }, flags);
}

static ssize_t send_call(struct tcp_stream *stream, struct tx_call *call)
{
	for (;;) {
		ssize_t sent = send_pieces(stream->base.path.fd, call);

		if (sent >= 0) {
			stream->zerocopy.sent += call->flags == MSG_ZEROCOPY;
			return sent;
		}
		if (errno == ENOBUFS && call->flags == MSG_ZEROCOPY) {
			call->flags = 0; /* optmem_max or RLIMIT_MEMLOCK is exhausted */
			stream->zerocopy.works = false;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
}

int tcp_transmit_data(struct anynet_stream *base)
{
	struct tcp_stream *stream = to_tcp(base);
	struct tx_call call;
	size_t gone = 0;
	bool more;

	do {
		ssize_t sent;

		more = pull(stream);
		if (stream->base.log.next == stream->base.log.end && anynet_likely(!stream->tail_due))
			return 0;
		if (anynet_unlikely(base->comm->gpu)) {
			int ret = tcp_gpu_copy_ahead(stream);

			if (ret)
				return ret;
		}
		gather(stream, &call);
		if (anynet_unlikely(!call.bytes))
			return 0; /* the copy from the GPU is in progress */
		sent = send_call(stream, &call);
		if (sent < 0 && sent != -EAGAIN)
			return (int)sent;
		if (sent > 0)
			advance(stream, &call, (size_t)sent);
		if (base->comm->stream_count > 1)
			tcp_rate_refresh(stream);
		if (sent < 0 || (size_t)sent < call.bytes) {
			if (anynet_unlikely(stream->gpu))
				tcp_gpu_yield(stream);
			base->path.writable = base->comm->epfd < 0 || tcp_gpu_is_busy(stream);
			return 0;
		}
		gone += (size_t)sent;
	} while (gone < TCP_TX_TURN && (more || stream->base.log.next != stream->base.log.end));
	return 0;
}

/* Sends ACKs, CTS and other control frames of a receive comm. An error does not end the stream, because data that
 * arrived before may still be unread: only receiving reports the end of the connection. Always 0. */
int tcp_transmit_control(struct anynet_stream *base)
{
	struct tcp_stream *stream = to_tcp(base);
	struct recv_comm *comm = (struct recv_comm *)base->comm;

	while (!stream->control.broken) {
		size_t bytes = 1;
		ssize_t sent;

		if (stream->control.gone == stream->control.bytes)
			stream->control.gone = stream->control.bytes = 0;
		while (bytes && stream->control.bytes + STREAM_CONTROL_BYTES <= TCP_CONTROL_BYTES) {
			bytes = recv_next_control(comm, base,
						  stream->control.data + stream->control.bytes);
			stream->control.bytes += (uint32_t)bytes;
		}
		if (stream->control.gone == stream->control.bytes)
			return 0;
		sent = send(base->path.fd, stream->control.data + stream->control.gone,
			    stream->control.bytes - stream->control.gone,
			    MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0) {
			stream->control.broken = errno != EAGAIN;
			return 0;
		}
		stream->control.gone += (uint32_t)sent;
	}
	return 0;
}

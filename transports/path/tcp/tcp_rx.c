/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving side of a TCP rail. Bytes come in two ways: small things through the staging buffer,
 * many frames in one call; the payload of large messages straight into its place, with the next
 * header behind it in the same call. After a call that returned less than asked for, or that completed
 * a request, the socket is not asked again: a call that finds nothing costs as much as one that works.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <nccl_net/log.h>

#include "memory/copy.h"
#include "path/tcp/tcp_rail.h"
#include "wire/checksum.h"

#define HEADER_BYTES sizeof(struct anynet_wire_frame)

static uint32_t staged(const struct tcp_rail *rail)
{
	return rail->rx_tail - rail->rx_head;
}

/* Make room behind what is staged. */
static void compact(struct tcp_rail *rail)
{
	uint32_t bytes = staged(rail);

	if (!rail->rx_head)
		return;
	if (bytes)
		memmove(rail->rx_buf, rail->rx_buf + rail->rx_head, bytes);
	rail->rx_head = 0;
	rail->rx_tail = bytes;
}

/*
 * How much to read behind the payload that is read straight into place.
 *
 * A frame expected alone is read up to but not including its tail. A read that empties the socket of
 * a one-way connection makes the kernel send an ACK at once, from inside the call, before we see the
 * data (tcp_cleanup_rbuf); with the tail left behind, that happens at the next call, while we wait
 * anyway. Measured: 1.5 us of a 6.4 us half round trip.
 */
static size_t read_ahead(const struct tcp_rail *rail, size_t direct, size_t room)
{
	size_t expect = HEADER_BYTES - staged(rail) % HEADER_BYTES;

	if (rail->base.comm->is_send) /* acks, which nothing large follows */
		return room;
	if (rail->rx_last >= TCP_LARGE_BYTES) /* the next will be large, too: only its header */
		return anynet_min(room, (direct ? 0 : rail->rx_left) + rail->rx_crc +
						rail->rx_skip + expect);
	if (rail->rx_quiet && !rail->rx_left && !staged(rail))
		return anynet_min(room,
				  rail->rx_skip + HEADER_BYTES + rail->rx_last + rail->rx_crc);
	return room;
}

/* Payload for GPU memory, and no host memory to take it through for now? */
static bool starved(struct tcp_rail *rail)
{
	size_t room;

	return rail->rx_open && rail->rx_on_gpu && rail->rx_left &&
	       (staged(rail) || !tcp_gpu_room(rail, &room));
}

/* Where payload is read to straight from the socket, and how much of it. */
static struct iovec direct_piece(struct tcp_rail *rail)
{
	size_t room;
	uint8_t *to;

	if (anynet_likely(!rail->rx_on_gpu))
		return (struct iovec){ rail->rx_dst, rail->rx_left };
	to = tcp_gpu_room(rail, &room);
	return (struct iovec){ to, anynet_min(room, rail->rx_left) };
}

/* It has been read there. 0 or -errno. */
static int took_direct(struct tcp_rail *rail, size_t bytes)
{
	int ret = anynet_unlikely(rail->rx_on_gpu) ? tcp_gpu_filled(rail, bytes) : 0;

	rail->rx_dst += bytes;
	rail->rx_left -= (uint32_t)bytes;
	return ret;
}

/* One read. *drained: the socket had less than there was room for. 0, -EAGAIN or -errno. */
static int read_some(struct tcp_rail *rail, bool *drained)
{
	struct iovec iov[2];
	struct msghdr msg = { .msg_iov = iov };
	size_t direct = 0, room = 0;
	ssize_t n;

	compact(rail);
	if (rail->rx_left >= TCP_DIRECT_BYTES) {
		iov[msg.msg_iovlen++] = direct_piece(rail);
		direct = iov[0].iov_len;
	}
	if (!direct || direct == rail->rx_left) {
		room = read_ahead(rail, direct, rail->rx_bytes - rail->rx_tail);
		iov[msg.msg_iovlen++] = (struct iovec){ rail->rx_buf + rail->rx_tail, room };
	}
	do
		n = msg.msg_iovlen == 1
			    ? recv(rail->base.fd, iov[0].iov_base, iov[0].iov_len, MSG_DONTWAIT)
			    : recvmsg(rail->base.fd, &msg, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	rail->rx_quiet = n < 0 || (rail->rx_quiet && n == ANYNET_TAIL_BYTES && rail->rx_skip);
	if (n < 0)
		return -errno;
	if (!n)
		return -ECONNRESET;
	*drained = (size_t)n < direct + room;
	if (direct) {
		size_t taken = anynet_min((size_t)n, direct);
		int ret = took_direct(rail, taken);

		if (ret)
			return ret;
		n -= (ssize_t)taken;
	}
	rail->rx_tail += (uint32_t)n;
	return 0;
}

/* --- receive comm: data --- */

static ANYNET_COLD int corrupt(struct tcp_rail *rail, const char *what)
{
	if (rail_is_news(rail->base.breaks + 1))
		anynet_warn("receive from peer %s dev %s path %u (%s): wrong checksum of a %s; "
			    "the connection is replaced and the data retransmitted (break %u)",
			    rail->base.comm->peer.host, rail->base.comm->dev->name,
			    rail->base.index, rail->base.path, what, rail->base.breaks + 1);
	return -EBADMSG;
}

static int take_frame(struct tcp_rail *rail)
{
	struct recv_comm *comm = (struct recv_comm *)rail->base.comm;
	struct anynet_wire_frame *frame = &rail->rx_frame;
	int ret;

	memcpy(frame, rail->rx_buf + rail->rx_head, HEADER_BYTES);
	if (anynet_unlikely(rail->base.comm->checksum) && !checksum_check(frame, NULL))
		return corrupt(rail, "header");
	if (anynet_unlikely(frame->type != ANYNET_FRAME_DATA)) {
		ret = recv_control(comm, &rail->base, frame);
		if (ret)
			return ret;
		rail->rx_head += HEADER_BYTES;
		if (frame->type != ANYNET_FRAME_PING) {
			rail->rx_frames++;
			rail->rx_part = 0;
		}
		return 0;
	}
	ret = recv_place(comm, frame, &rail->rx_msg, &rail->rx_dst);
	if (ret)
		return ret;
	rail->rx_open = true;
	rail->rx_part = 0;
	rail->rx_head += HEADER_BYTES;
	rail->rx_left = rail->rx_last = frame->length;
	rail->rx_crc = frame->flags & ANYNET_FLAG_CRC ? ANYNET_CRC_BYTES : 0;
	rail->rx_on_gpu = false;
	if (anynet_likely(!rail->base.comm->gpu || !frame->length || !recv_is_on_gpu(rail->rx_msg)))
		return 0;
	rail->rx_on_gpu = true;
	rail->rx_sum = 0;
	return tcp_gpu_begin(rail);
}

static ANYNET_COLD int take_payload_to_gpu(struct tcp_rail *rail)
{
	int ret = 0;

	while (!ret && staged(rail) && rail->rx_left) {
		size_t room, bytes = anynet_min(staged(rail), rail->rx_left);
		uint8_t *to = tcp_gpu_room(rail, &room);

		if (!to)
			return 0;
		bytes = anynet_min(bytes, room);
		memcpy(to, rail->rx_buf + rail->rx_head, bytes);
		rail->rx_head += (uint32_t)bytes;
		ret = took_direct(rail, bytes);
	}
	return ret;
}

static int take_payload(struct tcp_rail *rail)
{
	uint32_t bytes = staged(rail) < rail->rx_left ? staged(rail) : rail->rx_left;

	if (anynet_unlikely(rail->rx_on_gpu))
		return take_payload_to_gpu(rail);
	if (bytes) {
		copy_ascending(rail->rx_dst, rail->rx_buf + rail->rx_head, bytes);
		rail->rx_head += bytes;
		rail->rx_dst += bytes;
		rail->rx_left -= bytes;
	}
	return 0;
}

static ANYNET_COLD bool is_corrupt(const struct tcp_rail *rail)
{
	uint32_t length = rail->rx_frame.length, sum = 0, crc;

	memcpy(&crc, rail->rx_buf + rail->rx_head, sizeof(crc));
	if (rail->rx_on_gpu)
		sum = rail->rx_sum;
	else if (length)
		sum = crc32c(0, rail->rx_dst - length, length);
	return sum != crc;
}

/* All of a frame is there. 0 or -errno. */
static int finish_frame(struct tcp_rail *rail)
{
	const struct anynet_wire_frame *frame = &rail->rx_frame;

	if (anynet_unlikely(rail->rx_crc)) {
		if (is_corrupt(rail))
			return corrupt(rail, "chunk");
		rail->rx_head += ANYNET_CRC_BYTES;
	}
	rail->rx_open = false;
	rail->rx_frames++;
	rail->rx_skip = frame->flags & ANYNET_FLAG_TAIL ? ANYNET_TAIL_BYTES : 0;
	if (anynet_unlikely(rail->rx_on_gpu))
		return tcp_gpu_end_frame(rail, rail->rx_msg, frame->length);
	recv_placed((struct recv_comm *)rail->base.comm, rail->rx_msg, frame->length);
	return 0;
}

/* Consume what is staged. 0: need more bytes; -EAGAIN: parked; else -errno. */
static int consume(struct tcp_rail *rail)
{
	int ret;

	for (;;) {
		if (rail->rx_open) {
			ret = take_payload(rail);
			if (ret || rail->rx_left || staged(rail) < rail->rx_crc)
				return ret;
			ret = finish_frame(rail);
		} else if (rail->rx_skip && staged(rail)) {
			rail->rx_head += rail->rx_skip;
			rail->rx_skip = 0;
			ret = 0;
		} else if (staged(rail) < HEADER_BYTES) {
			return 0;
		} else {
			ret = take_frame(rail);
		}
		if (ret)
			return ret;
	}
}

uint32_t tcp_kept_bytes(const struct tcp_rail *rail)
{
	const struct anynet_wire_frame *frame = &rail->rx_frame;
	uint32_t placed = frame->length - rail->rx_left;

	if (!rail->rx_open || frame->flags & (ANYNET_FLAG_TAIL | ANYNET_FLAG_CRC))
		return 0;
	return placed - placed % ANYNET_PART_ALIGN;
}

void tcp_receive_severed(struct tcp_rail *rail)
{
	const struct anynet_wire_frame *frame = &rail->rx_frame;
	uint32_t keep = tcp_kept_bytes(rail);

	rail->rx_head = rail->rx_tail = rail->rx_skip = 0;
	rail->rx_last = 0;
	rail->rx_quiet = false;
	if (rail->rx_open) {
		rail->rx_open = false;
		recv_unplace((struct recv_comm *)rail->base.comm, rail->rx_msg, frame->length,
			     keep);
		rail->rx_part = keep ? (uint32_t)frame->offset + keep : 0;
	}
	rail->rx_left = 0;
}

/* An event will tell of more; not of what bounces are needed for. */
static void wait_readable(struct tcp_rail *rail)
{
	struct anynet_rail *base = &rail->base;

	if (anynet_unlikely(rail->gpu))
		tcp_gpu_wait(rail);
	base->readable = base->comm->epfd < 0 || base->ended || tcp_gpu_is_busy(rail);
}

static int receive_data(struct anynet_rail *base)
{
	struct tcp_rail *rail = to_tcp(base);
	const struct recv_comm *comm = (const struct recv_comm *)base->comm;
	unsigned before = recv_completions(comm);
	uint64_t budget = TCP_RX_TURN;
	int ret;

	if (anynet_unlikely(rail->shut))
		return 0; /* closed: tcp_drain reads, and forgets */
	ret = anynet_unlikely(rail->gpu) ? tcp_gpu_take_placed(rail) : 0;
	if (!ret)
		ret = consume(rail);
	while (!ret && budget && recv_completions(comm) == before && !starved(rail)) {
		uint32_t left = rail->rx_left, tail = staged(rail);
		bool drained;

		ret = read_some(rail, &drained);
		if (ret == -EAGAIN) {
			wait_readable(rail);
			return 0;
		}
		if (ret)
			return ret;
		budget -= anynet_min(budget, left - rail->rx_left + staged(rail) - tail);
		ret = consume(rail);
		if (drained) {
			wait_readable(rail);
			break;
		}
	}
	if (ret == -EAGAIN) {
		base->parked = !tcp_gpu_is_busy(rail);
		base->readable = true; /* of what is staged no event tells */
		ret = 0;
	}
	return ret;
}

int tcp_receive_data(struct anynet_rail *base)
{
	int ret = receive_data(base);

	/* At the end of the stream all that came counts. */
	if (anynet_unlikely(ret))
		tcp_gpu_place_all(to_tcp(base));
	return ret;
}

/* --- send comm: acks and grants --- */

/* One control frame, if it is there entirely. 0, -EAGAIN or -errno. */
static int take_control(struct tcp_rail *rail)
{
	struct anynet_comm *comm = rail->base.comm;
	struct anynet_wire_frame header;
	const uint8_t *payload;
	int ret;

	if (staged(rail) < HEADER_BYTES)
		return -EAGAIN;
	memcpy(&header, rail->rx_buf + rail->rx_head, HEADER_BYTES);
	payload = rail->rx_buf + rail->rx_head + HEADER_BYTES;
	if (header.length > ANYNET_ACK_BYTES) {
		if (comm->checksum)
			return corrupt(rail, "control frame");
		comm_note_fault(comm, &rail->base, -EPROTO, "control frame of %u bytes", header.length);
		return -EPROTO;
	}
	if (staged(rail) < HEADER_BYTES + header.length)
		return -EAGAIN;
	if (anynet_unlikely(comm->checksum) && !checksum_check(&header, payload))
		return corrupt(rail, "control frame");
	ret = send_control((struct send_comm *)comm, &rail->base, &header, payload);
	if (!ret)
		rail->rx_head += (uint32_t)HEADER_BYTES + header.length;
	return ret;
}

int tcp_receive_control(struct anynet_rail *base)
{
	struct tcp_rail *rail = to_tcp(base);
	bool drained = false;
	int ret = 0;

	if (rail->zc_sent != rail->zc_done)
		tcp_zerocopy_reap(rail);
	while (!drained) {
		ret = read_some(rail, &drained);
		if (ret)
			break;
		while (!ret)
			ret = take_control(rail);
		if (ret != -EAGAIN)
			return ret;
	}
	if (ret && ret != -EAGAIN)
		return ret;
	base->readable = base->comm->epfd < 0 || base->ended;
	return 0;
}

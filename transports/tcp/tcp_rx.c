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

#include "copy.h"
#include "tcp_rail.h"

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

	if (rail->rx_last >= TCP_LARGE_BYTES) /* the next will be large, too: only its header */
		return anynet_min(room, (direct ? 0 : rail->rx_left) + rail->rx_skip + expect);
	if (rail->rx_quiet && !rail->rx_left && !staged(rail))
		return anynet_min(room, rail->rx_skip + HEADER_BYTES + rail->rx_last);
	return room;
}

/* One read. *drained: the socket had less than there was room for. 0, -EAGAIN or -errno. */
static int read_some(struct tcp_rail *rail, bool *drained)
{
	struct iovec iov[2];
	struct msghdr msg = { .msg_iov = iov };
	size_t direct = 0, room;
	ssize_t n;

	compact(rail);
	if (rail->rx_left >= TCP_DIRECT_BYTES) {
		direct = rail->rx_left;
		iov[msg.msg_iovlen++] = (struct iovec){ rail->rx_dst, direct };
	}
	room = read_ahead(rail, direct, rail->rx_bytes - rail->rx_tail);
	iov[msg.msg_iovlen++] = (struct iovec){ rail->rx_buf + rail->rx_tail, room };
	do
		n = msg.msg_iovlen == 1 ? recv(rail->base.fd, iov[0].iov_base, room, MSG_DONTWAIT)
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

		rail->rx_dst += taken;
		rail->rx_left -= (uint32_t)taken;
		n -= (ssize_t)taken;
	}
	rail->rx_tail += (uint32_t)n;
	return 0;
}

/* --- receive comm: data --- */

static int take_frame(struct tcp_rail *rail)
{
	struct recv_comm *comm = (struct recv_comm *)rail->base.comm;
	struct anynet_wire_frame *frame = &rail->rx_frame;
	int ret;

	memcpy(frame, rail->rx_buf + rail->rx_head, HEADER_BYTES);
	if (anynet_unlikely(frame->type != ANYNET_FRAME_DATA)) {
		ret = recv_control(comm, &rail->base, frame);
		if (!ret)
			rail->rx_head += HEADER_BYTES;
		return ret;
	}
	ret = recv_place(comm, frame, &rail->rx_msg, &rail->rx_dst);
	if (ret)
		return ret;
	rail->rx_head += HEADER_BYTES;
	rail->rx_left = rail->rx_last = frame->length;
	rail->rx_skip = frame->flags & ANYNET_FLAG_TAIL ? ANYNET_TAIL_BYTES : 0;
	if (!frame->length)
		recv_placed(comm, rail->rx_msg, 0);
	return 0;
}

static void take_payload(struct tcp_rail *rail)
{
	uint32_t bytes = staged(rail) < rail->rx_left ? staged(rail) : rail->rx_left;

	if (bytes) {
		copy_ascending(rail->rx_dst, rail->rx_buf + rail->rx_head, bytes);
		rail->rx_head += bytes;
		rail->rx_dst += bytes;
		rail->rx_left -= bytes;
	}
}

/* Consume what is staged. 0: need more bytes; -EAGAIN: parked; else -errno. */
static int consume(struct tcp_rail *rail)
{
	int ret;

	for (;;) {
		if (rail->rx_left) {
			take_payload(rail);
			if (rail->rx_left)
				return 0;
		} else if (rail->rx_skip && staged(rail)) {
			rail->rx_head += rail->rx_skip;
			rail->rx_skip = 0;
			continue;
		} else if (staged(rail) < HEADER_BYTES) {
			return 0;
		} else {
			ret = take_frame(rail);
			if (ret)
				return ret;
			if (!rail->rx_frame.length)
				continue;
			take_payload(rail);
			if (rail->rx_left)
				return 0;
		}
		recv_placed((struct recv_comm *)rail->base.comm, rail->rx_msg,
			    rail->rx_frame.length);
	}
}

int tcp_receive_data(struct anynet_rail *base)
{
	struct tcp_rail *rail = to_tcp(base);
	const struct recv_comm *comm = (const struct recv_comm *)base->comm;
	unsigned before = recv_completions(comm);
	uint64_t budget = TCP_RX_TURN;
	int ret;

	ret = consume(rail);
	while (!ret && budget && recv_completions(comm) == before) {
		uint32_t left = rail->rx_left, tail = staged(rail);
		bool drained;

		ret = read_some(rail, &drained);
		if (ret == -EAGAIN) {
			base->readable = base->comm->epfd < 0 || base->ended;
			return 0;
		}
		if (ret)
			return ret;
		budget -= anynet_min(budget, left - rail->rx_left + staged(rail) - tail);
		/* The last bytes may have come straight into place. */
		if (left && !rail->rx_left)
			recv_placed((struct recv_comm *)base->comm, rail->rx_msg,
				    rail->rx_frame.length);
		ret = consume(rail);
		if (drained) {
			base->readable = base->comm->epfd < 0 || base->ended;
			break;
		}
	}
	if (ret == -EAGAIN) {
		base->parked = true;
		base->readable = true; /* of what is staged no event tells */
		ret = 0;
	}
	return ret;
}

/* --- send comm: acks and grants --- */

int tcp_receive_control(struct anynet_rail *base)
{
	struct tcp_rail *rail = to_tcp(base);
	struct anynet_wire_frame header;
	bool drained = false;
	int ret;

	if (rail->zc_sent != rail->zc_done)
		tcp_zerocopy_reap(rail);
	while (!drained) {
		ret = read_some(rail, &drained);
		if (ret == -EAGAIN) {
			base->readable = base->comm->epfd < 0 || base->ended;
			return 0;
		}
		if (ret)
			return ret;
		while (staged(rail) >= HEADER_BYTES) {
			memcpy(&header, rail->rx_buf + rail->rx_head, HEADER_BYTES);
			if (header.length > RAIL_CONTROL_BYTES - HEADER_BYTES) {
				comm_fail(base->comm, base, -EPROTO, "control frame of %u bytes",
					  header.length);
				return -EPROTO;
			}
			if (staged(rail) < HEADER_BYTES + header.length)
				break;
			ret = send_control((struct send_comm *)base->comm, &header,
					   rail->rx_buf + rail->rx_head + HEADER_BYTES);
			if (ret)
				return ret;
			rail->rx_head += (uint32_t)HEADER_BYTES + header.length;
		}
	}
	base->readable = base->comm->epfd < 0 || base->ended;
	return 0;
}

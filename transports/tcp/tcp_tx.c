/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending side of a TCP rail: frames pulled from the comm leave many at a time, header and payload
 * in one sendmsg. Payload is read where it lies; a frame stays queued until its last byte is out.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "tcp_rail.h"

#define HEADER_BYTES   sizeof(struct anynet_wire_frame)
#define ZEROCOPY_BYTES (64u << 10) /* below, pinning pages costs more than the copy */

static struct tcp_tx_frame *tx_at(struct tcp_rail *rail, uint32_t index)
{
	return &rail->tx[index % TCP_TX_FRAMES];
}

static void pull(struct tcp_rail *rail)
{
	struct rail_frame frame;
	size_t queued = 0;

	for (uint32_t i = rail->tx_head; i != rail->tx_tail; i++)
		queued += tx_at(rail, i)->bytes;
	while (rail->tx_tail - rail->tx_head < TCP_TX_FRAMES && queued < TCP_TX_TURN) {
		struct tcp_tx_frame *tx = tx_at(rail, rail->tx_tail);

		frame.msg = NULL;
		frame.payload = NULL;
		frame.framed = false;
		if (!send_next((struct send_comm *)rail->base.comm, &rail->base, &frame))
			break;
		tx->header = frame.header;
		tx->payload = frame.payload;
		tx->bytes = frame.msg ? frame.header.length : 0;
		if (frame.framed)
			tx->bytes += ANYNET_TAIL_BYTES;
		tx->msg = frame.msg;
		tx->framed = frame.framed;
		rail->tx_tail++;
		queued += tx->bytes;
		/* With several rails each takes one chunk at a time: whoever is free takes the next. */
		if (rail->base.comm->rail_count > 1)
			break;
	}
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

/* Everything queued, without the first tx_gone bytes. */
static unsigned gather(struct tcp_rail *rail, struct iovec *iov, size_t *total, bool *large)
{
	size_t skip = rail->tx_gone, bytes;
	unsigned n = 0;

	*total = 0;
	*large = true;
	for (uint32_t i = rail->tx_head; i != rail->tx_tail && *total < TCP_TX_TURN; i++) {
		struct tcp_tx_frame *tx = tx_at(rail, i);
		const uint8_t *header = tx->framed ? tx->payload - HEADER_BYTES
						   : (const uint8_t *)&tx->header;

		if (skip < HEADER_BYTES) {
			n = add_piece(iov, n, header + skip, HEADER_BYTES - skip);
			*total += HEADER_BYTES - skip;
			skip = 0;
		} else {
			skip -= HEADER_BYTES;
		}
		bytes = anynet_min(tx->bytes - skip, TCP_TX_TURN);
		if (bytes)
			n = add_piece(iov, n, tx->payload + skip, bytes);
		*total += bytes;
		*large = *large && !tx->framed && bytes >= ZEROCOPY_BYTES;
		skip = 0;
	}
	return n;
}

/* `bytes` more have been taken by the socket. */
static void advance(struct tcp_rail *rail, size_t bytes)
{
	bytes += rail->tx_gone;
	while (rail->tx_head != rail->tx_tail) {
		struct tcp_tx_frame *tx = tx_at(rail, rail->tx_head);

		if (bytes < HEADER_BYTES + tx->bytes)
			break;
		bytes -= HEADER_BYTES + tx->bytes;
		rail->base.bytes_sent += tx->bytes;
		rail->tx_head++;
		if (tx->msg)
			send_written((struct send_comm *)rail->base.comm, tx->msg);
	}
	rail->tx_gone = (uint32_t)bytes;
}

static ssize_t send_pieces(struct tcp_rail *rail, struct iovec *iov, unsigned n, bool large)
{
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = n };
	bool zerocopy = rail->zerocopy && large;
	ssize_t sent;

	for (;;) {
		if (n == 1 && !zerocopy)
			sent = send(rail->base.fd, iov[0].iov_base, iov[0].iov_len,
				    MSG_DONTWAIT | MSG_NOSIGNAL);
		else
			sent = sendmsg(rail->base.fd, &msg,
				       MSG_DONTWAIT | MSG_NOSIGNAL | (zerocopy ? MSG_ZEROCOPY : 0));
		if (sent >= 0) {
			rail->zc_sent += zerocopy;
			return sent;
		}
		if (errno == ENOBUFS && zerocopy)
			zerocopy = rail->zerocopy = false; /* optmem or memlock limit */
		else if (errno != EINTR)
			return -errno;
	}
}

int tcp_transmit_data(struct anynet_rail *base)
{
	struct tcp_rail *rail = to_tcp(base);
	struct iovec iov[2 * TCP_TX_FRAMES];
	size_t gone = 0;

	while (gone < TCP_TX_TURN) {
		size_t total;
		ssize_t sent;
		unsigned n;
		bool large;

		pull(rail);
		if (rail->tx_head == rail->tx_tail)
			return 0;
		n = gather(rail, iov, &total, &large);
		sent = send_pieces(rail, iov, n, large);
		if (sent == -EAGAIN) {
			base->writable = base->comm->epfd < 0;
			return 0;
		}
		if (sent < 0)
			return (int)sent;
		advance(rail, (size_t)sent);
		if (base->comm->rail_count > 1)
			tcp_rate_refresh(rail);
		if ((size_t)sent < total) {
			base->writable = base->comm->epfd < 0;
			return 0;
		}
		gone += (size_t)sent;
	}
	return 0;
}

/* Acks and grants of a receive comm. A sender that is gone cannot be told anything, but what it sent
 * before may still be read: only receiving ends the rail. */
int tcp_transmit_control(struct anynet_rail *base)
{
	struct tcp_rail *rail = to_tcp(base);
	struct recv_comm *comm = (struct recv_comm *)base->comm;

	while (!rail->control_broken) {
		size_t bytes = 1;
		ssize_t sent;

		if (rail->control_gone == rail->control_bytes)
			rail->control_gone = rail->control_bytes = 0;
		while (bytes && rail->control_bytes + RAIL_CONTROL_BYTES <= TCP_CONTROL_BYTES) {
			bytes = recv_next_control(comm, rail->control + rail->control_bytes);
			rail->control_bytes += (uint32_t)bytes;
		}
		if (rail->control_gone == rail->control_bytes)
			return 0;
		sent = send(base->fd, rail->control + rail->control_gone,
			    rail->control_bytes - rail->control_gone, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0) {
			rail->control_broken = errno != EAGAIN;
			return 0;
		}
		rail->control_gone += (uint32_t)sent;
	}
	return 0;
}

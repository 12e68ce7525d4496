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

/* What one call sends. */
struct tx_call {
	struct iovec iov[2 * TCP_TX_FRAMES];
	unsigned pieces;
	size_t bytes;
	int flags; /* MSG_ZEROCOPY: payload by reference; MSG_MORE: its payload follows */
};

static bool by_reference(const struct tcp_rail *rail, const struct tcp_tx_frame *tx)
{
	return rail->zerocopy && !tx->framed && tx->bytes >= ZEROCOPY_BYTES;
}

static void call_add(struct tx_call *call, const void *data, size_t bytes)
{
	call->pieces = add_piece(call->iov, call->pieces, data, bytes);
	call->bytes += bytes;
}

/*
 * As much of what is queued as goes into one call, without the first tx_gone bytes. Payload that is
 * sent by reference has a call of its own: the kernel still reads what such a call names when the
 * frame is long out of the queue, and our header is overwritten by then.
 */
static void gather(struct tcp_rail *rail, struct tx_call *call)
{
	size_t skip = rail->tx_gone;

	call->pieces = 0;
	call->bytes = 0;
	call->flags = 0;
	for (uint32_t i = rail->tx_head; i != rail->tx_tail && call->bytes < TCP_TX_TURN; i++) {
		struct tcp_tx_frame *tx = tx_at(rail, i);
		const uint8_t *header =
			tx->framed ? tx->payload - HEADER_BYTES : (const uint8_t *)&tx->header;
		bool reference = by_reference(rail, tx);

		if (skip < HEADER_BYTES) {
			call_add(call, header + skip, HEADER_BYTES - skip);
			skip = 0;
		} else {
			skip -= HEADER_BYTES;
		}
		if (reference && call->bytes) {
			call->flags = MSG_MORE;
			return;
		}
		if (tx->bytes > skip)
			call_add(call, tx->payload + skip,
				 anynet_min(tx->bytes - skip, TCP_TX_TURN));
		skip = 0;
		if (reference) {
			call->flags = MSG_ZEROCOPY;
			return;
		}
	}
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

static ssize_t send_call(struct tcp_rail *rail, struct tx_call *call)
{
	struct msghdr msg = { .msg_iov = call->iov, .msg_iovlen = call->pieces };
	ssize_t sent;

	for (;;) {
		int flags = call->flags | MSG_DONTWAIT | MSG_NOSIGNAL;

		sent = call->pieces == 1 ? send(rail->base.fd, call->iov[0].iov_base,
						call->iov[0].iov_len, flags)
					 : sendmsg(rail->base.fd, &msg, flags);
		if (sent >= 0) {
			rail->zc_sent += call->flags == MSG_ZEROCOPY;
			return sent;
		}
		if (errno == ENOBUFS && call->flags == MSG_ZEROCOPY) {
			call->flags = 0; /* optmem or memlock limit */
			rail->zerocopy = false;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
}

int tcp_transmit_data(struct anynet_rail *base)
{
	struct tcp_rail *rail = to_tcp(base);
	struct tx_call call;
	size_t gone = 0;

	while (gone < TCP_TX_TURN) {
		ssize_t sent;

		pull(rail);
		if (rail->tx_head == rail->tx_tail)
			return 0;
		gather(rail, &call);
		sent = send_call(rail, &call);
		if (sent < 0 && sent != -EAGAIN)
			return (int)sent;
		if (sent > 0)
			advance(rail, (size_t)sent);
		if (base->comm->rail_count > 1)
			tcp_rate_refresh(rail);
		if (sent < 0 || (size_t)sent < call.bytes) {
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

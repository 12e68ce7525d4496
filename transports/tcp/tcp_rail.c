/* SPDX-License-Identifier: Apache-2.0 */
/* A TCP rail's life: create, backlog, linger, close, and its table. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "socket.h"
#include "tcp_rail.h"

static size_t tcp_backlog(struct anynet_rail *base)
{
	int unsent = socket_unsent(base->fd);

	return unsent < 0 ? 0 : (size_t)unsent;
}

/* Read and forget what has come. False = the connection is broken. */
static bool read_away(int fd)
{
	uint8_t scratch[4096];
	ssize_t n;

	do
		n = recv(fd, scratch, sizeof(scratch), MSG_DONTWAIT);
	while (n > 0);
	return !n || errno == EAGAIN || errno == EINTR;
}

/* Acks that were never read would make close() send a reset, and a reset throws away what the
 * kernel has not delivered yet. So: read them, say that no more data comes, and wait until the
 * peer's kernel has everything. */
static bool tcp_linger(struct anynet_rail *base)
{
	if (!to_tcp(base)->shut && shutdown(base->fd, SHUT_WR))
		return false;
	to_tcp(base)->shut = true;
	/* After a reset the queue stays as it is for ever. */
	return read_away(base->fd) && socket_unsent(base->fd) > 0;
}

static void tcp_close(struct anynet_rail *base)
{
	struct tcp_rail *rail = to_tcp(base);

	/* The tail of the last frame may be unread: it must not turn the end into a reset, which
	 * could overtake our last ack. */
	if (!base->comm->is_send && !comm_error(base->comm))
		read_away(base->fd);
	close(base->fd);
	free(rail->rx_buf);
	free(rail->tx);
	free(rail);
}

static const struct anynet_rail_ops tcp_send_rail_ops = {
	.receive = tcp_receive_control,
	.transmit = tcp_transmit_data,
	.backlog = tcp_backlog,
	.linger = tcp_linger,
	.close = tcp_close,
};

static const struct anynet_rail_ops tcp_recv_rail_ops = {
	.receive = tcp_receive_data,
	.transmit = tcp_transmit_control,
	.backlog = tcp_backlog,
	.linger = tcp_linger,
	.close = tcp_close,
};

static void look_at_path(struct anynet_rail *base)
{
	struct sockaddr_storage local = { 0 }, peer = { 0 };
	socklen_t len = sizeof(local), peer_len = sizeof(peer);
	char from[SOCKET_TEXT_BYTES], to[SOCKET_TEXT_BYTES];

	getsockname(base->fd, (struct sockaddr *)&local, &len);
	getpeername(base->fd, (struct sockaddr *)&peer, &peer_len);
	snprintf(base->path, sizeof(base->path), "%s -> %s",
		 socket_text(&local, from, sizeof(from)), socket_text(&peer, to, sizeof(to)));
}

struct anynet_rail *tcp_rail_create(struct anynet_comm *comm, int fd, uint16_t index,
				    uint32_t epoch)
{
	struct tcp_rail *rail = calloc(1, sizeof(*rail));

	if (!rail)
		return NULL;
	rail->rx_bytes = comm->is_send ? TCP_CONTROL_BYTES : TCP_STAGING_BYTES;
	rail->rx_buf = malloc(rail->rx_bytes);
	rail->tx = comm->is_send ? calloc(TCP_TX_FRAMES, sizeof(*rail->tx)) : NULL;
	if (!rail->rx_buf || (comm->is_send && !rail->tx)) {
		free(rail->rx_buf);
		free(rail->tx);
		free(rail);
		return NULL;
	}
	rail->base.ops = comm->is_send ? &tcp_send_rail_ops : &tcp_recv_rail_ops;
	rail->base.comm = comm;
	rail->base.fd = fd;
	rail->base.index = index;
	rail->base.epoch = epoch;
	rail->base.readable = rail->base.writable = true;
	look_at_path(&rail->base);
	if (comm->is_send)
		tcp_zerocopy_init(rail);
	return &rail->base;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP helpers. Unless noted otherwise they return 0 or a descriptor, or -errno. They do not log and do not block. All
 * descriptors are non-blocking, close-on-exec and in the table of fd.h.
 */
#ifndef ANYNET_SOCKET_H
#define ANYNET_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <nccl_net/config.h>
#include <nccl_net/wire.h>

#define SOCKET_TEXT_BYTES 64 /* "[v6 address]:port" and its NUL */

/* A listening socket on the IP address of `addr`, on an ephemeral port or on a free port of cfg's range; the search
 * starts at a random port. */
int socket_listen(const struct sockaddr_storage *addr, const struct anynet_config *cfg);

/* Start to connect to `to` from the IP address of `from`, which is ignored if the families differ. Until the connection
 * is established, sending returns -EAGAIN; if it fails, sending returns the cause. `same_host`: `to` is on this host.
 * `segment_bytes`: limit for TCP segments with their options, in both directions; 0 = by the path's MTU. */
int socket_connect(const struct sockaddr_storage *from, const struct sockaddr_storage *to,
		   const struct anynet_config *cfg, bool same_host, int segment_bytes);

/* Accept a connection; *from is the peer's address. -EAGAIN = none is waiting. */
int socket_accept(int listen_fd, struct sockaddr_storage *from);

int socket_unsent(int fd); /* bytes that the peer's kernel has not acknowledged, or -errno */
int socket_port(int fd);   /* own port in host byte order, or -errno */

/* Receive or send the next part of a message of fixed size, without blocking. *done counts its bytes so far. 0 =
 * complete, -EAGAIN = call again later, -ENODATA = the peer has closed the connection. */
int socket_recv_some(int fd, void *data, size_t bytes, size_t *done);
int socket_send_some(int fd, const void *data, size_t bytes, size_t *done);

/* Sends a message if the socket has room for it, without blocking. If the socket takes only a part, it is shut down,
 * because the rest does not follow. */
void socket_send_whole(int fd, const void *data, size_t bytes);

/* The text of a -errno of these functions. */
const char *socket_error(int err);

/* Address conversions. to_wire returns false for families other than IPv4 and IPv6, from_wire also for port 0. scope_id
 * is the local interface for link-local IPv6 addresses, as the sender's scope has no meaning here. */
bool socket_to_wire(const struct sockaddr_storage *addr, uint16_t port, uint8_t device,
		    struct anynet_wire_addr *wire);
bool socket_from_wire(const struct anynet_wire_addr *wire, unsigned scope_id,
		      struct sockaddr_storage *addr);
bool socket_same_ip(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
size_t socket_addr_bytes(const struct sockaddr_storage *addr);
const char *socket_text(const struct sockaddr_storage *addr, char buf[SOCKET_TEXT_BYTES]);

#endif

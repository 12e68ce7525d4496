/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small TCP helpers: each does one socket thing, returns 0 (or a descriptor) or -errno, and neither
 * logs nor blocks. All descriptors are non-blocking and close-on-exec.
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

/* A listening socket on `addr` (its port is ignored): on an ephemeral port, or on the first free one
 * of cfg's range, starting at a random place. What it accepts inherits its options (socket_tune). */
int socket_listen(const struct sockaddr_storage *addr, const struct anynet_config *cfg);

/* Start connecting from `from` (any port; skipped when the families differ) to `to`. Until the
 * connection stands sending says -EAGAIN, and if it never does, why. `same_host`: `to` is ours.
 * `segment_bytes`: of TCP segments at most, options included, both ways; 0 = as the path has it. */
int socket_connect(const struct sockaddr_storage *from, const struct sockaddr_storage *to,
		   const struct anynet_config *cfg, bool same_host, int segment_bytes);

/* A connection waiting on `listen_fd`, and who is at its other end; -EAGAIN = none. */
int socket_accept(int listen_fd, struct sockaddr_storage *from);

/* The options every stream has: no delay, keepalive, buffers, congestion control.
 * Buffer sizes have to be set before the connection stands. */
void socket_tune(int fd, const struct anynet_config *cfg);

int socket_unsent(int fd); /* bytes the peer's kernel has not acknowledged; < 0 = -errno */
int socket_port(int fd);   /* own port, host order; < 0 = -errno */

/* Receive or send as much of a fixed-size message as there is room for. *done counts the bytes so
 * far. 0 = complete, -EAGAIN = later, -ENODATA = the peer closed in good order. */
int socket_recv_some(int fd, void *data, size_t bytes, size_t *done);
int socket_send_some(int fd, const void *data, size_t bytes, size_t *done);

/* What a -errno of these means, for a message. */
const char *socket_error(int err);

/* Address conversions. to_wire returns false for families other than IPv4 and IPv6. from_wire checks
 * everything; scope_id is for link-local IPv6, where the sender's own number would mean nothing. */
bool socket_to_wire(const struct sockaddr_storage *addr, uint16_t port, uint8_t device,
		    struct anynet_wire_addr *wire);
bool socket_from_wire(const struct anynet_wire_addr *wire, unsigned scope_id,
		      struct sockaddr_storage *addr);
bool socket_same_ip(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
size_t socket_addr_bytes(const struct sockaddr_storage *addr);
const char *socket_text(const struct sockaddr_storage *addr, char *buf, size_t bytes);
const char *socket_peer_text(int fd, char *buf, size_t bytes);

#endif

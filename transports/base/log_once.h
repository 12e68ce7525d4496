/* SPDX-License-Identifier: Apache-2.0 */
/* One log line for each address, for up to LOG_ONCE_MAX addresses, and none afterwards: peers cannot flood the log. The
 * caller locks. Other limits: stream_is_news (message/stream.h) for breaks 1, 2, 4, 8 ... of a stream, REST_WARN_MS
 * (handshake.c), growing intervals (connect.c), a flag where a line comes once. */
#ifndef ANYNET_LOG_ONCE_H
#define ANYNET_LOG_ONCE_H

#include <stdbool.h>
#include <sys/socket.h>

#include <nccl_net/wire.h>

#define LOG_ONCE_MAX 64

struct log_once {
	unsigned count;
	struct anynet_wire_addr addrs[LOG_ONCE_MAX];
};

/* True, once for each address (the port is ignored): log the line. False also when the table is full. */
bool log_once(struct log_once *told, const struct sockaddr_storage *addr);

#endif

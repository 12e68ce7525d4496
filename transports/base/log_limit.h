/* SPDX-License-Identifier: Apache-2.0 */
/* A rate limit of log lines: one line for each address, for up to LOG_LIMIT_MAX addresses, so that peers cannot flood
 * the log. The caller locks. */
#ifndef ANYNET_LOG_LIMIT_H
#define ANYNET_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define LOG_LIMIT_MAX 64

struct log_limit {
	unsigned count;
	uint8_t ips[LOG_LIMIT_MAX][16];
};

/* True, once for each address (the port is ignored): log the line. False also when the table is full. */
bool log_limit_first(struct log_limit *told, const struct sockaddr_storage *addr);

#endif

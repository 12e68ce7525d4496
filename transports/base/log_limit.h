/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that something has been logged about: one line for each, and for LOG_LIMIT_MAX of them, so that
 * nobody can fill the log. Locking is the caller's. */
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

/* Is a line due about this address? Its port does not count. */
bool log_limit_first(struct log_limit *told, const struct sockaddr_storage *addr);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that something has been logged about: one line for each, and for TOLD_MAX of them, so that
 * nobody can fill the log. Locking is the caller's. */
#ifndef ANYNET_TOLD_H
#define ANYNET_TOLD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define TOLD_MAX 64

struct told {
	unsigned count;
	uint8_t ips[TOLD_MAX][16];
};

/* Is a line due about this address? Its port does not count. */
bool told_first(struct told *told, const struct sockaddr_storage *addr);

#endif

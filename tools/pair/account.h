/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics of TCP connections from the kernel (TCP_INFO): retransmissions, and what limited the
 * sender. Sums over connections. Old kernels leave the later fields 0.
 */
#ifndef PAIR_ACCOUNT_H
#define PAIR_ACCOUNT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACCOUNT_SOCKETS 512

struct account {
	uint64_t connections;
	uint64_t segments, retransmits;
	uint64_t busy_us, rwnd_limited_us, sndbuf_limited_us;
	uint64_t window_bytes;      /* windows that the receivers advertise at the end */
	uint64_t rtt_us, mss, pmtu; /* of the first connection */
};

/* Adds the statistics of a socket. */
void account_add(struct account *account, int fd);

/* Adds the members to an object, except "streams"; "mss" and "pmtu" only for a single connection. */
void account_tell(json_t *object, const struct account *account);

/* Snapshot of all TCP connections of this process. */
struct account_sockets {
	size_t count;
	struct account_socket {
		uint64_t cookie, acked; /* acked: bytes */
		struct account account;
	} of[ACCOUNT_SOCKETS];
};

void account_look(struct account_sockets *sockets);

/* Returns the changes since a snapshot, of connections that have carried data. */
struct account account_since(const struct account_sockets *before);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's account of TCP connections: what was retransmitted, and what their sender waited for. Sums
 * over connections; old kernels leave the later fields 0.
 */
#ifndef PAIR_ACCOUNT_H
#define PAIR_ACCOUNT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACCOUNT_SOCKETS 512

struct account {
	uint64_t streams; /* connections */
	uint64_t segments, retransmits;
	uint64_t busy_us, rwnd_limited_us, sndbuf_limited_us;
	uint64_t window_bytes;      /* receive windows at the end */
	uint64_t rtt_us, mss, pmtu; /* of one of them */
};

/* Adds a socket's. */
void account_add(struct account *account, int fd);

/* Its members of an object, but for "streams", and without "mss" and "pmtu" if it is no single one. */
void account_tell(json_t *object, const struct account *account);

/* All TCP connections of this process, at one time. */
struct account_sockets {
	size_t count;
	struct account_socket {
		uint64_t cookie, acked; /* bytes */
		struct account account;
	} of[ACCOUNT_SOCKETS];
};

void account_look(struct account_sockets *sockets);

/* What has been added since then by connections that have carried data. */
struct account account_since(const struct account_sockets *before);

#endif

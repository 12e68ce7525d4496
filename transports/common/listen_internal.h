/* SPDX-License-Identifier: Apache-2.0 */
/* Between listen.c (listeners, endpoints, sockets) and handshake.c (strangers and peers saying hello). */
#ifndef ANYNET_LISTEN_INTERNAL_H
#define ANYNET_LISTEN_INTERNAL_H

#include "auth.h"
#include "hello.h"
#include "listen.h"

struct anynet_listener {
	const struct anynet_device *dev;
	uint32_t endpoint;
	uint64_t deadline_ms;     /* of the accept: set when its hello has come */
	struct anynet_comm *comm; /* being built; NULL until a hello has come */
};

/* An entry of the endpoint table; its number is in the handle. */
struct endpoint {
	bool used;
	uint8_t token[ANYNET_TOKEN_BYTES];
	struct anynet_listener *listener; /* while it waits */
	struct anynet_comm *comm;         /* from the hello on */
	uint64_t comm_id;
	int next_free;
};

/* All of these are called under the engine's lock. */

/* NULL = no such endpoint, or the token is another one's. */
struct endpoint *endpoint_find(uint32_t number, const uint8_t token[ANYNET_TOKEN_BYTES]);

/*
 * Give the connection `fd` that said `hello` to its endpoint and fill the answer, which the caller
 * sends. `auth`: what the connector has proven, NULL without secrets.
 * 0: the endpoint's comm owns fd now. -EINPROGRESS: it does, and it answers itself. -ENOENT: a
 * stranger, no answer at all. Other -errno: answer, and close.
 */
int endpoint_admit(const struct anynet_wire_hello *hello, int fd, const struct auth *auth,
		   struct anynet_wire_hello *answer);

/* The answer could not be sent: drop the comm being built, wait for the peer's next try. */
void endpoint_withdraw(uint32_t number);

void handshake_turn(int epfd, uint64_t now_ms);
void handshake_abort_all(void);

/* epoll data of listening sockets: their index; of handshakes: a pointer. */
#define LISTEN_EVENT_SOCKET(index) ((uint64_t)(index) << 1 | 1)
int listen_socket_fd(unsigned index);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Between listen.c (listeners, endpoints, sockets) and handshake.c (connections before and during hello). */
#ifndef ANYNET_LISTEN_INTERNAL_H
#define ANYNET_LISTEN_INTERNAL_H

#include "session/listen.h"
#include "wire/auth.h"
#include "wire/hello.h"

struct anynet_listener {
	const struct anynet_device *dev;
	const void *owner;
	uint32_t endpoint;
	uint64_t deadline_ms;     /* for what is short, once something is; 0 = nothing has been */
	struct anynet_comm *comm; /* being built; NULL until a hello has come */
};

/* All of these are called under the engine's lock. */

/* --- endpoint.c: what a handle points to, first a listener that waits, then its receive comm --- */

/* A new one for a listener, and the handle that points to it. 0 or -errno. */
int endpoint_take(struct anynet_listener *listener, struct anynet_wire_handle *handle,
		  const struct anynet_wire_addr *addrs, int addr_count);
void endpoint_release(uint32_t number);

/* The listener's comm stands: it is the caller's, and the endpoint the comm's. */
struct anynet_comm *endpoint_hand_over(struct anynet_listener *listener);
void endpoint_close_listener(struct anynet_listener *listener);

/* The peer went away or stalled before the comm stood: be ready for its next try. */
void endpoint_drop_half_built(struct anynet_listener *listener);
void endpoints_drop_half_built(const void *owner);
void endpoints_visit_half_built(void (*visit)(struct anynet_listener *listener));

int endpoints_used(void);
void endpoints_free(void); /* when none is used */

/* Does the hello name an endpoint that exists, with its token? */
bool endpoint_expects(const struct anynet_wire_hello *hello);

/*
 * Give the connection `fd` that said `hello` to its endpoint and fill the answer, which the caller
 * sends. `auth`: what the connector has proven, NULL without secrets.
 * 0: the endpoint's comm owns fd now. -EINPROGRESS: it does, and it answers itself. -ENOENT: an
 * unauthenticated peer, no answer at all. Other -errno: answer, and close.
 */
int endpoint_admit(const struct anynet_wire_hello *hello, int fd, const struct auth *auth,
		   struct anynet_wire_hello *answer);

/* The answer to a hello that was given a comm or a stream could not be sent: take back that comm, or that stream alone. */
void endpoint_withdraw(const struct anynet_wire_hello *hello);

void handshake_turn(int epfd, uint64_t now_ms);

/* Why nobody can be let in for now, as -errno; 0 = who comes is. */
int handshake_trouble(void);
void handshake_abort_all(void);

#endif

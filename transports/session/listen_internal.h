/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the accept engine: listen.c (listeners), endpoint.c (endpoints) and handshake.c (connections
 * until their hello is complete). */
#ifndef ANYNET_LISTEN_INTERNAL_H
#define ANYNET_LISTEN_INTERNAL_H

#include "session/listen.h"
#include "wire/auth.h"
#include "wire/hello.h"

struct anynet_listener {
	LIST_ENTRY(anynet_listener) link;
	const struct anynet_device *dev;
	const void *owner;
	uint32_t endpoint;
	uint64_t deadline_ms;     /* when a shortage becomes an error (is_short); 0 = none so far */
	struct anynet_comm *comm; /* half-built; NULL until a COMM hello is admitted */
};

/* All functions below need the engine's lock. */

/* --- endpoint.c: what a handle points to, first a listener that waits, then its receive comm --- */

/* Take a free endpoint for a listener and fill the handle that names it. 0 or -errno. */
int endpoint_take(struct anynet_listener *listener, struct anynet_wire_handle *handle,
		  const struct anynet_wire_addr *addrs, int addr_count);
void endpoint_release(uint32_t number);

/* Take the listener's comm, which is complete. The caller owns it, and the endpoint belongs to it. */
struct anynet_comm *endpoint_hand_over(struct anynet_listener *listener);
void endpoint_close_listener(struct anynet_listener *listener);

/* Destroy the listener's half-built comm, because its peer went away or tries again. The listener then takes the next
 * one. */
void endpoint_drop_half_built(struct anynet_listener *listener);

int endpoints_used(void);
void endpoints_free(void); /* only if none is used */

/* Does the hello name an endpoint that exists, with its token? */
bool endpoint_expects(const struct anynet_wire_hello *hello);

/*
 * Give the connection `fd`, whose `hello` is authenticated, to its endpoint, and fill the answer, which the caller
 * sends. `auth`: state of the proofs; NULL without a secret. 0: the endpoint's comm owns `fd`. -EINPROGRESS: the same,
 * but the comm sends the answer itself. -ENOENT: unknown endpoint or replayed hello, close without an answer.
 * -EALREADY: send the answer, then close.
 */
int endpoint_admit(const struct anynet_wire_hello *hello, int fd, const struct auth *auth,
		   struct anynet_wire_hello *answer);

/* Undo an endpoint_admit that returned 0, because the answer could not be sent: destroy the new comm, or only the new
 * stream. */
void endpoint_withdraw(const struct anynet_wire_hello *hello);

void handshake_turn(uint64_t now_ms);

/* Why no connection can be accepted for now, as -errno; 0 = they can. */
int handshake_trouble(void);
void handshake_abort_all(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proofs that both sides of a new connection know one secret (docs/wire.md, "The secret"): each
 * message of the handshake carries a MAC over itself and everything before it. Messages only, no
 * sockets: the acceptor's side is used by handshake.c, the connector's by dial.c.
 */
#ifndef ANYNET_AUTH_H
#define ANYNET_AUTH_H

#include <nccl_net/wire.h>

#include "wire/hmac.h"

/* One handshake so far; zeros before its first message. */
struct auth {
	uint8_t chain[HMAC_BYTES];
};

/* What becomes of somebody who has said hello. */
enum auth_verdict {
	AUTH_ADMIT,     /* neither side has a secret */
	AUTH_CHALLENGE, /* so far he seems to know it: he has to prove it */
	AUTH_REFUSE,
};

/* Connector: make `hello`, complete otherwise, say what is to be said about the secret, if there is
 * one. 0, or -EACCES: there is to be a secret, but it cannot be used. */
int auth_hello(struct auth *auth, struct anynet_wire_hello *hello);

/* Acceptor: judge a hello that has been checked. AUTH_REFUSE: `why` tells both sides. */
enum auth_verdict auth_judge(struct auth *auth, const struct anynet_wire_hello *hello, char *why,
			     size_t why_bytes);

/* Fill the acceptor's answer to `hello`, or the connector's answer to that. 0 or -EIO. */
int auth_challenge(struct auth *auth, const struct anynet_wire_hello *hello,
		   struct anynet_wire_hello *challenge);
int auth_response(struct auth *auth, const struct anynet_wire_hello *challenge,
		  struct anynet_wire_hello *response);

/* Put the proof into the next message of the handshake, complete otherwise. 0 or -EIO. */
int auth_prove(struct auth *auth, struct anynet_wire_hello *message);

/* Does the next message, as it came, prove that its sender knows the secret and got all that was said
 * before? 0 or -EACCES. */
int auth_check(struct auth *auth, const struct anynet_wire_hello *message);

#endif

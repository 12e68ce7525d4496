/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proofs that both ends of a new connection know the same secret (docs/wire.md, "The secret"): each message of the
 * handshake has a MAC over itself and all earlier messages. No sockets here: handshake.c uses the acceptor's functions,
 * dial.c the connector's.
 */
#ifndef ANYNET_AUTH_H
#define ANYNET_AUTH_H

#include <nccl_net/wire.h>

#include "wire/hmac.h"

/* The state of one handshake; zeros before its first message. */
struct auth {
	uint8_t chain[HMAC_BYTES]; /* proof of the last message */
};

/* What the acceptor does after a hello. */
enum auth_verdict {
	AUTH_ADMIT,     /* neither side has a secret */
	AUTH_CHALLENGE, /* the proof is right, but the hello may be a replay: send a CHALLENGE */
	AUTH_REFUSE,
};

/* Connector: reset *auth and, if there is a secret, add nonce, feature bit and proof to `hello`, which is complete
 * otherwise. 0, or -EACCES: the configured secret cannot be used. */
int auth_hello(struct auth *auth, struct anynet_wire_hello *hello);

/* Acceptor: reset *auth and judge a hello that hello_check has accepted. AUTH_REFUSE: `why` is the reason, in words for
 * both ends. */
enum auth_verdict auth_judge(struct auth *auth, const struct anynet_wire_hello *hello, char *why,
			     size_t why_bytes);

/* Fill the acceptor's CHALLENGE to `hello`, and the connector's RESPONSE to that, with their proofs. 0 or -errno. */
int auth_challenge(struct auth *auth, const struct anynet_wire_hello *hello,
		   struct anynet_wire_hello *challenge);
int auth_response(struct auth *auth, const struct anynet_wire_hello *challenge,
		  struct anynet_wire_hello *response);

/* Add the proof to the next message of the handshake, which is complete otherwise. 0 or -EIO. */
int auth_prove(struct auth *auth, struct anynet_wire_hello *message);

/* Verify the proof of the next message, as received: its sender knows the secret and has seen the same earlier
 * messages. 0, -EACCES, or -EIO: this process cannot compute a proof. */
int auth_check(struct auth *auth, const struct anynet_wire_hello *message);

/* The reason for the peer after -EIO. */
void auth_say_unable(char *why, size_t why_bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Proofs of the secret; see auth.h. */
#include "wire/auth.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/net.h"
#include "base/os.h"
#include "wire/hello.h"
#include "wire/secret.h"

static_assert(ANYNET_PROOF_BYTES == HMAC_BYTES, "wire");

/* The input of a MAC. The message's type distinguishes the messages and the sides of a handshake. */
struct proven {
	char label[16];
	uint8_t chain[HMAC_BYTES];
	struct anynet_wire_hello message; /* with `proof` set to zero */
};
static_assert(sizeof(struct proven) == 48 + sizeof(struct anynet_wire_hello), "wire");

static int mac_of(const struct auth *auth, const struct anynet_wire_hello *message,
		  uint8_t mac[HMAC_BYTES])
{
	struct proven proven = { .label = "anynet hello v2", .message = *message };

	memcpy(proven.chain, auth->chain, sizeof(proven.chain));
	memset(proven.message.proof, 0, sizeof(proven.message.proof));
	return secret_mac(&proven, sizeof(proven), mac);
}

int auth_prove(struct auth *auth, struct anynet_wire_hello *message)
{
	message->features |= ANYNET_FEATURE_SECRET;
	hello_make_printable(message); /* the receiver does so before it checks the proof */
	if (mac_of(auth, message, auth->chain))
		return -EIO;
	memcpy(message->proof, auth->chain, sizeof(message->proof));
	return 0;
}

int auth_check(struct auth *auth, const struct anynet_wire_hello *message)
{
	uint8_t mac[HMAC_BYTES];

	if (mac_of(auth, message, mac))
		return -EIO;
	if (!constant_time_equal(mac, message->proof, sizeof(mac)))
		return -EACCES;
	memcpy(auth->chain, mac, sizeof(auth->chain));
	return 0;
}

int auth_hello(struct auth *auth, struct anynet_wire_hello *hello)
{
	*auth = (struct auth){ { 0 } };
	if (secret_problem())
		return -EACCES;
	if (!secret_known())
		return 0;
	return os_random(hello->nonce, sizeof(hello->nonce)) || auth_prove(auth, hello) ? -EACCES : 0;
}

void auth_say_unable(char *why, size_t why_bytes)
{
	snprintf(why, why_bytes,
		 "host %s pid %u cannot compute a proof: it is exiting, or libcrypto fails",
		 anynet_net.host, anynet_net.pid);
}

static enum auth_verdict judge_proof(struct auth *auth, const struct anynet_wire_hello *hello,
				     char *why, size_t why_bytes)
{
	int ret = auth_check(auth, hello);

	if (!ret)
		return AUTH_CHALLENGE;
	if (ret == -EIO)
		auth_say_unable(why, why_bytes);
	else
		snprintf(why, why_bytes,
			 "host %s pid %u and host %s pid %u have different secrets "
			 "(ANYNET_SECRET_FILE)",
			 hello->host, hello->pid, anynet_net.host, anynet_net.pid);
	return AUTH_REFUSE;
}

enum auth_verdict auth_judge(struct auth *auth, const struct anynet_wire_hello *hello, char *why,
			     size_t why_bytes)
{
	bool theirs = hello->features & ANYNET_FEATURE_SECRET;

	*auth = (struct auth){ { 0 } };
	if (secret_problem())
		snprintf(why, why_bytes,
			 "host %s pid %u cannot use its secret file (ANYNET_SECRET_FILE), see its "
			 "log",
			 anynet_net.host, anynet_net.pid);
	else if (theirs != secret_known())
		snprintf(
			why, why_bytes,
			"host %s pid %u has a secret (ANYNET_SECRET_FILE), host %s pid %u has none",
			theirs ? hello->host : anynet_net.host,
			theirs ? hello->pid : anynet_net.pid,
			theirs ? anynet_net.host : hello->host,
			theirs ? anynet_net.pid : hello->pid);
	else if (!theirs)
		return AUTH_ADMIT;
	else
		return judge_proof(auth, hello, why, why_bytes);
	return AUTH_REFUSE;
}

/* A message with the fields that all messages of a handshake have in common. */
static struct anynet_wire_hello next_message(const struct anynet_wire_hello *hello,
					     enum anynet_hello_type type)
{
	struct anynet_wire_hello next = {
		.magic = ANYNET_HELLO_MAGIC,
		.bytes = sizeof(next),
		.pid = anynet_net.pid,
	};

	hello_answer(&next, hello);
	next.type = (uint8_t)type;
	snprintf(next.host, sizeof(next.host), "%.63s", anynet_net.host);
	return next;
}

int auth_challenge(struct auth *auth, const struct anynet_wire_hello *hello,
		   struct anynet_wire_hello *challenge)
{
	*challenge = next_message(hello, ANYNET_CHALLENGE);
	return os_random(challenge->nonce, sizeof(challenge->nonce)) ? -EACCES : auth_prove(auth, challenge);
}

int auth_response(struct auth *auth, const struct anynet_wire_hello *challenge,
		  struct anynet_wire_hello *response)
{
	struct anynet_wire_hello next = next_message(challenge, ANYNET_RESPONSE);

	*response = next;
	return auth_prove(auth, response);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The responder of a data port proves that it knows the session's token before it receives anything
 * but random bytes: it answers a nonce with a keyed hash. So a program that merely listens at that
 * port receives neither traffic nor bytes that an unauthenticated peer has chosen.
 */
#ifndef PAIR_PROOF_H
#define PAIR_PROOF_H

#define PROOF_NONCE 16
#define PROOF_BYTES 8

/* Computes SipHash-2-4 of the nonce with the token as key. */
void proof_make(const unsigned char *token, const unsigned char *nonce, unsigned char *proof);

#endif

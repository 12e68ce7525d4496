/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who listens at a data port proves that it is the one that was asked for, before it is sent anything
 * but a few random bytes: it answers them with what only the token makes of them. Nothing that an
 * unauthenticated peer has chosen, and no traffic, reaches a program that only listens there.
 */
#ifndef PAIR_PROOF_H
#define PAIR_PROOF_H

#define PROOF_NONCE 16
#define PROOF_BYTES 8
#define PROOF_TOKEN 16

/* SipHash-2-4 of the nonce, by the token. */
void proof_make(const unsigned char *token, const unsigned char *nonce, unsigned char *proof);

#endif

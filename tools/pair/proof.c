/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-2-4 (Aumasson, Bernstein 2012) of 16 bytes; see proof.h. */
#include "proof.h"

#include <endian.h>
#include <stdint.h>
#include <string.h>

static uint64_t load(const unsigned char *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return le64toh(word);
}

static uint64_t turn(uint64_t word, int bits)
{
	return word << bits | word >> (64 - bits);
}

static void rounds(uint64_t *v, int count)
{
	while (count--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = turn(v[1], 13) ^ v[0];
		v[3] = turn(v[3], 16) ^ v[2];
		v[0] = turn(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = turn(v[1], 17) ^ v[2];
		v[3] = turn(v[3], 21) ^ v[0];
		v[2] = turn(v[2], 32);
	}
}

void proof_make(const unsigned char *token, const unsigned char *nonce, unsigned char *proof)
{
	const uint64_t key[2] = { load(token), load(token + 8) };
	/* The last block of SipHash: the remaining input (none) and the length. */
	const uint64_t blocks[3] = { load(nonce), load(nonce + 8), (uint64_t)PROOF_NONCE << 56 };
	uint64_t v[4] = { key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
			  key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573 };
	uint64_t result;

	for (int i = 0; i < 3; i++) {
		v[3] ^= blocks[i];
		rounds(v, 2);
		v[0] ^= blocks[i];
	}
	v[2] ^= 0xff;
	rounds(v, 4);
	result = htole64(v[0] ^ v[1] ^ v[2] ^ v[3]);
	memcpy(proof, &result, PROOF_BYTES);
}

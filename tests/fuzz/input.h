/* SPDX-License-Identifier: Apache-2.0 */
/* A fuzzer's input, read from the front, followed by zeros; and what all fuzzers share. */
#ifndef TESTS_FUZZ_INPUT_H
#define TESTS_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

struct input {
	const uint8_t *data;
	size_t left;
};

/* Invariants for any input. */
#define must(condition)           \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

static inline size_t input_take(struct input *in, void *out, size_t bytes)
{
	size_t n = bytes < in->left ? bytes : in->left;

	memset(out, 0, bytes);
	if (n)
		memcpy(out, in->data, n);
	in->data += n;
	in->left -= n;
	return n;
}

static inline uint8_t input_u8(struct input *in)
{
	uint8_t value;

	input_take(in, &value, sizeof(value));
	return value;
}

/* From -128 to 127, added modulo 2^32. */
static inline uint32_t input_step(struct input *in)
{
	return (uint32_t)(int8_t)input_u8(in);
}

static inline uint16_t input_u16(struct input *in)
{
	uint16_t value;

	input_take(in, &value, sizeof(value));
	return value;
}

/* local_net_start, without a log. */
void fuzz_net_start(void);

/* From now on there is a secret, or none. False: libcrypto is missing. */
bool fuzz_net_secret(bool wanted);

#endif

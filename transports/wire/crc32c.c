/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC32C: a polynomial remainder with bits in reflected order (bit 31 is x⁰), inverted before and after. The CPU
 * instruction processes 8 bytes, one per cycle with a latency of three cycles. So long data is processed as three
 * interleaved parts, whose results are combined by tables: appending n bytes multiplies the remainder of the preceding
 * bytes by x⁸ⁿ.
 */
#include "wire/crc32c.h"

#include <endian.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#if defined(__aarch64__)
#include <sys/auxv.h>
#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif
#endif

#define POLYNOMIAL 0x82f63b78u
#define X8         0x00800000u /* x⁸ */
#define LONG_BITS  12          /* long parts have 4096 bytes */
#define SHORT_BITS 8           /* short parts have 256 bytes */
#define WORD       sizeof(uint64_t)

/* Multiplication by a constant: the product for each value of each byte of the other factor. */
struct factor {
	uint32_t of[4][256];
};

/* Set up once, by `once`. */
static struct {
	uint32_t byte[WORD][256]; /* byte[i][v]: CRC of byte v followed by i zero bytes */
	struct factor by_long, by_short;
	bool instruction;
} tables;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (; a; a <<= 1) {
		if (a >> 31)
			product ^= b;
		b = b >> 1 ^ (b & 1 ? POLYNOMIAL : 0);
	}
	return product;
}

/* The factor for appending 2^bits bytes. */
static void make_factor(struct factor *factor, unsigned bits)
{
	uint32_t by = X8;

	while (bits--)
		by = multiply(by, by);
	for (unsigned i = 0; i < 4; i++)
		for (uint32_t value = 0; value < 256; value++)
			factor->of[i][value] = multiply(value << 8 * i, by);
}

static bool has_instruction(void)
{
#if defined(__x86_64__)
	return __builtin_cpu_supports("sse4.2");
#elif defined(__aarch64__)
	return getauxval(AT_HWCAP) & HWCAP_CRC32;
#else
	return false;
#endif
}

static void make_tables(void)
{
	for (uint32_t value = 0; value < 256; value++) {
		uint32_t crc = multiply(value, X8);

		for (size_t i = 0; i < WORD; i++) {
			tables.byte[i][value] = crc;
			crc = multiply(crc, X8);
		}
	}
	make_factor(&tables.by_long, LONG_BITS);
	make_factor(&tables.by_short, SHORT_BITS);
	tables.instruction = has_instruction();
}

static inline uint64_t load(const uint8_t *data)
{
	uint64_t word;

	memcpy(&word, data, sizeof(word));
	return word;
}

/* --- without the instruction: eight bytes at a time from as many tables --- */

static uint32_t by_tables(uint32_t crc, const uint8_t *at, size_t bytes)
{
	for (; bytes >= WORD; bytes -= WORD, at += WORD) {
		uint64_t word = le64toh(load(at)) ^ crc;

		crc = 0;
		for (unsigned i = 0; i < WORD; i++)
			crc ^= tables.byte[WORD - 1 - i][word >> 8 * i & 0xff];
	}
	while (bytes--)
		crc = crc >> 8 ^ tables.byte[0][(crc ^ *at++) & 0xff];
	return crc;
}

/* --- with it --- */

#if defined(__x86_64__)
#define WITH_INSTRUCTION __attribute__((target("sse4.2")))

static inline WITH_INSTRUCTION uint32_t take_byte(uint32_t crc, uint8_t byte)
{
	return __builtin_ia32_crc32qi(crc, byte);
}

static inline WITH_INSTRUCTION uint32_t take_word(uint32_t crc, uint64_t word)
{
	return (uint32_t)__builtin_ia32_crc32di(crc, word);
}
#elif defined(__aarch64__)
#define WITH_INSTRUCTION

static inline uint32_t take_byte(uint32_t crc, uint8_t byte)
{
	__asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(byte));
	return crc;
}

static inline uint32_t take_word(uint32_t crc, uint64_t word)
{
	__asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
	return crc;
}
#endif

#ifdef WITH_INSTRUCTION
static uint32_t times(uint32_t crc, const struct factor *factor)
{
	return factor->of[0][crc & 0xff] ^ factor->of[1][crc >> 8 & 0xff] ^
	       factor->of[2][crc >> 16 & 0xff] ^ factor->of[3][crc >> 24];
}

/* Process three parts of `part` bytes each. `factor` is the one for appending `part` bytes. */
static inline WITH_INSTRUCTION uint32_t take_three(uint32_t crc, const uint8_t *at, size_t part,
						   const struct factor *factor)
{
	uint32_t second = 0, third = 0;

	for (size_t i = 0; i < part; i += WORD) {
		crc = take_word(crc, load(at + i));
		second = take_word(second, load(at + part + i));
		third = take_word(third, load(at + 2 * part + i));
	}
	return times(times(crc, factor) ^ second, factor) ^ third;
}

static WITH_INSTRUCTION uint32_t by_instruction(uint32_t crc, const uint8_t *at, size_t bytes)
{
	const size_t long_part = (size_t)1 << LONG_BITS, short_part = (size_t)1 << SHORT_BITS;

	for (; bytes >= 3 * long_part; bytes -= 3 * long_part, at += 3 * long_part)
		crc = take_three(crc, at, long_part, &tables.by_long);
	for (; bytes >= 3 * short_part; bytes -= 3 * short_part, at += 3 * short_part)
		crc = take_three(crc, at, short_part, &tables.by_short);
	for (; bytes >= WORD; bytes -= WORD, at += WORD)
		crc = take_word(crc, load(at));
	while (bytes--)
		crc = take_byte(crc, *at++);
	return crc;
}
#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes)
{
	pthread_once(&once, make_tables);
#ifdef WITH_INSTRUCTION
	if (tables.instruction)
		return ~by_instruction(~crc, data, bytes);
#endif
	return ~by_tables(~crc, data, bytes);
}

uint32_t crc32c_by_tables(uint32_t crc, const void *data, size_t bytes)
{
	pthread_once(&once, make_tables);
	return ~by_tables(~crc, data, bytes);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C against the examples of RFC 3720 (B.4) and against the definition, bit by bit. With a number of MiB as
 * argument: prints its rate instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "transports/wire/crc32c.h"

#define SHORT_MAX 300
#define LONGEST   (3 * 4096 * 3 + 3 * 256 * 3 + 17) /* more than one iteration of every loop */

typedef uint32_t crc_fn(uint32_t crc, const void *data, size_t bytes);

static crc_fn *const both[] = { crc32c, crc32c_by_tables };

#define BOTH (sizeof(both) / sizeof(both[0]))

static uint32_t bit_by_bit(uint32_t crc, const uint8_t *data, size_t bytes)
{
	crc = ~crc;
	while (bytes--) {
		crc ^= *data++;
		for (int i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}

static void fill(uint8_t *data, size_t bytes)
{
	uint32_t x = 12345;

	for (size_t i = 0; i < bytes; i++) {
		x = x * 1664525 + 1013904223;
		data[i] = (uint8_t)(x >> 24);
	}
}

static void test_rfc_examples(void **state)
{
	static const uint8_t read_command[48] = {
		0x01, 0xc0, [16] = 0x14, [22] = 0x04, [27] = 0x14, [31] = 0x18, 0x28, [40] = 0x02,
	};
	uint8_t zeros[32] = { 0 }, ones[32], up[32], down[32];

	(void)state;
	memset(ones, 0xff, sizeof(ones));
	for (uint8_t i = 0; i < 32; i++) {
		up[i] = i;
		down[i] = (uint8_t)(31 - i);
	}
	for (size_t i = 0; i < BOTH; i++) {
		assert_int_equal(both[i](0, zeros, sizeof(zeros)), 0x8a9136aa);
		assert_int_equal(both[i](0, ones, sizeof(ones)), 0x62a8ab43);
		assert_int_equal(both[i](0, up, sizeof(up)), 0x46dd794e);
		assert_int_equal(both[i](0, down, sizeof(down)), 0x113fdb5c);
		assert_int_equal(both[i](0, read_command, sizeof(read_command)), 0xd9963a56);
		assert_int_equal(both[i](0, "123456789", 9), 0xe3069283);
		assert_int_equal(both[i](0, NULL, 0), 0);
	}
}

static void test_all_short_lengths_and_alignments(void **state)
{
	uint8_t data[SHORT_MAX + 16];

	(void)state;
	fill(data, sizeof(data));
	for (size_t at = 0; at < 16; at++) {
		for (size_t bytes = 0; bytes <= SHORT_MAX; bytes++) {
			uint32_t want = bit_by_bit(0, data + at, bytes);

			for (size_t i = 0; i < BOTH; i++)
				assert_int_equal(both[i](0, data + at, bytes), want);
		}
	}
}

static void test_long_messages(void **state)
{
	uint8_t *data = malloc(LONGEST);

	(void)state;
	assert_non_null(data);
	fill(data, LONGEST);
	for (size_t bytes = LONGEST; bytes > 40; bytes = bytes * 31 / 32 - 1) {
		uint32_t want = bit_by_bit(0, data, bytes);

		for (size_t i = 0; i < BOTH; i++)
			assert_int_equal(both[i](0, data, bytes), want);
	}
	free(data);
}

static void test_in_pieces(void **state)
{
	uint8_t *data = malloc(LONGEST);
	uint32_t want;

	(void)state;
	assert_non_null(data);
	fill(data, LONGEST);
	want = bit_by_bit(0, data, LONGEST);
	for (size_t cut = 0; cut <= LONGEST; cut += cut < SHORT_MAX ? 1 : 1009) {
		for (size_t i = 0; i < BOTH; i++) {
			uint32_t crc = both[i](0, data, cut);

			assert_int_equal(both[i](crc, data + cut, LONGEST - cut), want);
		}
	}
	free(data);
}

/* A single wrong bit is always detected. */
static void test_wrong_bits(void **state)
{
	uint8_t data[SHORT_MAX];
	uint32_t want;

	(void)state;
	fill(data, sizeof(data));
	want = crc32c(0, data, sizeof(data));
	for (size_t bit = 0; bit < 8 * sizeof(data); bit++) {
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_not_equal(crc32c(0, data, sizeof(data)), want);
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

/* --- the rate --- */

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int print_rates(size_t mib)
{
	static const size_t sizes[] = { 32, 512, 8192, 131072, 1 << 20 };
	uint8_t *data = malloc(1 << 20);
	uint32_t crc = 0;

	if (!data)
		return 1;
	fill(data, 1 << 20);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		for (size_t i = 0; i < BOTH; i++) {
			size_t times = (mib << 20) / sizes[s];
			double start = seconds();

			for (size_t n = 0; n < times; n++)
				crc = both[i](crc, data, sizes[s]);
			printf("%7zu bytes, %s: %6.2f GB/s\n", sizes[s],
			       i ? "tables     " : "instruction",
			       (double)(times * sizes[s]) / (seconds() - start) / 1e9);
		}
	}
	printf("(%08x)\n", crc);
	free(data);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rfc_examples),
		cmocka_unit_test(test_all_short_lengths_and_alignments),
		cmocka_unit_test(test_long_messages),
		cmocka_unit_test(test_in_pieces),
		cmocka_unit_test(test_wrong_bits),
	};

	if (argc > 1)
		return print_rates(strtoul(argv[1], NULL, 10));
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Copies into receive buffers, with the barrier for machines that reorder stores: it comes before the last word of each
 * line, after all earlier words were written and before that one is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void note_barrier(void);
#define COPY_BARRIER() note_barrier()
#include "transports/memory/copy.h"

#define LINES  8
#define BYTES  (LINES * COPY_LINE_BYTES)
#define BLANK  0xee
#define STARTS 17 /* tested offsets of source and destination */

static _Alignas(COPY_LINE_BYTES) uint8_t to[BYTES + STARTS];
static uint8_t from[BYTES + STARTS];
static struct {
	size_t start, bytes;
	unsigned barriers;
} now;

static void note_barrier(void)
{
	size_t written = 0;

	while (written < now.bytes && to[now.start + written] != BLANK)
		written++;
	assert_int_equal((now.start + written) % COPY_LINE_BYTES, COPY_LAST_WORD);
	for (size_t i = now.start + written; i < sizeof(to); i++)
		assert_int_equal(to[i], BLANK);
	now.barriers++;
}

static unsigned last_words(size_t start, size_t bytes)
{
	unsigned count = 0;

	for (size_t i = start; i < start + bytes; i++)
		count += i % COPY_LINE_BYTES == COPY_LAST_WORD;
	return count;
}

static void check_copy(size_t start, size_t source, size_t bytes)
{
	memset(to, BLANK, sizeof(to));
	now.start = start;
	now.bytes = bytes;
	now.barriers = 0;
	copy_ascending(to + start, from + source, bytes);
	assert_int_equal(now.barriers, last_words(start, bytes));
	assert_memory_equal(to + start, from + source, bytes);
	for (size_t i = 0; i < sizeof(to); i++)
		if (i < start || i >= start + bytes)
			assert_int_equal(to[i], BLANK);
}

static void test_each_last_word_comes_behind_its_line(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 7 % 200); /* never BLANK */
	for (size_t start = 0; start < STARTS; start++)
		for (size_t source = 0; source < STARTS; source += 3)
			for (size_t bytes = 0; bytes <= BYTES; bytes += bytes < 300 ? 1 : 61)
				check_copy(start, source, bytes);
}

/* Data in several pieces, one of which ends where a line's last word begins. */
static void test_a_piece_may_begin_with_the_last_word(void **state)
{
	(void)state;
	memset(to, BLANK, sizeof(to));
	now.start = 0;
	now.bytes = 2 * COPY_LINE_BYTES;
	now.barriers = 0;
	copy_ascending(to, from, COPY_LAST_WORD);
	assert_int_equal(now.barriers, 0);
	copy_ascending(to + COPY_LAST_WORD, from + COPY_LAST_WORD, 8);
	assert_int_equal(now.barriers, 1);
	assert_memory_equal(to, from, COPY_LINE_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_last_word_comes_behind_its_line),
		cmocka_unit_test(test_a_piece_may_begin_with_the_last_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

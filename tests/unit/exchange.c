/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/capture.h"

#define BYTES_MAX 520
#define LATE_TAG  2

/* Copied messages, empty ones, a large one in one frame; then, with the second tag in use, large ones that need a
 * CTS. */
static const struct {
	size_t bytes;
	int tag;
} messages[EXCHANGE_MESSAGES] = { { 20, 1 },
				  { 0, 1 },
				  { 300, 1 },
				  { 10, LATE_TAG },
				  { 500, LATE_TAG },
				  { 0, 1 },
				  { EXCHANGE_EAGER_BYTES, LATE_TAG },
				  { EXCHANGE_EAGER_BYTES + 1, 1 },
				  { 3, 1 } };

struct exchange exchange;

static uint8_t out[EXCHANGE_MESSAGES][BYTES_MAX], in[EXCHANGE_MESSAGES][BYTES_MAX];

int exchange_setup(void **state)
{
	pair_setup_recovery(state);
	local_cfg.eager_bytes = EXCHANGE_EAGER_BYTES;
	local_cfg.chunk_bytes = EXCHANGE_CHUNK_BYTES;
	for (size_t i = 0; i < EXCHANGE_MESSAGES; i++)
		for (size_t j = 0; j < BYTES_MAX; j++)
			out[i][j] = (uint8_t)(1 + i * 37 + j * 7 + j / 251);
	return 0;
}

int exchange_teardown(void **state)
{
	(void)state;
	exchange_close();
	capture_check();
	return 0;
}

static void post(bool late)
{
	for (size_t i = 0; i < EXCHANGE_MESSAGES; i++)
		if ((messages[i].tag == LATE_TAG) == late)
			exchange.recvs[i] = pair_irecv(&exchange.carrier.pair, in[i],
						       messages[i].bytes, messages[i].tag);
}

void exchange_open(const struct exchange_shape *shape)
{
	local_cfg.checksum = shape->checksum;
	memset(in, 0xee, sizeof(in));
	memset(exchange.recvs, 0, sizeof(exchange.recvs));
	carrier_open(&exchange.carrier, shape->streams);
	post(false);
	exchange.posted = !shape->late;
	if (!shape->late)
		post(true);
}

void exchange_post_late(void)
{
	post(true);
	exchange.posted = true;
}

void exchange_send(void)
{
	send_ready(exchange.carrier.pair.send);
	for (size_t i = 0; i < EXCHANGE_MESSAGES; i++)
		exchange.sends[i] = pair_isend(&exchange.carrier.pair, out[i], messages[i].bytes,
					       messages[i].tag);
}

void exchange_close(void)
{
	carrier_close(&exchange.carrier);
}

static size_t take_done(struct anynet_request **reqs)
{
	size_t count = 0;

	for (size_t i = 0; i < EXCHANGE_MESSAGES; i++) {
		int size = -1;

		if (!reqs[i] || !pair_done(reqs[i], &size))
			continue;
		assert_int_equal(size, messages[i].bytes);
		if (reqs == exchange.recvs)
			assert_memory_equal(in[i], out[i], messages[i].bytes);
		reqs[i] = NULL;
		count++;
	}
	return count;
}

size_t exchange_take_done(void)
{
	return take_done(exchange.recvs) + take_done(exchange.sends);
}

bool exchange_all_done(void)
{
	for (size_t i = 0; i < EXCHANGE_MESSAGES; i++)
		if (exchange.sends[i] || exchange.recvs[i])
			return false;
	return true;
}

void exchange_check(void)
{
	const struct pair *pair = &exchange.carrier.pair;

	assert_int_equal(comm_error(pair->send), 0);
	assert_int_equal(comm_error(pair->recv), 0);
	assert_int_equal(comm_pending(pair->send), 0);
	assert_true(recv_comm_ready(pair->recv));
	for (size_t i = 0; i < EXCHANGE_MESSAGES; i++) {
		assert_memory_equal(in[i], out[i], messages[i].bytes);
		for (size_t j = messages[i].bytes; j < BYTES_MAX; j++)
			assert_int_equal(in[i][j], 0xee);
	}
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 0);
}

void exchange_learn(const struct exchange_shape *shape, struct exchange_record *record)
{
	const struct carrier_stream *cut = &exchange.carrier.streams[shape->streams - 1];

	exchange_open(shape);
	exchange_send();
	for (int turn = 0; !exchange_all_done(); turn++) {
		size_t moved = carrier_carry(&exchange.carrier);

		assert_true(turn < EXCHANGE_TURNS_MAX);
		moved += exchange_take_done();
		if (!moved && !exchange.posted)
			exchange_post_late();
	}
	exchange_check();
	assert_int_equal(cut->passed[TO_RECEIVER], cut->tape_bytes);
	record->bytes = cut->tape_bytes;
	record->bytes_back = cut->passed[TO_SENDER];
	memcpy(record->tape, cut->tape, record->bytes);
	exchange_close();
}

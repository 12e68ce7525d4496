/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/capture.h"

#define BYTES_MAX 520
#define LATE_TAG  2

/* Copied messages, empty ones, one large in one frame; then, with the second tag in use, large ones that
 * ask first. */
static const struct {
	size_t bytes;
	int tag;
} messages[STREAM_MESSAGES] = { { 20, 1 },
				{ 0, 1 },
				{ 300, 1 },
				{ 10, LATE_TAG },
				{ 500, LATE_TAG },
				{ 0, 1 },
				{ STREAM_EAGER_BYTES, LATE_TAG },
				{ STREAM_EAGER_BYTES + 1, 1 },
				{ 3, 1 } };

struct stream stream;

static uint8_t out[STREAM_MESSAGES][BYTES_MAX], in[STREAM_MESSAGES][BYTES_MAX];

int stream_setup(void **state)
{
	pair_setup_recovery(state);
	local_cfg.eager_bytes = STREAM_EAGER_BYTES;
	local_cfg.chunk_bytes = STREAM_CHUNK_BYTES;
	for (size_t i = 0; i < STREAM_MESSAGES; i++)
		for (size_t j = 0; j < BYTES_MAX; j++)
			out[i][j] = (uint8_t)(1 + i * 37 + j * 7 + j / 251);
	return 0;
}

int stream_teardown(void **state)
{
	(void)state;
	stream_close();
	capture_check();
	return 0;
}

static void post(bool late)
{
	for (size_t i = 0; i < STREAM_MESSAGES; i++)
		if ((messages[i].tag == LATE_TAG) == late)
			stream.recvs[i] = pair_irecv(&stream.carrier.pair, in[i], messages[i].bytes,
						     messages[i].tag);
}

void stream_open(const struct stream_shape *shape)
{
	local_cfg.checksum = shape->checksum;
	memset(in, 0xee, sizeof(in));
	memset(stream.recvs, 0, sizeof(stream.recvs));
	carrier_open(&stream.carrier, shape->rails);
	post(false);
	stream.posted = !shape->late;
	if (!shape->late)
		post(true);
}

void stream_post_late(void)
{
	post(true);
	stream.posted = true;
}

void stream_send(void)
{
	send_ready(stream.carrier.pair.send);
	for (size_t i = 0; i < STREAM_MESSAGES; i++)
		stream.sends[i] = pair_isend(&stream.carrier.pair, out[i], messages[i].bytes,
					     messages[i].tag);
}

void stream_close(void)
{
	carrier_close(&stream.carrier);
}

static size_t take_done(struct anynet_request **reqs)
{
	size_t count = 0;

	for (size_t i = 0; i < STREAM_MESSAGES; i++) {
		int size = -1;

		if (!reqs[i] || !pair_done(reqs[i], &size))
			continue;
		assert_int_equal(size, messages[i].bytes);
		if (reqs == stream.recvs)
			assert_memory_equal(in[i], out[i], messages[i].bytes);
		reqs[i] = NULL;
		count++;
	}
	return count;
}

size_t stream_take_done(void)
{
	return take_done(stream.recvs) + take_done(stream.sends);
}

bool stream_all_done(void)
{
	for (size_t i = 0; i < STREAM_MESSAGES; i++)
		if (stream.sends[i] || stream.recvs[i])
			return false;
	return true;
}

void stream_check(void)
{
	const struct pair *pair = &stream.carrier.pair;

	assert_int_equal(comm_error(pair->send), 0);
	assert_int_equal(comm_error(pair->recv), 0);
	assert_int_equal(comm_pending(pair->send), 0);
	assert_true(recv_comm_ready(pair->recv));
	for (size_t i = 0; i < STREAM_MESSAGES; i++) {
		assert_memory_equal(in[i], out[i], messages[i].bytes);
		for (size_t j = messages[i].bytes; j < BYTES_MAX; j++)
			assert_int_equal(in[i][j], 0xee);
	}
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 0);
}

void stream_learn(const struct stream_shape *shape, struct stream_record *record)
{
	const struct carrier_rail *rail = &stream.carrier.rails[shape->rails - 1];

	stream_open(shape);
	stream_send();
	for (int turn = 0; !stream_all_done(); turn++) {
		size_t moved = carrier_carry(&stream.carrier);

		assert_true(turn < STREAM_TURNS_MAX);
		moved += stream_take_done();
		if (!moved && !stream.posted)
			stream_post_late();
	}
	stream_check();
	assert_int_equal(rail->passed[TO_RECEIVER], rail->tape_bytes);
	record->bytes = rail->tape_bytes;
	record->bytes_back = rail->passed[TO_SENDER];
	memcpy(record->tape, rail->tape, record->bytes);
	stream_close();
}

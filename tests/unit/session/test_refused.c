/* SPDX-License-Identifier: Apache-2.0 */
/* What a receiver refuses, and what ends its comm: messages that do not fit, frames that cannot be right. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/wire/checksum.h"
#include "unit/pair.h"

static struct pair pair;
static char data[PAIR_LARGE];

static void test_a_message_larger_than_its_buffer_fails_with_both_sizes(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 9, 0, 500);
	struct anynet_request *reqs[2];

	(void)state;
	memset(data, 0xee, sizeof(data));
	pair_open_recv(&pair, 1);
	reqs[0] = pair_irecv(&pair, data, 499, 9);
	reqs[1] = pair_irecv(&pair, data, 1000, 9);
	frame_put(pair.fds[0], &frame, data);
	pair_fails(reqs[0], -EMSGSIZE);
	pair_fails(reqs[1], -EMSGSIZE);
	warned_once("message of 500 bytes for a posted receive of 499 bytes");
	assert_int_equal(data[0], (char)0xee);
	/* The sender notices the end of the connection. */
	assert_int_equal(send(pair.fds[0], data, 1, MSG_NOSIGNAL), -1);
}

/* Its frame is still at the head of its stream when the last words of a peer that has gone are read. */
static void test_a_message_larger_than_its_buffer_may_be_seen_again(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 9, 0, 500);
	struct anynet_request *req;
	struct recv_msg *msg;
	uint8_t *to;

	(void)state;
	pair_open_recv(&pair, 1);
	req = pair_irecv(&pair, data, 499, 9);
	for (int i = 0; i < 2; i++)
		assert_int_equal(recv_place((struct recv_comm *)pair.recv, &frame, &msg, &to), -EMSGSIZE);
	pair_fails(req, -EMSGSIZE);
	warned_once("message of 500 bytes for a posted receive of 499 bytes");
}

static void test_an_unexpected_message_that_is_too_large_fails_its_receive(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 1, ANYNET_FLAG_MULTI, 500);
	struct anynet_request *req, *refused;
	void *buffer = data;
	size_t bytes = 100;
	int tag = 1;

	(void)state;
	pair_open_recv(&pair, 1);
	req = pair_irecv(&pair, data, 8, 2);
	frame_put(pair.fds[0], &frame, data);
	pair_idle(req);
	assert_int_equal(anynet_irecv(pair.recv, &(struct anynet_recv){ .n = 1, .data = &buffer, .bytes = &bytes, .tags = &tag }, &refused),
			 -EMSGSIZE);
	assert_null(refused);
	warned_once("message of 500 bytes for a posted receive of 100 bytes");
	pair_fails(req, -EMSGSIZE);
}

static void bad_frame(const struct anynet_wire_frame *frame, unsigned stream, const char *text)
{
	static char payload[65536];
	struct anynet_request *req = pair_irecv(&pair, data, 100, 0);

	frame_put(pair.fds[stream], frame, payload);
	pair_fails(req, -EPROTO);
	warned_once(text);
}

static void test_frames_that_cannot_be_right_are_refused(void **state)
{
	struct anynet_wire_frame frames[] = {
		frame_data((uint32_t)-2, 0, 0, 10),
		frame_data((uint32_t)-1, 0, 0, 10),
		frame_data(0, 0, 0, 10),
		frame_data(0, 0, 0, 10),
		frame_data(0, 0, 0, 10),
		frame_data(0, 0, 0, 10),
		frame_data(0, 0, 0, 10),
		frame_data(0, 0, 0, 0),
		frame_data(0, 0, ANYNET_FLAG_CRC, 10), /* checksums were not requested */
	};

	(void)state;
	frames[2].offset = 1;
	frames[3].length = 11;
	frames[4].size = (uint64_t)ANYNET_MESSAGE_MAX + 1;
	frames[5].slot = ANYNET_WIRE_SLOTS;
	frames[6].offset = 11;
	frames[7].size = 10;
	for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
		pair_open_recv(&pair, 1);
		bad_frame(&frames[i], 0, "bad frame");
		capture_forget();
		pair_close(&pair);
	}
	pair_open_recv(&pair, 1);
	bad_frame(&(struct anynet_wire_frame){ .type = 77 }, 0, "frame of unknown type 77");
}

/* Its second half has another message, tag or size, or so many bytes that they end behind the buffer. */
static void test_frames_of_one_message_say_the_same_of_it(void **state)
{
	static char half[128];
	struct anynet_wire_frame first = frame_data(0, 0, 0, 256), frames[4];
	struct anynet_request *req;

	(void)state;
	first.length = sizeof(half);
	for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
		frames[i] = first;
		frames[i].offset = sizeof(half);
	}
	frames[0].seq = ANYNET_WIRE_SLOTS;
	frames[1].tag = 1;
	frames[2].size = 4096;
	frames[2].offset = 4096 - sizeof(half);
	frames[3].size = 192;
	frames[3].length = 64;
	for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
		pair_open_recv(&pair, 1);
		memset(data, 0, sizeof(data));
		req = pair_irecv(&pair, data, 256, 0);
		frame_put(pair.fds[0], &first, half);
		pair_idle(req);
		memset(half, 1, sizeof(half));
		frame_put(pair.fds[0], &frames[i], half);
		pair_fails(req, -EPROTO);
		warned_once("bad frame");
		for (size_t k = 0; k < sizeof(data); k++)
			assert_int_equal(data[k], 0);
		memset(half, 0, sizeof(half));
		capture_forget();
		pair_close(&pair);
	}
}

static void test_a_notice_with_payload_is_refused(void **state)
{
	struct anynet_wire_frame ready = { .type = ANYNET_FRAME_READY, .length = 3 };

	(void)state;
	pair_open_recv(&pair, 1);
	bad_frame(&ready, 0, "frame of type 3 with a payload of 3 bytes");
}

/* Two streams deliver the same bytes: the buffer must not be returned while one still writes to it. */
static void test_bytes_that_come_twice_are_refused(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 0, 0, 100);
	struct anynet_request *req;

	(void)state;
	pair_open_recv(&pair, 2);
	req = pair_irecv(&pair, data, 100, 0);
	frame_put(pair.fds[0], &frame, NULL);
	assert_int_equal(send(pair.fds[0], data, 50, 0), 50);
	pair_idle(req);
	frame_put(pair.fds[1], &frame, data);
	pair_fails(req, -EPROTO);
	warned_once("bad frame");
}

/* The same for an empty message, of which only the checksum on the first stream is still to come. */
static void test_an_empty_message_that_comes_twice_is_refused(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 0, 0, 0);
	struct anynet_request *req;
	uint32_t crc = 0;

	(void)state;
	local_cfg.checksum = true;
	checksum_header(&frame, NULL);
	pair_open_recv(&pair, 2);
	req = pair_irecv(&pair, data, 100, 0);
	frame_put(pair.fds[0], &frame, NULL);
	pair_idle(req);
	frame_put(pair.fds[1], &frame, NULL);
	assert_int_equal(send(pair.fds[1], &crc, sizeof(crc), 0), sizeof(crc));
	pair_fails(req, -EPROTO);
	warned_once("bad frame");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_prestate_setup_teardown(name, pair_setup, pair_teardown, &pair)
		TEST(test_a_message_larger_than_its_buffer_fails_with_both_sizes),
		TEST(test_a_message_larger_than_its_buffer_may_be_seen_again),
		TEST(test_an_unexpected_message_that_is_too_large_fails_its_receive),
		TEST(test_frames_that_cannot_be_right_are_refused),
		TEST(test_frames_of_one_message_say_the_same_of_it),
		TEST(test_a_notice_with_payload_is_refused),
		TEST(test_bytes_that_come_twice_are_refused),
		TEST(test_an_empty_message_that_comes_twice_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The socket takes a small frame without its tail byte, which the receiver does not need. */
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "unit/carrier.h"
#include "unit/narrow.h"

#define BYTES 10

static struct pair pair;

static int teardown(void **state)
{
	narrow_socket(-1, 0);
	return pair_teardown(state);
}

/* A send whose tail byte is left. */
static void send_without_tail(bool checksum)
{
	struct anynet_request *req;

	local_cfg.checksum = checksum;
	pair_open_send(&pair, 1);
	narrow_socket(pair.send->streams[0]->path.fd,
		      sizeof(struct anynet_wire_frame) + BYTES + (checksum ? ANYNET_CRC_BYTES : 0));
	req = pair_isend(&pair, pair_out, BYTES, 0);
	pair_finish(&req, 1, NULL);
	assert_int_equal(narrow_room(), 0);
	narrow_socket(-1, 0);
}

static void test_a_send_is_done_without_its_tail(void **state)
{
	(void)state;
	send_without_tail(false);
	assert_int_equal(pair.send->streams[0]->log.next, 1);
	pair_send(&pair, pair_out, BYTES);
	pair_expect(&pair, 0, ANYNET_FRAME_DATA, 0);
	pair_expect(&pair, 0, ANYNET_FRAME_DATA, 1);
}

/* The checksum is a part of the frame. */
static void test_the_tail_follows_the_checksum(void **state)
{
	struct anynet_wire_frame frame;
	uint8_t all[sizeof(frame) + BYTES + ANYNET_CRC_BYTES + ANYNET_TAIL_BYTES + 1];

	(void)state;
	send_without_tail(true);
	assert_int_equal(pair.send->streams[0]->log.next, 1);
	assert_int_equal(comm_turn(pair.send), 0);
	assert_int_equal(recv(pair.fds[0], all, sizeof(all), MSG_DONTWAIT), sizeof(all) - 1);
	assert_int_equal(all[sizeof(all) - 2], 0);
}

/* Nothing follows it, and a heartbeat does not go before it. */
static void test_the_tail_goes_by_itself(void **state)
{
	uint8_t frame[sizeof(struct anynet_wire_frame) + BYTES + ANYNET_TAIL_BYTES];
	struct anynet_stream *stream;

	(void)state;
	send_without_tail(false);
	stream = pair.send->streams[0];
	assert_int_equal(recv(pair.fds[0], frame, sizeof(frame), MSG_DONTWAIT), sizeof(frame) - 1);
	stream->ops->ping(stream);
	assert_int_equal(comm_turn(pair.send), 0);
	assert_int_equal(recv(pair.fds[0], frame, sizeof(frame), MSG_DONTWAIT), 1);
	assert_int_equal(frame[0], 0);
	stream->ops->ping(stream);
	pair_expect(&pair, 0, ANYNET_FRAME_PING, 0);
}

static void test_the_tail_ends_with_its_connection(void **state)
{
	(void)state;
	send_without_tail(false);
	resume_send(&pair, 0, 1, 0);
	pair_send(&pair, pair_out, BYTES);
	pair_expect(&pair, 0, ANYNET_FRAME_DATA, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) \
	cmocka_unit_test_prestate_setup_teardown(name, pair_setup_recovery, teardown, &pair)
		TEST(test_a_send_is_done_without_its_tail),
		TEST(test_the_tail_follows_the_checksum),
		TEST(test_the_tail_goes_by_itself),
		TEST(test_the_tail_ends_with_its_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait: heartbeats meanwhile, and a warning when it takes long. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "support/capture.h"
#include "unit/signs.h"

#define HEARTBEAT_MS (SIGNS_PEER_TIMEOUT_MS / 6)

/* --- heartbeats --- */

static void test_heartbeats_go_out_only_while_requests_wait(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 7, 0, 5);
	struct anynet_request *req;

	(void)state;
	req = signs_open_recv(2);
	signs_look_after(0);
	signs_look_after(HEARTBEAT_MS - 1);
	assert_int_equal(signs.pings[0] + signs.pings[1], 0);
	for (unsigned i = 1; i < 4; i++) {
		signs_look_after(1);
		assert_int_equal(signs.pings[0], i);
		assert_int_equal(signs.pings[1], i);
		signs_look_after(HEARTBEAT_MS - 1);
		assert_int_equal(signs.pings[0], i);
	}
	frame_put(signs.pair.fds[0], &frame, "first");
	pair_finish(&req, 1, NULL);
	for (int i = 0; i < 10; i++)
		signs_look_after(HEARTBEAT_MS);
	assert_int_equal(signs.pings[0] + signs.pings[1], 6);
}

/* A sender that is stopped for hours does not read them: its window must not close. */
static void test_a_receiver_stops_its_heartbeats(void **state)
{
	unsigned pings;

	(void)state;
	signs_open_recv(1);
	signs_look_after(0);
	for (int i = 0; i < 100; i++)
		signs_look_after(HEARTBEAT_MS);
	pings = signs.pings[0];
	assert_in_range(pings, 10, 50);
	signs_look_after(HEARTBEAT_MS);
	assert_int_equal(signs.pings[0], pings);
}

static void test_no_heartbeat_while_there_is_progress(void **state)
{
	struct anynet_request *reqs[10];

	(void)state;
	reqs[0] = signs_open_recv(1);
	for (int i = 1; i < 10; i++)
		reqs[i] = pair_irecv(&signs.pair, signs.in, 64, 7);
	signs_look_after(0);
	for (uint32_t i = 0; i < 9; i++) {
		struct anynet_wire_frame frame = frame_data(i, 7, 0, 5);

		frame_put(signs.pair.fds[0], &frame, "first");
		pair_finish(&reqs[i], 1, NULL);
		signs_look_after(HEARTBEAT_MS - 1);
	}
	assert_int_equal(signs.pings[0], 0);
}

static void test_a_sender_that_waits_sends_heartbeats_on_what_stands(void **state)
{
	(void)state;
	signs_open_send(2);
	pair_hang_up(&signs.pair, 0);
	for (int i = 0; i < 5; i++)
		comm_turn(signs.pair.send);
	assert_int_equal(signs.pair.send->streams[0]->path.fd, -1);
	signs.now = os_now_ms();
	signs_look_after(1);
	signs_look_after(HEARTBEAT_MS);
	assert_int_equal(signs.pings[0], 0);
	assert_int_equal(signs.pings[1], 1);
}

/* --- stalls --- */

static void warned(unsigned count, const char *text)
{
	char line[CAPTURE_LINE_BYTES];

	assert_int_equal(capture_count(CAPTURE_WARN, NULL), count);
	if (!count || capture_find(CAPTURE_WARN, text, line))
		return;
	assert_true(capture_find(CAPTURE_WARN, NULL, line));
	fail_msg("'%s' does not say '%s'", line, text);
}

/* Data that the kernel of a slow peer accepts is progress; heartbeats, which a stopped peer's kernel accepts as well,
 * are not. */
static void test_acknowledged_heartbeats_are_no_progress(void **state)
{
	(void)state;
	capture_allow_warn();
	signs_open_send(1);
	signs_look_after(0);
	for (int i = 0; i < 8; i++) {
		signs.streams[0].acked += 4096;
		signs_look_after(SIGNS_STALL_MS / 2);
	}
	warned(0, NULL);
	for (int i = 0; i < 8; i++) {
		signs.streams[0].acked += sizeof(struct anynet_wire_frame);
		signs_look_after(SIGNS_STALL_MS / 4);
	}
	warned(1, "may be stopped");
}

static void test_what_is_acknowledged_little_by_little_is_progress(void **state)
{
	(void)state;
	signs_open_send(1);
	signs_look_after(0);
	for (int i = 0; i < 100; i++) {
		signs.streams[0].acked += 1000;
		signs_look_after(SIGNS_STALL_MS / 8);
	}
	warned(0, NULL);
}

/* A copy is sent again from its beginning after a break, so half of it is none. */
static void test_half_of_a_copy_is_no_progress(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 7, ANYNET_FLAG_TAIL, 40);
	struct anynet_request *req;
	char half[20] = { 0 };

	(void)state;
	req = signs_open_recv(1);
	signs_look_after(0);
	signs_look_after(SIGNS_STALL_MS - 1);
	warned(0, NULL);
	assert_int_equal(send(signs.pair.fds[0], &frame, sizeof(frame), 0), sizeof(frame));
	assert_int_equal(send(signs.pair.fds[0], half, sizeof(half), 0), sizeof(half));
	pair_idle(req);
	signs_look_after(1);
	warned(1, "no progress for 4 s");
}

static void test_a_stall_is_told_once_with_who_and_what_and_how_long(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 7, 0, 5);
	struct anynet_request *req;

	(void)state;
	req = signs_open_recv(1);
	pair_irecv(&signs.pair, signs.in, 32, 8);
	signs_look_after(0);
	signs_look_after(SIGNS_STALL_MS - 1);
	warned(0, NULL);
	signs_look_after(1);
	warned(1, "receive from peer host-b pid 4242 addr 10.0.0.2:4711 dev lo");
	warned(1, "no progress for 4 s");
	warned(1, "2 receives, the oldest of 64 bytes, tag 7");
	warned(1, "may be stopped");
	for (int i = 0; i < 20; i++)
		signs_look_after(SIGNS_STALL_MS);
	warned(1, "");
	/* The next one is a new stall. */
	frame_put(signs.pair.fds[0], &frame, "first");
	pair_finish(&req, 1, NULL);
	signs_look_after(10);
	signs_look_after(SIGNS_STALL_MS - 1);
	warned(1, "");
	signs_look_after(2000);
	warned(2, "no progress for 6 s: 1 receives, the oldest of 32 bytes, tag 8");
}

/* A message of 1 GiB may be one frame. */
static void test_a_frame_that_comes_slowly_is_progress(void **state)
{
	struct anynet_wire_frame first = frame_data(0, 7, 0, 64),
				 frame = frame_data(1, 7, 0, SIGNS_LARGE);
	struct anynet_request *req;
	char part[ANYNET_PART_ALIGN] = { 0 };

	(void)state;
	capture_allow_warn();
	req = signs_open_recv(1);
	pair_irecv(&signs.pair, signs.in, SIGNS_LARGE, 7);
	frame_put(signs.pair.fds[0], &first, signs.out);
	pair_finish(&req, 1, NULL);
	signs_look_after(0);
	frame_put(signs.pair.fds[0], &frame, NULL);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(send(signs.pair.fds[0], part, sizeof(part), 0), sizeof(part));
		assert_int_equal(comm_turn(signs.pair.recv), 0);
		signs_look_after(SIGNS_STALL_MS / 2);
	}
	warned(0, NULL);
	signs_look_after(SIGNS_STALL_MS);
	warned(1, "the peer has sent nothing");
}

static void stall(void)
{
	signs_look_after(0);
	signs_look_after(SIGNS_STALL_MS);
}

static void test_a_sender_says_what_its_sends_wait_for(void **state)
{
	(void)state;
	signs_open_send(1);
	stall();
	warned(1, "send to peer host-b pid 4242");
	warned(1, "1 sends, the oldest of 24576 bytes, tag 7 (sent, not acknowledged)");
	warned(1, "may be stopped or busy");
	capture_forget();
	pair_close(&signs.pair);

	signs_open_idle_send(1);
	pair_isend(&signs.pair, signs.out, 1, 1);
	pair_isend(&signs.pair, signs.out, SIGNS_LARGE, 2);
	assert_int_equal(comm_transmit(signs.pair.send), 0);
	stall();
	warned(1, "1 sends, the oldest of 24576 bytes, tag 2 (no receive posted for it yet)");
}

static void test_a_stall_of_broken_connections_says_so(void **state)
{
	(void)state;
	signs_open_recv(1);
	pair_hang_up(&signs.pair, 0);
	for (int i = 0; i < 5; i++)
		comm_turn(signs.pair.recv);
	signs.now = os_now_ms();
	stall();
	warned(1, "is broken or silent and is being replaced");
}

static void test_a_stall_of_silent_paths_says_so(void **state)
{
	(void)state;
	signs_open_recv(2);
	signs.streams[1] = signs_dead;
	signs_look_after(0);
	for (int i = 0; i < 4; i++)
		signs_look_after(SIGNS_STALL_MS / 4);
	warned(1, "is broken or silent and is being replaced");
}

/* The comm was not checked meanwhile. */
static void test_a_stall_begins_with_the_request(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 7, 0, 5);
	struct anynet_request *req;

	(void)state;
	req = signs_open_recv(1);
	frame_put(signs.pair.fds[0], &frame, "first");
	pair_finish(&req, 1, NULL);
	signs_look_after(0);
	signs.now += SIGNS_PEER_TIMEOUT_MS;
	pair_irecv(&signs.pair, signs.in, 64, 7);
	signs_look_after(0);
	warned(0, NULL);
	assert_int_equal(signs.pings[0], 0);
	signs_look_after(SIGNS_STALL_MS);
	warned(1, "no progress for 4 s");
}

static void test_an_idle_comm_has_no_stall(void **state)
{
	struct anynet_request *req;

	(void)state;
	signs_open_idle_send(1);
	req = pair_isend(&signs.pair, signs.out, 1, 1);
	pair_finish(&req, 1, NULL);
	for (int i = 0; i < 10; i++)
		signs_look_after(SIGNS_STALL_MS);
	warned(0, NULL);
}

static void test_stall_warn_0_disables_the_warning(void **state)
{
	(void)state;
	local_cfg.stall_warn_ms = 0;
	signs_open_recv(1);
	for (int i = 0; i < 10; i++)
		signs_look_after(100000);
	warned(0, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, signs_setup, signs_teardown)
		TEST(test_heartbeats_go_out_only_while_requests_wait),
		TEST(test_a_receiver_stops_its_heartbeats),
		TEST(test_no_heartbeat_while_there_is_progress),
		TEST(test_a_sender_that_waits_sends_heartbeats_on_what_stands),
		TEST(test_acknowledged_heartbeats_are_no_progress),
		TEST(test_what_is_acknowledged_little_by_little_is_progress),
		TEST(test_a_frame_that_comes_slowly_is_progress),
		TEST(test_half_of_a_copy_is_no_progress),
		TEST(test_a_stall_is_told_once_with_who_and_what_and_how_long),
		TEST(test_a_sender_says_what_its_sends_wait_for),
		TEST(test_a_stall_of_broken_connections_says_so),
		TEST(test_a_stall_of_silent_paths_says_so),
		TEST(test_a_stall_begins_with_the_request),
		TEST(test_an_idle_comm_has_no_stall),
		TEST(test_stall_warn_0_disables_the_warning),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

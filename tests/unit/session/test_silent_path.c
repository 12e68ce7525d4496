/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to a path without a sign of life, and to its stream; test_watch.c: when it is suspect. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/session/recovery.h"
#include "transports/session/redial.h"
#include "unit/environment.h"
#include "unit/signs.h"

static void test_each_silence_is_one_line_for_who_wants_to_know(void **state)
{
	(void)state;
	setenv("NCCL_DEBUG", "INFO", 1);
	setenv("NCCL_DEBUG_SUBSYS", "NET", 1);
	log_to_capture();
	unsetenv("NCCL_DEBUG");
	unsetenv("NCCL_DEBUG_SUBSYS");
	signs_open_send(1);
	for (size_t i = 1; i < 3; i++) {
		signs_lose(0);
		for (int look = 0; look < 5; look++)
			signs_look_after(1000);
		assert_int_equal(capture_count(0, "no answer from the peer"), i);
		signs.streams[0] = signs_healthy;
		signs_look_after(100);
	}
}

static void test_a_path_that_answers_again_is_trusted_again(void **state)
{
	(void)state;
	signs_open_send(2);
	signs_lose(0);
	signs_look_after(1100);
	assert_true(signs_suspect(0));
	signs.streams[0] = signs_tried_once; /* not yet */
	signs_look_after(100);
	assert_true(signs_suspect(0));
	signs.streams[0] = signs_waits;
	signs_look_after(100);
	assert_false(signs_suspect(0));
	comm_attend(signs.pair.send);
	assert_null(signs.pair.send->session->recovery); /* no new connection is needed any more */
	signs.now = os_now_ms();
	/* The next silence is counted from its own start. */
	signs_lose(0);
	signs_look_after(20);
	assert_false(signs_suspect(0));
	signs_look_after(1100);
	assert_true(signs_suspect(0));
	assert_false(signs_suspect(1));
}

static void test_a_path_is_trusted_again_also_when_nothing_waits(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 7, 0, 5);
	struct anynet_request *req;

	(void)state;
	req = signs_open_recv(1);
	signs_lose(0);
	signs_look_after(1100);
	assert_true(signs_suspect(0));
	frame_put(signs.pair.fds[0], &frame, "first");
	pair_finish(&req, 1, NULL);
	signs_look_after(100);
	assert_true(signs_suspect(0));
	signs.streams[0] = signs_healthy;
	signs_look_after(100);
	assert_false(signs_suspect(0));
}

static void test_nobody_looks_at_an_idle_path(void **state)
{
	struct anynet_request *req;
	struct anynet_wire_frame frame = frame_data(0, 7, 0, 5);

	(void)state;
	req = signs_open_recv(1);
	frame_put(signs.pair.fds[0], &frame, "first");
	pair_finish(&req, 1, NULL);
	signs.streams[0] = signs_dead;
	for (int i = 0; i < 50; i++)
		signs_look_after(1000);
	assert_false(signs_suspect(0));
	assert_true(signs.pair.recv->streams[0]->path.fd >= 0);
}

static void test_a_suspect_stream_gets_nothing_new(void **state)
{
	struct anynet_wire_frame frame;
	struct anynet_request *req;

	(void)state;
	signs_open_send(2);
	while (frame_get(signs.pair.fds[0], &frame, signs.in, SIGNS_LARGE) ||
	       frame_get(signs.pair.fds[1], &frame, signs.in, SIGNS_LARGE))
		assert_int_equal(comm_transmit(signs.pair.send), 0);
	signs_lose(0);
	signs_look_after(1100);
	for (int i = 0; i < 10; i++) {
		req = pair_isend(&signs.pair, signs.out, 100, 7);
		assert_int_equal(comm_transmit(signs.pair.send), 0);
		assert_false(frame_get(signs.pair.fds[0], &frame, signs.in, SIGNS_LARGE));
		assert_true(frame_get(signs.pair.fds[1], &frame, signs.in, SIGNS_LARGE));
		assert_true(pair_done(req, NULL));
	}
}

static void test_after_the_peer_timeout_a_sender_gives_a_silent_stream_up(void **state)
{
	(void)state;
	signs_open_send(2);
	signs_lose(1);
	signs_look_after(SIGNS_PEER_TIMEOUT_MS - 1);
	assert_true(signs.pair.send->streams[1]->path.fd >= 0);
	signs_look_after(1);
	assert_int_equal(signs.pair.send->streams[1]->path.fd, -1);
	assert_int_equal(signs.pair.send->streams[1]->breaks.err, -ETIMEDOUT);
	assert_true(signs.pair.send->streams[0]->path.fd >= 0);
	assert_int_equal(comm_error(signs.pair.send), 0);
	/* A suspect path has to answer: a restart of the same retransmissions is no answer. */
	signs_lose(0);
	signs_look_after(SIGNS_PEER_TIMEOUT_MS / 2);
	signs.streams[0] = signs_tried_once;
	signs_look_after(SIGNS_PEER_TIMEOUT_MS / 2);
	assert_int_equal(signs.pair.send->streams[0]->path.fd, -1);
}

static void test_a_stream_that_broke_or_ended_is_not_looked_at(void **state)
{
	struct anynet_wire_frame bye = { .type = ANYNET_FRAME_BYE };

	(void)state;
	signs_open_send(3);
	frame_put(signs.pair.fds[0], &bye, NULL);
	pair_hang_up(&signs.pair, 0);
	pair_hang_up(&signs.pair, 1);
	for (int i = 0; i < 5; i++)
		assert_int_equal(comm_turn(signs.pair.send), 0);
	assert_null(signs.pair.send->streams[0]);
	assert_int_equal(signs.pair.send->streams[1]->path.fd, -1);
	signs.streams[1] = signs_dead;
	recovery_free(signs.pair.send); /* as if there had been no memory */
	signs.now = os_now_ms();
	signs_look_after(0);
	assert_non_null(signs.pair.send->session->recovery);
	signs_look_after(1100);
	assert_false(signs_suspect(1));
	signs_look_after(SIGNS_PEER_TIMEOUT_MS);
	assert_int_equal(signs.pings[0] + signs.pings[1], 0);
	assert_int_equal(signs.pings[2], 1);
	assert_int_equal(comm_error(signs.pair.send), 0);
}

/* Unread received data may be the only copy. */
static void test_a_receiver_never_gives_a_stream_up_for_silence(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 7, 0, 5);
	struct anynet_request *req;

	(void)state;
	req = signs_open_recv(1);
	signs_lose(0);
	frame_put(signs.pair.fds[0], &frame, "first");
	for (int i = 0; i < 5; i++)
		signs_look_after(SIGNS_PEER_TIMEOUT_MS);
	assert_true(signs_suspect(0));
	assert_true(signs.pair.recv->streams[0]->path.fd >= 0);
	signs.streams[0] = signs_healthy;
	pair_finish(&req, 1, NULL);
	assert_string_equal((char *)signs.in, "first");
}

/* Earlier connections moved nothing; this one may stand for days. */
static void test_a_stream_that_moves_is_not_stuck_any_more(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 7, 0, 6);
	struct anynet_request *req = signs_open_recv(1);
	struct anynet_stream *stream = signs.pair.recv->streams[0];

	(void)state;
	stream->progress.vain = 3;
	signs_look_after(0);
	assert_int_equal(stream->progress.vain, 3);
	frame_put(signs.pair.fds[0], &frame, "first");
	pair_finish(&req, 1, NULL);
	signs_look_after(0);
	assert_int_equal(stream->progress.vain, 0);
}

static void fails_without_recovery(struct anynet_request *req)
{
	signs_lose(0);
	signs_look_after(SIGNS_PEER_TIMEOUT_MS - 1);
	assert_false(signs_suspect(0));
	assert_int_equal(comm_error(signs_comm()), 0);
	signs_look_after(1);
	pair_fails(req, -ETIMEDOUT);
	assert_int_equal(capture_count(CAPTURE_WARN, "the connection broke"), 1);
	capture_forget();
	pair_close(&signs.pair);
}

static void test_without_recovery_silence_is_an_error_for_both(void **state)
{
	(void)state;
	local_cfg.recovery_timeout_ms = 0;
	local_cfg.stall_warn_ms = 0;
	fails_without_recovery(signs_open_send(1));
	fails_without_recovery(signs_open_recv(1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, signs_setup, signs_teardown)
		TEST(test_each_silence_is_one_line_for_who_wants_to_know),
		TEST(test_a_path_that_answers_again_is_trusted_again),
		TEST(test_a_path_is_trusted_again_also_when_nothing_waits),
		TEST(test_nobody_looks_at_an_idle_path),
		TEST(test_a_suspect_stream_gets_nothing_new),
		TEST(test_after_the_peer_timeout_a_sender_gives_a_silent_stream_up),
		TEST(test_a_stream_that_broke_or_ended_is_not_looked_at),
		TEST(test_a_receiver_never_gives_a_stream_up_for_silence),
		TEST(test_a_stream_that_moves_is_not_stuck_any_more),
		TEST(test_without_recovery_silence_is_an_error_for_both),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

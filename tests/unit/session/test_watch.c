/* SPDX-License-Identifier: Apache-2.0 */
/* Paths without a sign of life: when they are suspect, and what happens to them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/session/recovery.h"
#include "transports/session/watch.h"
#include "unit/carrier.h"
#include "unit/environment.h"
#include "unit/signs.h"

#define PATIENCE_MS 61 /* with a path whose round trips take no time */

static const struct stream_signs tried_once = { .waiting = true, .tries = 1, .quiet_ms = UINT_MAX };
static const struct stream_signs answered = { .tries = 2, .rtt_us = 100 };

static void test_a_path_that_answers_is_not_suspect(void **state)
{
	(void)state;
	signs_open_send(1);
	for (int i = 0; i < 100; i++) {
		signs.streams[0] = i % 2 ? signs_waits : signs_healthy;
		signs_look_after(1000);
		assert_false(signs_suspect(0));
	}
	/* A single lost packet means nothing. */
	signs.streams[0] = tried_once;
	signs_look_after(0);
	signs_look_after(5000);
	assert_false(signs_suspect(0));
	signs.streams[0] = answered;
	signs_look_after(0);
	signs_look_after(5000);
	assert_false(signs_suspect(0));
	assert_true(signs.pair.send->streams[0]->path.fd >= 0);
	assert_int_equal(signs.pair.send->session->watch.looked_ms, signs.now);
}

static void test_a_path_that_tells_nothing_is_not_suspect(void **state)
{
	(void)state;
	signs_open_send(1);
	signs.streams[0] = signs_dead;
	signs.mute = true;
	signs_look_after(0);
	signs_look_after(2 * SIGNS_PEER_TIMEOUT_MS);
	assert_false(signs_suspect(0));
	assert_true(signs.pair.send->streams[0]->path.fd >= 0);
}

/* It has been reported done, and may have to be retransmitted. */
static void test_what_was_copied_is_watched_until_it_is_acknowledged(void **state)
{
	const uint16_t slot = 0;

	(void)state;
	signs_open_idle_send(1);
	pair_send(&signs.pair, signs.out, 8);
	signs_lose(0);
	signs_look_after(SIGNS_PEER_TIMEOUT_MS - 1);
	assert_true(signs_suspect(0));
	signs.streams[0] = signs_healthy;
	signs_look_after(0);
	assert_false(signs_suspect(0));
	frame_put_ack(signs.pair.fds[0], &slot, 1);
	comm_turn(signs.pair.send);
	signs.streams[0] = signs_dead;
	signs_look_after(0);
	signs_look_after(SIGNS_PEER_TIMEOUT_MS - 1);
	assert_false(signs_suspect(0));
}

static void suspect_after(struct stream_signs silent, uint64_t ms)
{
	struct anynet_comm *comm = signs_comm();

	signs.streams[0] = silent;
	signs_look_after(0);
	signs_look_after(ms - 1);
	assert_false(signs_suspect(0));
	assert_null(comm->session->recovery);
	signs_look_after(1);
	assert_true(signs_suspect(0));
	assert_non_null(comm->session->recovery);
	assert_true(atomic_load(&comm->attention));
	assert_true(comm->streams[0]->path.fd >= 0);
	assert_int_equal(comm_error(comm), 0);
	pair_close(&signs.pair);
}

static struct anynet_request *open_with_alternative(bool is_send)
{
	struct anynet_request *req = is_send ? signs_open_send(1) : signs_open_recv(1);

	signs_comm()->session->paths.own_count = is_send ? 2 : 1;
	signs_comm()->session->paths.peer_count = is_send ? 1 : 2;
	return req;
}

static void test_a_path_is_suspect_after_what_its_round_trips_have_shown(void **state)
{
	static const struct {
		unsigned rtt_us, var_us, ms;
	} paths[] = {
		{ 30, 10, PATIENCE_MS },
		{ 50000, 2000, 119 },
		{ 200000, 100000, 661 },
	};

	(void)state;
	for (size_t i = 0; i < 2 * sizeof(paths) / sizeof(paths[0]); i++) {
		struct stream_signs silent = signs_dead;

		silent.rtt_us = paths[i / 2].rtt_us;
		silent.rtt_var_us = paths[i / 2].var_us;
		silent.tries = 0;
		open_with_alternative(i % 2);
		suspect_after(silent, paths[i / 2].ms);
	}
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 0);
}

/* Small packets pass, such as the peer's heartbeats, and larger ones do not. */
static void test_heartbeats_do_not_hide_that_the_kernel_retransmits_in_vain(void **state)
{
	struct stream_signs lossy = { .waiting = true, .tries = 2, .rtt_us = 2000000, .rtt_var_us = 2000000 };
	const unsigned heartbeat_ms = SIGNS_PEER_TIMEOUT_MS / 6;

	(void)state;
	signs_open_send(1);
	lossy.quiet_ms = heartbeat_ms / 2 - 1;
	signs.streams[0] = lossy;
	signs_look_after(0);
	signs_look_after(heartbeat_ms);
	assert_false(signs_suspect(0));
	signs.streams[0].quiet_ms = heartbeat_ms / 2;
	signs_look_after(1);
	assert_true(signs_suspect(0));
}

static void test_the_only_path_is_suspect_once_the_kernel_has_tried_twice(void **state)
{
	(void)state;
	signs_open_send(1);
	signs.streams[0] = tried_once;
	signs_look_after(0);
	signs_look_after(5000);
	assert_false(signs_suspect(0));
	signs.streams[0] = signs_dead;
	signs_look_after(0);
	assert_true(signs_suspect(0));
}

/* The peer has closed it, and the stream is freed. */
static void test_a_check_of_a_path_may_end_a_stream(void **state)
{
	struct anynet_comm *comm;

	(void)state;
	capture_allow_warn();
	open_with_alternative(true);
	comm = signs_comm();
	signs.streams[0] = signs_dead;
	signs_look_after(0);
	watch_glance(comm, signs.now);
	comm->streams[0]->bye.came = true;
	watch_glance(comm, signs.now + SIGNS_PEER_TIMEOUT_MS);
	assert_null(comm->streams[0]);
	assert_int_equal(comm_error(comm), -ECONNRESET); /* before it had everything */
}

/* Of many packets the peer's host has received some, or reports that it waits for one. */
static void test_a_path_with_losses_is_not_suspect(void **state)
{
	(void)state;
	open_with_alternative(true);
	signs.streams[0] = signs_dead;
	for (int i = 0; i < 100; i++) {
		signs.streams[0].acked++;
		signs_look_after(1000);
		assert_false(signs_suspect(0));
	}
	for (int i = 0; i < 100; i++) {
		signs.streams[0].quiet_ms = 20;
		signs_look_after(1000);
		assert_false(signs_suspect(0));
	}
	/* Data sent after that is counted from its own start. */
	signs.streams[0] = signs_healthy;
	signs_look_after(0);
	signs.streams[0] = signs_dead;
	signs_look_after(1000);
	assert_false(signs_suspect(0));
	signs_look_after(PATIENCE_MS);
	assert_true(signs_suspect(0));
}

static void test_alarms_in_a_row_come_ever_later(void **state)
{
	(void)state;
	open_with_alternative(true);
	for (uint64_t i = 0, ms = PATIENCE_MS; i < 6; i++, ms = anynet_min(ms * 2, 16 * PATIENCE_MS)) {
		signs.streams[0] = signs_dead;
		signs_look_after(0);
		signs_look_after(ms - 1);
		assert_false(signs_suspect(0));
		signs_look_after(1);
		assert_true(signs_suspect(0));
		signs.streams[0] = signs_healthy;
		signs_look_after(0);
		assert_false(signs_suspect(0));
	}
	signs_look_after(4000);
	signs.streams[0] = signs_dead;
	signs_look_after(0);
	signs_look_after(PATIENCE_MS);
	assert_true(signs_suspect(0));
}

/* The stream goes on over another connection: a true alarm, or one of which nothing is known. */
static void replace(bool lost)
{
	struct anynet_stream *stream = signs_comm()->streams[0];

	signs.streams[0] = signs_healthy;
	comm_stream_change(signs_comm(), stream, STREAM_UP, NULL);
	stream->path.health.lost = lost;
	stream->path.health.silent_ms = 0;
	signs_look_after(0);
}

static void test_an_alarm_counts_as_false_unless_something_was_lost(void **state)
{
	(void)state;
	for (int lost = 0; lost < 2; lost++) {
		open_with_alternative(true);
		for (uint64_t i = 0; i < 4; i++) {
			uint64_t ms = i && !lost ? 2 * PATIENCE_MS : PATIENCE_MS;

			signs.streams[0] = signs_dead;
			signs_look_after(0);
			signs_look_after(ms - 1);
			assert_false(signs_suspect(0));
			signs_look_after(1);
			assert_true(signs_suspect(0));
			replace(lost);
		}
		pair_close(&signs.pair);
	}
}

static void test_a_connection_knows_whether_the_one_before_lost_something(void **state)
{
	struct anynet_stream *stream;

	(void)state;
	signs_open_idle_send(1);
	stream = signs_comm()->streams[0];
	pair_send(&signs.pair, signs.out, 8);
	assert_false(stream->path.health.lost);
	resume_send(&signs.pair, 0, 0, 0);
	assert_true(stream->path.health.lost);
}

/* The kernel says when data was last sent: what was sent before that, and is not acknowledged, has waited longer. */
static void test_a_silence_begins_before_the_first_look(void **state)
{
	(void)state;
	open_with_alternative(true);
	signs.streams[0] = signs_dead;
	signs.streams[0].sent_ms = PATIENCE_MS - 1;
	signs_look_after(0);
	assert_false(signs_suspect(0));
	signs_look_after(1);
	assert_true(signs_suspect(0));
}

/* The background thread calls again soon. */
static void test_what_is_not_acknowledged_keeps_the_attention(void **state)
{
	struct anynet_comm *comm;

	(void)state;
	open_with_alternative(false);
	comm = signs_comm();
	comm_attend(comm);
	assert_false(atomic_load(&comm->attention));
	signs.streams[0] = signs_waits;
	comm->session->watch.looked_ms = 0;
	comm_attend(comm);
	assert_true(atomic_load(&comm->attention));
}

/* A waiting caller notices before the next look; not if there is no other path. */
static void test_a_waiting_caller_checks_silent_paths(void **state)
{
	struct anynet_request *req, *next;
	struct anynet_comm *comm;

	(void)state;
	for (int alternative = 0; alternative < 2; alternative++) {
		signs_open_send(1);
		comm = signs_comm();
		comm->session->paths.own_count = (uint8_t)(1 + alternative);
		signs.streams[0] = signs_dead;
		for (uint64_t ms = 0; ms < 2 * PATIENCE_MS; ms++)
			watch_glance(comm, signs.now + ms);
		assert_int_equal(signs_suspect(0), alternative);
		pair_close(&signs.pair);
	}
	/* And not meanwhile. */
	req = open_with_alternative(false);
	comm = signs_comm();
	signs.streams[0] = signs_dead;
	for (uint32_t i = 0; i < 40; i++, req = next) {
		struct anynet_wire_frame frame = frame_data(i, 7, 0, 5);

		next = pair_irecv(&signs.pair, signs.in, 64, 7);
		frame_put(signs.pair.fds[0], &frame, "first");
		pair_finish(&req, 1, NULL);
		watch_glance(comm, signs.now + 5 * (uint64_t)i);
	}
	assert_false(signs_suspect(0));
}

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
	signs.streams[0] = tried_once; /* not yet */
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
	signs.streams[0] = tried_once;
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
		TEST(test_a_path_that_answers_is_not_suspect),
		TEST(test_a_path_that_tells_nothing_is_not_suspect),
		TEST(test_what_was_copied_is_watched_until_it_is_acknowledged),
		TEST(test_a_path_is_suspect_after_what_its_round_trips_have_shown),
		TEST(test_heartbeats_do_not_hide_that_the_kernel_retransmits_in_vain),
		TEST(test_the_only_path_is_suspect_once_the_kernel_has_tried_twice),
		TEST(test_a_check_of_a_path_may_end_a_stream),
		TEST(test_a_path_with_losses_is_not_suspect),
		TEST(test_alarms_in_a_row_come_ever_later),
		TEST(test_an_alarm_counts_as_false_unless_something_was_lost),
		TEST(test_a_connection_knows_whether_the_one_before_lost_something),
		TEST(test_a_silence_begins_before_the_first_look),
		TEST(test_what_is_not_acknowledged_keeps_the_attention),
		TEST(test_a_waiting_caller_checks_silent_paths),
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

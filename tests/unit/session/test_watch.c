/* SPDX-License-Identifier: Apache-2.0 */
/* When a path without a sign of life is suspect. test_silent_path.c: what happens then. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/message/send_internal.h"
#include "transports/session/watch.h"
#include "unit/carrier.h"
#include "unit/signs.h"

#define PATIENCE_MS 61 /* with a path whose round trips take no time */

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
	signs.streams[0] = signs_tried_once;
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
	signs.streams[0] = signs_tried_once;
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
	watch_glance(comm, false, signs.now);
	comm->streams[0]->bye.came = true;
	watch_glance(comm, false, signs.now + SIGNS_PEER_TIMEOUT_MS);
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

static void a_dead_path_is_suspect_after(uint64_t ms)
{
	signs.streams[0] = signs_dead;
	signs_look_after(0);
	signs_look_after(ms - 1);
	assert_false(signs_suspect(0));
	signs_look_after(1);
	assert_true(signs_suspect(0));
}

static void test_alarms_in_a_row_come_ever_later(void **state)
{
	(void)state;
	open_with_alternative(true);
	for (uint64_t i = 0, ms = PATIENCE_MS; i < 6; i++, ms = anynet_min(ms * 2, 16 * PATIENCE_MS)) {
		a_dead_path_is_suspect_after(ms);
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

			a_dead_path_is_suspect_after(ms);
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

/* The kernel also says for how long anything has been in flight. This counts if nothing was acknowledged meanwhile. */
static void test_data_sent_later_does_not_shorten_a_silence(void **state)
{
	(void)state;
	for (uint64_t acked = 5; acked <= 6; acked++) {
		open_with_alternative(true);
		signs.streams[0] = signs_healthy;
		signs.streams[0].acked = 5;
		signs.streams[0].busy_us = 700000;
		signs_look_after(0);
		signs.streams[0] = signs_dead;
		signs.streams[0].acked = acked;
		signs.streams[0].busy_us = 700000 + 1000 * (PATIENCE_MS - 1);
		signs_look_after(PATIENCE_MS);
		assert_false(signs_suspect(0));
		signs_look_after(1);
		assert_int_equal(signs_suspect(0), acked == 5);
		pair_close(&signs.pair);
	}
}

/* The background thread asks again soon, until what is in flight is acknowledged. */
static void test_what_is_not_acknowledged_is_looked_at_soon(void **state)
{
	struct anynet_comm *comm;

	(void)state;
	open_with_alternative(true);
	comm = signs_comm();
	comm_attend(comm);
	assert_false(atomic_load(&comm->session->watch.out));
	signs.streams[0] = signs_waits;
	comm->session->watch.looked_ms = 0;
	comm_attend(comm);
	assert_true(atomic_load(&comm->session->watch.out));
	assert_false(atomic_load(&comm->attention));
	signs.streams[0].acked++;
	comm->session->watch.glanced_ms = 0;
	comm_attend(comm);
	assert_false(atomic_load(&comm->session->watch.out));
}

/* A program that sends now and then makes progress each time, and then may not call for long. */
static void test_a_comm_that_is_asked_looks_while_it_progresses(void **state)
{
	struct anynet_comm *comm;

	(void)state;
	open_with_alternative(true);
	comm = signs_comm();
	comm_attend(comm);
	signs.streams[0] = signs_dead;
	signs.streams[0].sent_ms = PATIENCE_MS / 2;
	to_send(comm)->next_seq++;
	comm->session->watch.looked_ms = os_now_ms();
	comm->session->watch.glanced_ms = os_now_ms() + WATCH_MS; /* was not a moment ago */
	comm_attend(comm);
	assert_false(atomic_load(&comm->session->watch.out));
	comm->session->watch.glanced_ms = 0;
	comm->session->watch.pause_ms = WATCH_MS;
	comm_attend(comm);
	assert_true(atomic_load(&comm->session->watch.out));
	signs.streams[0].rtt_us = 1000000;
	comm->session->watch.glanced_ms = 0;
	comm_attend(comm);
	assert_false(atomic_load(&comm->session->watch.out));
}

static void test_a_comm_that_has_failed_is_not_looked_at_soon(void **state)
{
	struct anynet_comm *comm;

	(void)state;
	open_with_alternative(true);
	comm = signs_comm();
	signs.streams[0] = signs_waits;
	comm->session->watch.looked_ms = 0;
	comm_attend(comm);
	assert_true(atomic_load(&comm->session->watch.out));
	assert_true(comm_cancel(comm));
	comm_attend(comm);
	assert_false(atomic_load(&comm->session->watch.out));
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
			watch_glance(comm, false, signs.now + ms);
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
		watch_glance(comm, false, signs.now + 5 * (uint64_t)i);
	}
	assert_false(signs_suspect(0));
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
		TEST(test_data_sent_later_does_not_shorten_a_silence),
		TEST(test_what_is_not_acknowledged_is_looked_at_soon),
		TEST(test_a_comm_that_is_asked_looks_while_it_progresses),
		TEST(test_a_comm_that_has_failed_is_not_looked_at_soon),
		TEST(test_a_waiting_caller_checks_silent_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

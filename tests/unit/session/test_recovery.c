/* SPDX-License-Identifier: Apache-2.0 */
/* How often a broken stream is dialled, and what the answers mean (recovery.c). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "transports/base/socket.h"
#include "transports/session/recovery.h"
#include "unit/session/broken_comm.h"

#define PAUSE_MS 250 /* longest time between dials */

/* So that a path that works again is found soon; and not in a busy loop. */
static void test_it_is_dialled_again_and_again(void **state)
{
	(void)state;
	local_cfg.recovery_timeout_ms = 60000;
	test.network = UNREACHABLE;
	open_send();
	cut();
	pass(20000);
	assert_false(is_over());
	assert_in_range(test.longest_pause_ms, PAUSE_MS, PAUSE_MS + STEP_MS);
	assert_in_range(test.dials, 20000 / (PAUSE_MS + STEP_MS), 20000 / PAUSE_MS + 10);
}

/* It has its parent's comm, with broken connections: a RESUME of the child would take the stream away. */
static void test_a_forked_child_does_not_dial(void **state)
{
	unsigned dials;
	int status;
	pid_t child;

	(void)state;
	local_cfg.recovery_timeout_ms = 60000;
	test.network = UNREACHABLE;
	open_send();
	cut();
	dials = test.dials;
	child = fork();
	if (!child) {
		pass(1000);
		_exit(test.dials != dials);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	pass(1000);
	assert_true(test.dials > dials);
}

/* A dead path must not delay the next one; a path may also be slow. */
static void test_a_silent_path_is_given_longer_each_time(void **state)
{
	(void)state;
	local_cfg.recovery_timeout_ms = 60000;
	test.network = SILENT;
	open_send();
	cut();
	pass(200);
	assert_in_range(test.longest_pause_ms, 10, 100);
	pass(20000);
	assert_false(is_over());
	assert_in_range(test.longest_pause_ms, 500, 1000);
}

/* How long a connection is kept on which the peer sends nothing. */
static uint64_t kept_without_an_answer(void)
{
	uint64_t begin;
	char byte;

	hear(ANYNET_KIND_RESUME);
	begin = test.now;
	while (recv(test.peer, &byte, 1, MSG_DONTWAIT)) {
		test.now += STEP_MS;
		assert_true(test.now - begin <= 10000);
		step();
	}
	hang_up();
	return test.now - begin;
}

static void test_a_slow_peer_is_given_longer_each_time(void **state)
{
	uint64_t kept;

	(void)state;
	local_cfg.recovery_timeout_ms = 60000;
	test.network = ANSWERED;
	open_send();
	cut();
	kept = kept_without_an_answer();
	assert_in_range(kept, 200, 400);
	while (kept < 5000) {
		uint64_t longer = kept_without_an_answer();

		assert_true(longer > kept);
		kept = longer;
	}
	hear(ANYNET_KIND_RESUME);
	answer(ANYNET_STATUS_OK);
	assert_int_equal(test.comm->streams[0]->state, STREAM_UP);
}

static void test_a_peer_that_has_ended_it_says_so(void **state)
{
	(void)state;
	test.network = ANSWERED;
	open_send();
	cut();
	hear(ANYNET_KIND_RESUME);
	answer(ANYNET_STATUS_GONE);
	assert_int_equal(comm_error(test.comm), -ECONNRESET);
	warned_of("the peer has ended this connection");
}

/* They are in the connection that the peer has closed, which was not read to its end. */
static void test_its_last_frames_count(void **state)
{
	const uint16_t slot = 0;
	struct anynet_request *req;

	(void)state;
	test.network = ANSWERED;
	req = open_send();
	while (recv(test.pair.fds[0], pair_in, sizeof(pair_in), MSG_DONTWAIT) > 0)
		pair_idle(req);
	frame_put_ack(test.pair.fds[0], &slot, 1);
	recovery_stream(test.comm, test.comm->streams[0], true); /* its path is suspect */
	hear(ANYNET_KIND_RESUME);
	answer(ANYNET_STATUS_GONE);
	assert_int_equal(comm_error(test.comm), 0);
	pair_finish(&req, 1, NULL);
}

/* They break the protocol: that is the error, logged with the path on which they arrived, which ends as well. */
static void test_wrong_last_frames_are_the_error(void **state)
{
	const struct anynet_wire_frame wrong = { .type = ANYNET_FRAME_ACK,
						 .slot = ANYNET_WIRE_SLOTS };
	struct anynet_request *req;

	(void)state;
	test.network = ANSWERED;
	req = open_send();
	while (recv(test.pair.fds[0], pair_in, sizeof(pair_in), MSG_DONTWAIT) > 0)
		pair_idle(req);
	frame_put(test.pair.fds[0], &wrong, NULL);
	recovery_stream(test.comm, test.comm->streams[0], true); /* its path is suspect */
	hear(ANYNET_KIND_RESUME);
	answer(ANYNET_STATUS_GONE);
	pair_fails(req, -EPROTO);
	warned_of("path 0 of 1");
}

static void test_what_is_stale_is_tried_with_a_larger_epoch(void **state)
{
	uint32_t epoch;

	(void)state;
	test.network = ANSWERED;
	open_send();
	cut();
	hear(ANYNET_KIND_RESUME);
	epoch = test.hello.epoch;
	answer(ANYNET_STATUS_STALE);
	assert_false(is_over());
	hear(ANYNET_KIND_RESUME);
	assert_true(test.hello.epoch > epoch + 1); /* by as many as may have been lost */
}

/* Epochs are numbers modulo 2^32: the receiver has seen the larger one, and the next is after 0. */
static void test_epochs_go_on_behind_the_largest(void **state)
{
	uint32_t epoch;

	(void)state;
	test.network = ANSWERED;
	open_send();
	test.comm->streams[0]->epoch = UINT32_MAX;
	cut();
	hear(ANYNET_KIND_RESUME);
	epoch = test.hello.epoch;
	assert_in_range(epoch, 0, 1);
	answer(ANYNET_STATUS_STALE);
	hear(ANYNET_KIND_RESUME);
	assert_in_range(test.hello.epoch, epoch + 2, 100);
}

static void test_other_refusals_are_no_end(void **state)
{
	static const enum anynet_hello_status status[] = { ANYNET_STATUS_AUTH, ANYNET_STATUS_BUSY,
							   ANYNET_STATUS_VERSION };

	(void)state;
	test.network = ANSWERED;
	open_send();
	cut();
	for (size_t i = 0; i < ARRAY_SIZE(status); i++) {
		hear(ANYNET_KIND_RESUME);
		answer(status[i]);
		assert_false(is_over());
	}
}

static void test_why_a_process_refuses_is_logged(void **state)
{
	static const struct {
		enum anynet_hello_status status;
		const char *reason, *says;
	} cases[] = {
		{ ANYNET_STATUS_AUTH, "secrets differ (a test)", "a process on host-c refuses: secrets differ (a test)" },
		{ ANYNET_STATUS_VERSION, "", "on host-c refuses: it speaks other wire versions: install the same" },
		{ ANYNET_STATUS_BUSY, "", "on host-c refuses: see its log" },
	};

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		test.network = ANSWERED;
		if (i % 2) {
			open_send();
		} else {
			open_recv();
			pair_irecv(&test.pair, pair_in, sizeof(pair_in), 0);
		}
		cut();
		hear(i % 2 ? ANYNET_KIND_RESUME : ANYNET_KIND_PROBE);
		answer_with_reason(cases[i / 2].status, cases[i / 2].reason);
		hang_up();
		test.network = UNREACHABLE;
		assert_true(pass(2 * RECOVERY_MS) <= RECOVERY_MS);
		warned_of(cases[i / 2].says);
		pair_close(&test.pair);
	}
}

/* The stream continues over the connection that was answered. */
static void answer_ok(void)
{
	struct anynet_stream *stream = test.comm->streams[0];
	int peer = test.peer;

	answer_with(ANYNET_STATUS_OK);
	assert_true(stream->path.fd >= 0);
	assert_int_equal(stream->epoch, test.hello.epoch);
	if (test.pair.fds[0] >= 0)
		pair_hang_up(&test.pair, 0);
	test.pair.fds[0] = peer;
	test.peer = -1;
}

/* The other end has a second address. */
static void open_send_to_two(void)
{
	struct comm_paths *paths;

	open_send();
	paths = &test.comm->session->paths;
	assert_true(socket_to_wire(&local_dev.addr, PORT + 1, 0, &paths->peer[1]));
	paths->peer_count = 2;
}

/* The first address cannot be reached: the stream moves to the second. */
static void move_away(void)
{
	test.lost_port = PORT;
	cut();
	hear(ANYNET_KIND_RESUME);
	answer_ok();
	assert_int_equal(test.comm->streams[0]->path.pair.to, 1);
}

/* The receiver closes the old connection before it answers: that is no reason to start again. */
static void test_a_way_home_is_not_lost_with_the_old_connection(void **state)
{
	(void)state;
	test.network = ANSWERED;
	open_send_to_two();
	move_away();
	assert_false(recovery_announced(test.comm, test.comm->streams[0]));
	test.lost_port = 0;
	hear(ANYNET_KIND_RESUME);
	cut();
	answer_ok();
	assert_int_equal(test.comm->streams[0]->path.pair.to, 0);
}

/* How long it takes until the other end's first address is dialled again. */
static uint64_t away_ms(void)
{
	uint64_t begin = test.now;

	test.lost_port = 0;
	for (step(); test.peer < 0; step()) {
		assert_true(test.now - begin <= 20000);
		test.now += STEP_MS;
	}
	assert_int_equal(recv(test.peer, &test.hello, sizeof(test.hello), 0), sizeof(test.hello));
	return test.now - begin;
}

/* The path seems to be broken, and works again before another one is found. */
static void test_a_false_alarm_does_not_end_the_way_home(void **state)
{
	(void)state;
	test.network = ANSWERED;
	open_send_to_two();
	move_away();
	recovery_stream(test.comm, test.comm->streams[0], true);
	recovery_cancel(test.comm, test.comm->streams[0]);
	assert_in_range(away_ms(), 1000, 1000 + 2 * STEP_MS);
	answer_ok();
	assert_int_equal(test.comm->streams[0]->path.pair.to, 0);
}

/* A path that breaks each time that the stream has returned to it. */
static void test_a_way_home_that_breaks_is_tried_ever_more_rarely(void **state)
{
	static const unsigned seconds[] = { 1, 2, 4, 8, 10, 10 };

	(void)state;
	local_cfg.recovery_timeout_ms = 600000;
	test.network = ANSWERED;
	open_send_to_two();
	for (size_t i = 0; i < ARRAY_SIZE(seconds); i++) {
		move_away();
		assert_in_range(away_ms(), seconds[i] * 1000, seconds[i] * 1000 + 2 * STEP_MS);
		answer_ok();
		assert_int_equal(test.comm->streams[0]->path.pair.to, 0);
	}
	for (int i = 0; i < 120; i++) { /* it has been of use for a minute; a jump of the clock would not count */
		test.now += 500;
		os_now_ms();
	}
	move_away();
	assert_in_range(away_ms(), 1000, 1000 + 2 * STEP_MS);
}

/* The receiver has switched when it answers, whatever happens to the old path meanwhile. */
static void test_a_hello_that_is_out_is_waited_for(void **state)
{
	(void)state;
	test.network = ANSWERED;
	open_send();
	recovery_stream(test.comm, test.comm->streams[0], true);
	hear(ANYNET_KIND_RESUME);
	assert_true(recovery_announced(test.comm, test.comm->streams[0]));
	recovery_cancel(test.comm, test.comm->streams[0]);
	answer_ok();
	assert_false(recovery_announced(test.comm, test.comm->streams[0]));
}

static void peer_is_left(void)
{
	char byte;

	assert_int_equal(recv(test.peer, &byte, 1, MSG_DONTWAIT), 0);
	hang_up();
}

/* The receiver may have taken the new connection for the stream: it learns of the end by that one alone. */
static void test_a_dial_ends_with_its_comm(void **state)
{
	(void)state;
	test.network = ANSWERED;
	open_send();
	cut();
	hear(ANYNET_KIND_RESUME);
	assert_true(comm_cancel(test.comm));
	comm_attend(test.comm);
	peer_is_left();
	assert_null(test.comm->session->recovery);
}

/* … and with its stream, whose old connection has brought BYE after all. */
static void test_a_dial_ends_with_its_stream(void **state)
{
	const struct anynet_wire_frame bye = { .type = ANYNET_FRAME_BYE };

	(void)state;
	test.network = ANSWERED;
	open_send_over(2);
	recovery_stream(test.comm, test.comm->streams[1], false);
	hear(ANYNET_KIND_RESUME);
	frame_put(test.pair.fds[1], &bye, NULL);
	pair_hang_up(&test.pair, 1);
	test.comm->streams[1]->path.readable = true;
	for (int i = 0; i < 5; i++)
		comm_turn(test.comm);
	assert_null(test.comm->streams[1]);
	step();
	peer_is_left();
	assert_null(test.comm->session->recovery);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, broken_setup, broken_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_it_is_dialled_again_and_again),
		TEST(test_a_forked_child_does_not_dial),
		TEST(test_a_silent_path_is_given_longer_each_time),
		TEST(test_a_slow_peer_is_given_longer_each_time),
		TEST(test_a_peer_that_has_ended_it_says_so),
		TEST(test_its_last_frames_count),
		TEST(test_wrong_last_frames_are_the_error),
		TEST(test_what_is_stale_is_tried_with_a_larger_epoch),
		TEST(test_epochs_go_on_behind_the_largest),
		TEST(test_other_refusals_are_no_end),
		TEST(test_why_a_process_refuses_is_logged),
		TEST(test_a_way_home_is_not_lost_with_the_old_connection),
		TEST(test_a_false_alarm_does_not_end_the_way_home),
		TEST(test_a_way_home_that_breaks_is_tried_ever_more_rarely),
		TEST(test_a_hello_that_is_out_is_waited_for),
		TEST(test_a_dial_ends_with_its_comm),
		TEST(test_a_dial_ends_with_its_stream),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

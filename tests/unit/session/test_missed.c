/* SPDX-License-Identifier: Apache-2.0 */
/* When a sender's comm fails because one of its streams does not recover beside another that works (give_up.c). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "transports/message/stream_log.h"
#include "transports/session/watch.h"
#include "unit/session/broken_comm.h"

/* Of two streams one breaks: the one that carries the send, or the idle one. */
static void cut_one(bool idle)
{
	unsigned i = 0;

	while (stream_log_owes(test.comm->streams[i]) == idle)
		i++;
	pair_hang_up(&test.pair, i);
	comm_turn(test.comm);
	assert_int_equal(test.comm->streams[i]->path.fd, -1);
}

/* A broken stream gets its connection; nobody else does. Returns the peer's end. */
static int come_back(void)
{
	int peer;

	test.network = ANSWERED;
	hear(ANYNET_KIND_RESUME);
	test.network = UNREACHABLE;
	answer_with(ANYNET_STATUS_OK);
	peer = test.peer;
	test.peer = -1;
	return peer;
}

/* What its peer has acknowledged or asked for may have been lost with it. */
static void test_a_stream_that_does_not_recover_beside_one_that_works_fails_in_time(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		test.network = i % 2 ? REFUSES : UNREACHABLE;
		open_send_over(2);
		watch_comm(test.comm, test.now);
		cut_one(i / 2);
		assert_int_equal(pass(2 * RECOVERY_MS), RECOVERY_MS);
		assert_int_equal(comm_error(test.comm), -ETIMEDOUT);
		warned_of("of 2 broke and did not come back within ANYNET_RECOVERY_TIMEOUT, although another one works; tried ");
		pair_close(&test.pair);
	}
}

/* A request that begins to wait later has as long. */
static void test_a_stream_that_nobody_waits_for_has_time(void **state)
{
	const uint16_t slot = 0;

	(void)state;
	test.network = UNREACHABLE;
	open_send_over(2);
	frame_put_ack(test.pair.fds[0], &slot, 1);
	comm_turn(test.comm);
	assert_false(stream_log_owes(test.comm->streams[0]) || stream_log_owes(test.comm->streams[1]));
	pair_hang_up(&test.pair, 1);
	comm_turn(test.comm);
	watch_comm(test.comm, test.now);
	assert_int_equal(pass(2 * RECOVERY_MS), 2 * RECOVERY_MS);
	pair_isend(&test.pair, pair_out, sizeof(pair_out), 0);
	comm_turn(test.comm);
	watch_comm(test.comm, test.now);
	assert_int_equal(pass(2 * RECOVERY_MS), RECOVERY_MS);
	warned_of("although another one works");
}

/* Each has its own time. */
static void test_streams_that_break_in_turn_have_time(void **state)
{
	int stands;

	(void)state;
	test.network = UNREACHABLE;
	open_send_over(2);
	watch_comm(test.comm, test.now);
	cut_one(false);
	assert_int_equal(pass(RECOVERY_MS * 2 / 3), RECOVERY_MS * 2 / 3);
	stands = come_back();
	cut_one(true);
	assert_int_equal(pass(RECOVERY_MS * 2 / 3), RECOVERY_MS * 2 / 3);
	assert_false(is_over());
	assert_int_equal(pass(RECOVERY_MS), RECOVERY_MS / 3);
	warned_of("although another one works");
	close(stands);
}

/* After an outage the first one that is back does not cut short the time of the others. */
static void test_after_an_outage_of_all_streams_each_has_its_time(void **state)
{
	int stands;

	(void)state;
	test.network = UNREACHABLE;
	open_send_over(2);
	watch_comm(test.comm, test.now);
	cut();
	assert_int_equal(pass(RECOVERY_MS * 2 / 3), RECOVERY_MS * 2 / 3);
	stands = come_back();
	assert_int_equal(pass(RECOVERY_MS * 2 / 3), RECOVERY_MS * 2 / 3);
	assert_false(is_over());
	assert_true(pass(RECOVERY_MS) < RECOVERY_MS);
	warned_of("although another one works");
	close(stands);
}

/* Its process may be stopped: the other stream waits for it as well. */
static void test_beside_a_stream_that_works_a_peer_that_does_not_answer_has_time(void **state)
{
	char byte;

	(void)state;
	test.network = ANSWERED;
	open_send_over(2);
	cut_one(false);
	while (test.now - test.start < 3 * RECOVERY_MS) {
		hear(ANYNET_KIND_RESUME);
		for (; recv(test.peer, &byte, 1, MSG_DONTWAIT); step()) /* until the dial ends */
			test.now += STEP_MS;
		hang_up();
		assert_false(is_over());
	}
}

static void test_meanwhile_a_warning_says_what_has_been_tried(void **state)
{
	(void)state;
	test.network = UNREACHABLE;
	local_cfg.stall_warn_ms = RECOVERY_MS / 2;
	open_send_over(2);
	cut_one(false);
	watch_comm(test.comm, test.now);
	pass(RECOVERY_MS / 2);
	watch_comm(test.comm, test.now);
	warned_of("is being replaced; tried 127.0.0.1:0 -> 127.0.0.1:4711 (No route to host)");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, broken_setup, broken_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_stream_that_does_not_recover_beside_one_that_works_fails_in_time),
		TEST(test_a_stream_that_nobody_waits_for_has_time),
		TEST(test_streams_that_break_in_turn_have_time),
		TEST(test_after_an_outage_of_all_streams_each_has_its_time),
		TEST(test_beside_a_stream_that_works_a_peer_that_does_not_answer_has_time),
		TEST(test_meanwhile_a_warning_says_what_has_been_tried),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

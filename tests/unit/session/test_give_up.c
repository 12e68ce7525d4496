/* SPDX-License-Identifier: Apache-2.0 */
/* When a send comm with broken streams fails or ends (give_up.c): because its peer is gone, or in time. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/base/socket.h"
#include "transports/device/carrier.h"
#include "transports/session/recovery.h"
#include "transports/session/redial.h"
#include "transports/session/watch.h"
#include "unit/session/broken_comm.h"

#define GONE_MS 500 /* no peer for this long */

static void test_a_peer_that_nobody_listens_for_is_gone(void **state)
{
	(void)state;
	open_send();
	cut();
	assert_int_equal(pass(2 * RECOVERY_MS), GONE_MS);
	assert_int_equal(comm_error(test.comm), -ECONNRESET);
	warned_of("the peer process has ended");
}

/* There may be no background thread: a process may lack the right to have another one. */
static void test_polling_alone_finds_that_the_peer_is_gone(void **state)
{
	(void)state;
	open_send();
	cut();
	atomic_store(&test.comm->attention, true);
	for (unsigned ms = 0; ms < 2 * RECOVERY_MS && !is_over(); ms++) {
		test.now++;
		for (int i = 0; i < 16; i++)
			comm_turn(test.comm);
	}
	assert_int_equal(comm_error(test.comm), -ECONNRESET);
	warned_of("the peer process has ended");
}

/* A firewall rejects on one path, and the other one is silent, or this host has lost its address there: the process may
 * live. */
static void test_a_refusal_on_one_path_is_not_the_end_while_another_is_silent(void **state)
{
	static const int errnos[] = { EHOSTUNREACH, ETIMEDOUT, EADDRNOTAVAIL, ENETUNREACH, ENETDOWN };

	(void)state;
	test.lost_port = PORT + 1;
	for (size_t i = 0; i < ARRAY_SIZE(errnos) * 2; i++) {
		test.lost_errno = errnos[i / 2];
		if (i % 2) {
			open_send_over(2);
		} else {
			open_recv_over(2);
			pair_irecv(&test.pair, pair_in, sizeof(pair_in), 0);
		}
		cut();
		assert_int_equal(pass(2 * RECOVERY_MS), RECOVERY_MS);
		assert_int_equal(comm_error(test.comm), -ETIMEDOUT);
		warned_of("did not come back within ANYNET_RECOVERY_TIMEOUT");
		pair_close(&test.pair);
	}
}

/* … nor before the stream's own pair has been tried. It comes last, because its NIC has lost its link. */
static void test_refusals_elsewhere_are_not_the_end(void **state)
{
	struct comm_paths *paths;

	(void)state;
	open_send();
	paths = &test.comm->session->paths;
	paths->peer_count = ANYNET_HELLO_ADDRS;
	for (uint16_t i = 0; i < ANYNET_HELLO_ADDRS; i++)
		assert_true(socket_to_wire(&local_dev.addr, PORT + i, 0, &paths->peer[i]));
	test.comm->streams[0]->home.to = ANYNET_HELLO_ADDRS - 1;
	test.comm->session->rtt_us = 50000;
	test.silent_from = PORT + 2;
	carrier_set_port(&local_dev, true);
	cut();
	assert_int_equal(pass(2 * GONE_MS), 2 * GONE_MS);
	assert_int_equal(test.comm->session->recovery->refusals, 2);
	carrier_set_port(&local_dev, false);
}

/* Refused for a while; then a peer is there and takes the hello. */
static void hear_after_refusals(void)
{
	open_send();
	cut();
	assert_int_equal(pass(100), 100);
	test.network = ANSWERED;
	hear(ANYNET_KIND_RESUME);
}

/* A peer was there meanwhile, although it sent nothing. */
static void test_it_is_not_with_an_answer_in_between(void **state)
{
	(void)state;
	hear_after_refusals();
	hang_up();
	step();
	test.network = REFUSES;
	assert_true(pass(2 * RECOVERY_MS) >= GONE_MS);
	assert_int_equal(comm_error(test.comm), -ECONNRESET);
	warned_of("the peer process has ended");
}

/* Any answer shows that the process is there. */
static void test_it_is_not_with_a_stale_answer_in_between(void **state)
{
	(void)state;
	hear_after_refusals();
	answer(ANYNET_STATUS_STALE);
	test.network = REFUSES;
	assert_true(pass(2 * RECOVERY_MS) >= GONE_MS);
	warned_of("the peer process has ended");
}

static void test_a_stream_that_does_not_recover_fails_in_time(void **state)
{
	(void)state;
	test.network = UNREACHABLE;
	open_send();
	cut();
	assert_int_equal(pass(2 * RECOVERY_MS), RECOVERY_MS);
	assert_int_equal(comm_error(test.comm), -ETIMEDOUT);
	warned_of("did not come back within ANYNET_RECOVERY_TIMEOUT");
}

/* A receiver that has closed says so to each stream, over the NIC that still works. */
static void test_a_receiver_that_has_ended_is_believed_where_any_stream_was(void **state)
{
	(void)state;
	test.network = ANSWERED;
	test.lost_port = PORT;
	open_send_over(2);
	cut();
	for (int i = 0; i < 8 && !is_over(); i++) {
		hear(ANYNET_KIND_RESUME);
		answer(ANYNET_STATUS_GONE);
	}
	assert_int_equal(comm_error(test.comm), -ECONNRESET);
	warned_of("the peer has ended this connection");
}

/* What was sent may have arrived: a receiver acknowledges small messages late. */
static void test_an_idle_one_has_time(void **state)
{
	struct anynet_request *req;

	(void)state;
	test.network = UNREACHABLE;
	pair_open_send(&test.pair, 1);
	test.comm = test.pair.send;
	know_paths(1);
	req = pair_isend(&test.pair, pair_out, 50, 0);
	pair_finish(&req, 1, NULL);
	cut();
	assert_int_equal(pass(10 * RECOVERY_MS), 10 * RECOVERY_MS);
}

/* All of its sends are done, and none is acknowledged: there is no room for another one. */
static void open_full_send(void)
{
	struct anynet_send next = { .data = pair_out, .bytes = 1 };
	struct anynet_request *req;

	test.network = UNREACHABLE;
	local_cfg.replay_bytes = 8 * LOCAL_RING_BYTES; /* enough for all of them */
	pair_open_send(&test.pair, 1);
	local_cfg.replay_bytes = LOCAL_RING_BYTES;
	test.comm = test.pair.send;
	know_paths(1);
	for (int i = 0; i < ANYNET_SENDS; i++)
		pair_send(&test.pair, pair_out, 1);
	assert_int_equal(anynet_isend(test.comm, &next, &req), 0);
	assert_null(req);
}

/* NCCL tries again for ever. */
static void test_a_sender_without_room_has_not(void **state)
{
	(void)state;
	open_full_send();
	watch_comm(test.comm, test.now);
	cut();
	assert_int_equal(pass(2 * RECOVERY_MS), RECOVERY_MS);
	assert_int_equal(comm_error(test.comm), -ETIMEDOUT);
	warned_of(
		"pending: a send, for which there is no room before the 256 sent last are acknowledged");
}

static void test_it_has_once_there_is_room(void **state)
{
	(void)state;
	open_full_send();
	frame_put_ack(test.pair.fds[0], (const uint16_t[]){ 0 }, 1);
	pair_send(&test.pair, pair_out, 1);
	watch_comm(test.comm, test.now);
	cut();
	assert_int_equal(pass(10 * RECOVERY_MS), 10 * RECOVERY_MS);
}

static void test_a_sender_that_waits_has_not(void **state)
{
	(void)state;
	test.network = UNREACHABLE;
	open_send();
	watch_comm(test.comm, test.now);
	cut();
	assert_int_equal(pass(2 * RECOVERY_MS), RECOVERY_MS);
	warned_of("did not come back");
}

/* --- READY has not arrived: accept has not returned, and NCCL calls nothing --- */

static void test_a_sender_without_requests_waits_for_accept(void **state)
{
	enum {
		NOTHING,
		DONE,
		PENDING
	};
	struct anynet_request *req;

	(void)state;
	for (int sends = NOTHING; sends <= PENDING; sends++) {
		test.network = UNREACHABLE;
		pair_open_send(&test.pair, 1);
		test.comm = test.pair.send;
		know_paths(1);
		send_ready(test.comm);
		if (sends == PENDING)
			pair_isend(&test.pair, pair_out, sizeof(pair_out), 0);
		if (sends == DONE) {
			req = pair_isend(&test.pair, pair_out, 5, 0);
			pair_finish(&req, 1, NULL);
		}
		cut();
		assert_int_equal(pass(5 * RECOVERY_MS),
				 sends == PENDING ? RECOVERY_MS : 5 * RECOVERY_MS);
		assert_int_equal(comm_error(test.comm), sends == PENDING ? -ETIMEDOUT : 0);
		pair_close(&test.pair);
	}
	warned_of("did not come back");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, broken_setup, broken_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_peer_that_nobody_listens_for_is_gone),
		TEST(test_polling_alone_finds_that_the_peer_is_gone),
		TEST(test_a_refusal_on_one_path_is_not_the_end_while_another_is_silent),
		TEST(test_refusals_elsewhere_are_not_the_end),
		TEST(test_it_is_not_with_an_answer_in_between),
		TEST(test_it_is_not_with_a_stale_answer_in_between),
		TEST(test_a_stream_that_does_not_recover_fails_in_time),
		TEST(test_a_receiver_that_has_ended_is_believed_where_any_stream_was),
		TEST(test_an_idle_one_has_time),
		TEST(test_a_sender_without_room_has_not),
		TEST(test_it_has_once_there_is_room),
		TEST(test_a_sender_that_waits_has_not),
		TEST(test_a_sender_without_requests_waits_for_accept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Suspect paths: the receiver notices that a path is silent and reports it to the sender, which uses the report for a
 * while. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "transports/session/recovery.h"
#include "unit/carrier.h"
#include "unit/signs.h"

/* --- reports of the receiver --- */

static uint32_t suspected_epoch;

static bool suspect_came(unsigned stream, unsigned about)
{
	struct anynet_wire_frame frame;

	assert_int_equal(comm_transmit(signs.pair.recv), 0);
	if (!frame_get(signs.pair.fds[stream], &frame, NULL, 0))
		return false;
	assert_int_equal(frame.type, ANYNET_FRAME_SUSPECT);
	assert_int_equal(frame.slot, about);
	suspected_epoch = frame.seq;
	return true;
}

static void test_a_receiver_tells_of_a_suspicion_once_on_another_stream(void **state)
{
	(void)state;
	signs_open_recv(3);
	signs_lose(0);
	signs_look_after(1100);
	assert_false(suspect_came(0, 0));
	assert_true(suspect_came(1, 0));
	signs_look_after(1000);
	signs_look_after(1000);
	for (unsigned i = 0; i < 3; i++)
		assert_false(suspect_came(i, 0));
	/* Each silence is reported. */
	signs.streams[0] = signs_healthy;
	signs_look_after(100);
	signs_lose(0);
	signs_look_after(1100);
	signs_lose(1);
	signs_look_after(1100);
	assert_true(suspect_came(2, 0));
	assert_true(suspect_came(2, 1));
	assert_false(suspect_came(0, 0));
	assert_false(suspect_came(1, 0));
}

/* Two streams over one path: the SUSPECT for one may be lost with the other's connection. */
static void test_a_suspicion_is_repeated_on_a_new_connection(void **state)
{
	(void)state;
	signs_open_recv(3);
	signs_lose(0);
	signs_look_after(1100);
	assert_true(suspect_came(1, 0));
	resume_recv_ok(&signs.pair, 1, NULL);
	assert_true(suspect_came(1, 0));
	resume_recv_ok(&signs.pair, 0, NULL);
	resume_recv_ok(&signs.pair, 1, NULL);
	assert_false(suspect_came(1, 0));
}

/* So the sender knows what it has to send again. Otherwise acknowledgements of such messages wait for each other. */
static void test_what_has_come_is_acknowledged_when_a_path_is_suspect(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 7, 0, 5);
	struct anynet_request *req;
	uint8_t bitmap[ANYNET_ACK_BYTES];

	(void)state;
	req = signs_open_recv(2);
	frame_put(signs.pair.fds[1], &frame, "first");
	pair_finish(&req, 1, NULL);
	assert_int_equal(comm_transmit(signs.pair.recv), 0);
	assert_false(frame_get(signs.pair.fds[1], &frame, bitmap, sizeof(bitmap)));
	pair_irecv(&signs.pair, signs.in, 64, 7);
	signs_lose(0);
	signs_look_after(1100);
	assert_true(suspect_came(1, 0));
	assert_true(frame_get(signs.pair.fds[1], &frame, bitmap, sizeof(bitmap)));
	assert_int_equal(frame.type, ANYNET_FRAME_ACK);
	assert_int_equal(bitmap[0], 1);
}

static void test_a_suspicion_waits_for_a_stream_that_works(void **state)
{
	(void)state;
	signs_open_recv(2);
	signs_lose(0);
	signs_lose(1);
	signs_look_after(1100);
	for (unsigned i = 0; i < 2; i++)
		assert_false(suspect_came(i, i));
	signs.streams[0] = signs_healthy;
	signs_look_after(100);
	assert_true(suspect_came(0, 1));
	assert_false(suspect_came(0, 0));
}

/* It has noticed by itself, or its path works: no report any more. */
static void test_a_stream_does_not_suspect_itself(void **state)
{
	(void)state;
	for (int resumed = 0; resumed < 2; resumed++) {
		signs_open_recv(1);
		signs_lose(0);
		signs_look_after(1100);
		assert_true(signs_suspect(0));
		signs.streams[0] = signs_healthy;
		if (resumed)
			resume_recv_ok(&signs.pair, 0, NULL);
		else
			signs_look_after(100);
		assert_false(signs_suspect(0));
		assert_false(suspect_came(0, 0));
		pair_close(&signs.pair);
	}
}

/* Without another stream it is reported on that path all the same. */
static void test_acks_go_by_a_stream_that_is_not_suspect(void **state)
{
	static uint8_t data[100], bitmap[ANYNET_ACK_BYTES];

	(void)state;
	for (unsigned streams = 2; streams >= 1; streams--) {
		struct anynet_wire_frame frame = frame_data(0, 0, ANYNET_FLAG_ACK, sizeof(data));
		struct anynet_request *req;

		signs_open_recv(streams);
		signs_lose(0);
		signs_look_after(1100);
		assert_true(signs_suspect(0));
		assert_int_equal(suspect_came(streams - 1, 0), streams > 1);
		req = pair_irecv(&signs.pair, data, sizeof(data), 0);
		frame_put(signs.pair.fds[streams - 1], &frame, data);
		pair_finish(&req, 1, NULL);
		assert_int_equal(comm_transmit(signs.pair.recv), 0);
		if (streams > 1)
			assert_false(frame_get(signs.pair.fds[0], &frame, bitmap, sizeof(bitmap)));
		assert_true(frame_get(signs.pair.fds[streams - 1], &frame, bitmap, sizeof(bitmap)));
		assert_int_equal(frame.type, ANYNET_FRAME_ACK);
		pair_close(&signs.pair);
	}
}

/* A reset may have reached this side only. */
static void test_a_receiver_tells_of_a_stream_that_stays_broken(void **state)
{
	(void)state;
	signs_open_recv(2);
	signs.pair.recv->streams[1]->epoch = 3;
	pair_hang_up(&signs.pair, 1);
	comm_turn(signs.pair.recv);
	assert_int_equal(signs.pair.recv->streams[1]->path.fd, -1);
	signs.now = signs.pair.recv->streams[1]->breaks.ms;
	signs_look_after(50);
	assert_false(suspect_came(0, 1)); /* the sender usually notices by itself */
	for (int i = 0; i < 2; i++) {
		signs_look_after(100);
		assert_true(suspect_came(0, 1));
		assert_int_equal(suspected_epoch, 3);
	}
	signs_look_after(100);
	resume_recv_ok(&signs.pair, 1, NULL);
	assert_false(suspect_came(0, 1));
}

/* … and it names the connection that the sender has, not one that a RESUME was to make and whose answer did not leave. */
static void test_a_resume_that_is_not_answered_does_not_change_what_is_suspect(void **state)
{
	struct anynet_wire_hello hello;
	int fds[2];

	(void)state;
	signs_open_recv(2);
	signs.pair.recv->streams[1]->epoch = 3;
	hello_fill(&hello, &local_dev, NULL, 0);
	hello.type = ANYNET_HELLO;
	hello.kind = ANYNET_KIND_RESUME;
	hello.stream = 1;
	hello.epoch = 4;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(recovery_post(signs.pair.recv, fds[0], &hello, NULL), 0);
	close(fds[1]);
	comm_poke(signs.pair.recv);
	assert_int_equal(signs.pair.recv->streams[1]->path.fd, -1);
	signs.now = os_now_ms() + 100;
	signs_look_after(100);
	assert_true(suspect_came(0, 1));
	assert_int_equal(suspected_epoch, 3);
}

/* --- the sender's reaction --- */

/* For one connection, and no other of the stream. */
static void put_suspect_of(unsigned stream, unsigned about, uint32_t epoch)
{
	struct anynet_wire_frame suspect = {
		.type = ANYNET_FRAME_SUSPECT,
		.slot = (uint16_t)about,
		.seq = epoch,
	};

	frame_put(signs.pair.fds[stream], &suspect, NULL);
	assert_int_equal(comm_turn(signs.pair.send), 0);
}

static void put_suspect(unsigned stream, unsigned about)
{
	put_suspect_of(stream, about, 0);
}

static void test_a_suspicion_of_an_older_connection_counts_no_more(void **state)
{
	(void)state;
	signs_open_send(2);
	signs.pair.send->streams[0]->epoch = 2;
	put_suspect_of(1, 0, 1);
	assert_false(signs_suspect(0));
	put_suspect_of(1, 0, 2);
	assert_true(signs_suspect(0));
}

/* No stream works at the receiver, which may know more of them than this side. */
static void test_a_probe_makes_the_sender_suspect_and_ask_every_stream(void **state)
{
	(void)state;
	signs_open_idle_send(2);
	signs_look_after(0);
	assert_int_equal(signs.pings[0] + signs.pings[1], 0);
	for (unsigned i = 1; i < 3; i++) {
		atomic_store(&signs.pair.send->session->probed, true);
		comm_attend(signs.pair.send);
		comm_attend(signs.pair.send);
		assert_int_equal(signs.pings[0], i);
		assert_int_equal(signs.pings[1], i);
		assert_int_equal(comm_turn(signs.pair.send), 0);
		assert_true(signs_suspect(0) && signs_suspect(1));
	}
}

static void test_a_sender_believes_a_suspicion_for_a_while(void **state)
{
	(void)state;
	signs_open_send(2);
	put_suspect(1, 2); /* about an unknown stream */
	put_suspect(1, 255);
	assert_false(signs_suspect(0) || signs_suspect(1));
	assert_int_equal(comm_error(signs.pair.send), 0);
	put_suspect(1, 0);
	assert_true(signs_suspect(0));
	assert_false(signs_suspect(1));
	signs.now = signs.pair.send->streams[0]->path.health.suspected_ms - 1; /* a look that began before */
	signs_look_after(0);
	assert_true(signs_suspect(0));
	signs_look_after(500);
	assert_true(signs_suspect(0));
	signs_look_after(600);
	assert_false(signs_suspect(0));
}

/* Its own silence began when the suspicion ended, but is not long enough yet. */
static void test_a_suspected_path_that_is_silent_stays_suspect(void **state)
{
	(void)state;
	signs_open_send(2);
	put_suspect(1, 0);
	signs.now = signs.pair.send->streams[0]->path.health.suspected_ms;
	signs_look_after(900);
	assert_true(signs_suspect(0));
	signs.streams[0] = signs_dead;
	signs_look_after(50);
	signs_look_after(100);
	assert_true(signs_suspect(0));
	signs.streams[0] = signs_waits;
	signs_look_after(50);
	assert_false(signs_suspect(0));
}

static void test_without_recovery_a_suspicion_changes_nothing(void **state)
{
	(void)state;
	local_cfg.recovery_timeout_ms = 0;
	signs_open_send(2);
	put_suspect(1, 0);
	assert_false(signs_suspect(0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, signs_setup, signs_teardown)
		TEST(test_a_receiver_tells_of_a_suspicion_once_on_another_stream),
		TEST(test_a_suspicion_is_repeated_on_a_new_connection),
		TEST(test_what_has_come_is_acknowledged_when_a_path_is_suspect),
		TEST(test_a_suspicion_waits_for_a_stream_that_works),
		TEST(test_a_stream_does_not_suspect_itself),
		TEST(test_acks_go_by_a_stream_that_is_not_suspect),
		TEST(test_a_receiver_tells_of_a_stream_that_stays_broken),
		TEST(test_a_resume_that_is_not_answered_does_not_change_what_is_suspect),
		TEST(test_a_suspicion_of_an_older_connection_counts_no_more),
		TEST(test_a_probe_makes_the_sender_suspect_and_ask_every_stream),
		TEST(test_a_sender_believes_a_suspicion_for_a_while),
		TEST(test_a_suspected_path_that_is_silent_stays_suspect),
		TEST(test_without_recovery_a_suspicion_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Breaks other than a cut at a byte: late resumes, corrupted bytes, a comm that is not to recover or cannot. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/session/recovery.h"
#include "unit/exchange.h"

/* The stream, with stream 0 letting this many bytes pass. */
static void start(const struct exchange_shape *shape, uint64_t left)
{
	exchange_open(shape);
	exchange.carrier.streams[0].left[TO_RECEIVER] = left;
	exchange_send();
}

/* --- what is refused --- */

static void test_only_a_newer_epoch_takes_a_stream_over(void **state)
{
	static const uint32_t refused[] = { 1, 0, 0x80000001u };
	struct anynet_wire_hello welcome;
	struct anynet_stream *stream;

	(void)state;
	start(&(struct exchange_shape){ .streams = 1 }, 200);
	carrier_settle(&exchange.carrier);
	carrier_mend(&exchange.carrier, 0);
	stream = exchange.carrier.pair.recv->streams[0];
	assert_int_equal(stream->epoch, 1);
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		int fd = stream->path.fd;

		assert_int_equal(resume_recv(&exchange.carrier.pair, 0, refused[i], &welcome), -1);
		assert_int_equal(welcome.status, ANYNET_STATUS_STALE);
		assert_int_equal(stream->path.fd, fd);
		assert_int_equal(stream->epoch, 1);
	}
	assert_int_equal(resume_recv(&exchange.carrier.pair, 1, 2, &welcome), -1);
	assert_int_equal(welcome.status, ANYNET_STATUS_STALE);
	/* None of them did any harm. */
	for (int turn = 0; !exchange_all_done(); turn++) {
		assert_true(turn < EXCHANGE_TURNS_MAX);
		carrier_settle(&exchange.carrier);
		exchange_take_done();
	}
	exchange_check();
}

/* They may come while the comm is in use: all are answered, the older ones first. */
static void test_concurrent_connections_are_all_answered(void **state)
{
	struct pair *pair = &exchange.carrier.pair;
	struct anynet_wire_hello answer;
	int fds[3][2];

	(void)state;
	start(&(struct exchange_shape){ .streams = 2 }, CARRIER_NEVER);
	comm_enter(pair->recv);
	for (unsigned i = 0; i < 3; i++) {
		struct anynet_wire_hello hello;

		hello_fill(&hello, &local_dev, NULL, 0);
		hello.type = ANYNET_HELLO;
		hello.kind = ANYNET_KIND_RESUME;
		hello.stream = (uint16_t)(i / 2); /* 0, 0, 1 */
		hello.epoch = 1 + i;
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds[i]), 0);
		assert_int_equal(recovery_post(pair->recv, fds[i][0], &hello, NULL), 0);
		comm_poke(pair->recv);
	}
	comm_attend(pair->recv);
	comm_leave(pair->recv);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(recv(fds[i][1], &answer, sizeof(answer), MSG_DONTWAIT),
				 sizeof(answer));
		assert_int_equal(answer.status, ANYNET_STATUS_OK);
		close(fds[i][1]);
	}
	assert_int_equal(pair->recv->streams[0]->epoch, 2);
	assert_int_equal(pair->recv->streams[1]->epoch, 3);
}

static void test_a_failed_comm_answers_a_resume_with_its_error(void **state)
{
	struct anynet_wire_hello welcome;

	(void)state;
	start(&(struct exchange_shape){ .streams = 1 }, CARRIER_NEVER);
	comm_fail(exchange.carrier.pair.recv, NULL, -ENOMEM, "the test wants it");
	assert_int_equal(resume_recv(&exchange.carrier.pair, 0, 1, &welcome), -1);
	assert_int_equal(welcome.status, ANYNET_STATUS_GONE);
	assert_string_equal(welcome.reason, strerror(ENOMEM));
}

/* Heartbeats have no number in the stream. */
static void test_heartbeats_move_no_position(void **state)
{
	struct pair *pair = &exchange.carrier.pair;
	struct anynet_wire_hello welcome;
	struct anynet_request *reqs[2];
	char got[8] = "";

	(void)state;
	carrier_open(&exchange.carrier, 1);
	for (uint64_t frames = 1; frames < 5; frames++) {
		struct anynet_stream *stream = pair->send->streams[0];
		uint64_t passed = exchange.carrier.streams[0].passed[TO_RECEIVER];

		stream->ops->ping(stream);
		carrier_settle(&exchange.carrier);
		assert_int_equal(exchange.carrier.streams[0].passed[TO_RECEIVER] - passed,
				 sizeof(struct anynet_wire_frame));
		reqs[0] = pair_isend(pair, "again", 6, 0);
		reqs[1] = pair_irecv(pair, got, sizeof(got), 0);
		carrier_settle(&exchange.carrier);
		pair_finish(reqs, 2, NULL);
		assert_string_equal(got, "again");
		carrier_cut(&exchange.carrier, 0);
		carrier_noticed(&exchange.carrier, 0);
		carrier_hello(&exchange.carrier, 0, &welcome);
		assert_int_equal(welcome.frames, frames);
		carrier_welcome(&exchange.carrier, 0, &welcome);
	}
}

/* --- corrupted bytes --- */

static const struct exchange_shape shape = { .streams = 1, .checksum = true };

/* Whatever byte is changed, the connection ends and nothing of it is kept. */
static void run_flipped(int way, uint64_t at)
{
	bool mended = false;

	start(&shape, CARRIER_NEVER);
	exchange.carrier.streams[0].flip[way] = at;
	for (int turn = 0; !exchange_all_done(); turn++) {
		struct anynet_comm *send = exchange.carrier.pair.send,
				   *recv = exchange.carrier.pair.recv;

		assert_true(turn < EXCHANGE_TURNS_MAX);
		carrier_settle(&exchange.carrier);
		exchange_take_done();
		/* After a length that is too large the sender waits for more. */
		if (recv->streams[0]->path.fd >= 0 && way == TO_SENDER)
			recv->streams[0]->ops->ping(recv->streams[0]);
		if (send->streams[0]->path.fd >= 0 && recv->streams[0]->path.fd >= 0)
			continue;
		assert_false(mended);
		mended = true;
		carrier_mend(&exchange.carrier, 0);
	}
	assert_int_equal(comm_error(exchange.carrier.pair.recv), 0);
	assert_int_equal(comm_error(exchange.carrier.pair.send), 0);
	if (mended && way == TO_RECEIVER)
		assert_int_equal(capture_count(CAPTURE_WARN, "wrong checksum"), 1);
	capture_forget();
	exchange_check();
	exchange_close();
}

static void test_a_byte_that_changed_is_noticed_and_sent_again(void **state)
{
	static struct exchange_record reference;

	(void)state;
	exchange_learn(&shape, &reference);
	for (uint64_t at = 0; at < reference.bytes; at++)
		run_flipped(TO_RECEIVER, at);
	for (uint64_t at = 0; at < reference.bytes_back; at++)
		run_flipped(TO_SENDER, at);
}

/* --- without recovery --- */

static void test_without_recovery_a_cut_is_the_end(void **state)
{
	struct anynet_wire_hello welcome;

	(void)state;
	local_cfg.recovery_timeout_ms = 0;
	start(&(struct exchange_shape){ .streams = 2 }, 200);
	carrier_settle(&exchange.carrier);
	carrier_cut(&exchange.carrier, 0);
	pair_fails(exchange.sends[2], -ECONNRESET);
	pair_fails(exchange.recvs[2], -ECONNRESET);
	assert_int_equal(capture_count(CAPTURE_WARN, "send to peer"), 1);
	assert_int_equal(capture_count(CAPTURE_WARN, "receive from peer"), 1);
	for (int i = 0; i < 2; i++) {
		assert_null(exchange.carrier.pair.send->streams[i]);
		assert_null(exchange.carrier.pair.recv->streams[i]);
	}
	assert_int_equal(resume_recv(&exchange.carrier.pair, 0, 1, &welcome), -1);
	assert_int_equal(welcome.status, ANYNET_STATUS_GONE);
}

/* A break that nothing waits for is not logged. */
static void test_without_recovery_an_idle_end_is_no_error(void **state)
{
	(void)state;
	local_cfg.recovery_timeout_ms = 0;
	carrier_open(&exchange.carrier, 1);
	carrier_cut(&exchange.carrier, 0);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(comm_turn(exchange.carrier.pair.send), 0);
		assert_int_equal(comm_turn(exchange.carrier.pair.recv), 0);
	}
	assert_true(exchange.carrier.pair.send->peer_closed);
	assert_true(exchange.carrier.pair.recv->peer_closed);
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 0);
}

/* A fault of this host is not the peer's: memory for a queue pair cannot be registered. */
static void test_without_recovery_an_idle_fault_of_this_host_is_named(void **state)
{
	struct anynet_comm *comm;

	(void)state;
	local_cfg.recovery_timeout_ms = 0;
	carrier_open(&exchange.carrier, 1);
	comm = exchange.carrier.pair.send;
	assert_int_equal(comm_stream_broke(comm, comm->streams[0], -ENOMEM), -ENOMEM);
	assert_int_equal(comm_error(comm), -ENOMEM);
	assert_false(comm->peer_closed);
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 1);
	assert_int_equal(capture_count(CAPTURE_WARN, strerror(ENOMEM)), 1);
	assert_int_equal(capture_count(CAPTURE_WARN, "the peer closed"), 0);
}

/* The stream is not resumed. */
static void test_after_the_recovery_timeout_every_request_fails(void **state)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	(void)state;
	local_cfg.recovery_timeout_ms = 20;
	start(&(struct exchange_shape){ .streams = 1 }, 200);
	carrier_settle(&exchange.carrier);
	carrier_cut(&exchange.carrier, 0);
	for (int turn = 0;
	     !comm_error(exchange.carrier.pair.send) || !comm_error(exchange.carrier.pair.recv);
	     turn++) {
		assert_true(turn < EXCHANGE_TURNS_MAX);
		comm_turn(exchange.carrier.pair.send);
		comm_turn(exchange.carrier.pair.recv);
		nanosleep(&pause, NULL);
	}
	pair_fails(exchange.sends[2], -ETIMEDOUT);
	pair_fails(exchange.recvs[2], -ETIMEDOUT);
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 2);
	assert_int_equal(capture_count(CAPTURE_WARN,
				       "did not come back within ANYNET_RECOVERY_TIMEOUT"),
			 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, exchange_setup, exchange_teardown)
		TEST(test_only_a_newer_epoch_takes_a_stream_over),
		TEST(test_concurrent_connections_are_all_answered),
		TEST(test_a_failed_comm_answers_a_resume_with_its_error),
		TEST(test_heartbeats_move_no_position),
		TEST(test_a_byte_that_changed_is_noticed_and_sent_again),
		TEST(test_without_recovery_a_cut_is_the_end),
		TEST(test_without_recovery_an_idle_end_is_no_error),
		TEST(test_without_recovery_an_idle_fault_of_this_host_is_named),
		TEST(test_after_the_recovery_timeout_every_request_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A broken stream: how often it is dialled, what answers mean (recovery.c), and when the comm fails (give_up.c). The clock
 * is the test's, and so is connect(): there is no peer, no packet gets through, or the test answers.
 */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/base/socket.h"
#include "transports/device/carrier.h"
#include "transports/message/recv_internal.h"
#include "transports/session/recovery.h"
#include "transports/session/redial.h"
#include "unit/carrier.h"

#define PORT     4711 /* addresses of the peer to which nothing is sent */
#define STEP_MS  10
#define RECOVERY_MS  3000
#define GONE_MS  500 /* no peer for this long */
#define PAUSE_MS 250 /* longest time between dials */

enum network {
	REFUSES,
	UNREACHABLE,
	ANSWERED, /* by the test */
	SILENT,   /* connections are not established */
};

static struct {
	struct pair pair;
	struct anynet_comm *comm;
	enum network network;
	uint16_t lost_port; /* to which no connection is made; 0 = none */
	int lost_errno;     /* why not; 0 = no packet gets through */
	uint16_t silent_from; /* from this port on connections do not come to stand; 0 = none */
	uint64_t start, now;
	unsigned dials;
	uint64_t dialled_ms, longest_pause_ms;
	int peer;                       /* its end of the last connection; -1 = none */
	struct anynet_wire_hello hello; /* received there */
} test = { .now = 1000000 };

static void hang_up(void)
{
	if (test.peer >= 0)
		close(test.peer);
	test.peer = -1;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	*time = (struct timespec){ .tv_sec = (time_t)(test.now / 1000),
				   .tv_nsec = (long)(test.now % 1000) * 1000000 };
	return 0;
}

int connect(int fd, __CONST_SOCKADDR_ARG addr, socklen_t bytes)
{
	struct sockaddr_in to;
	uint16_t port;
	bool silent;
	int ends[2];

	memcpy(&to, addr.__sockaddr__, anynet_min((size_t)bytes, sizeof(to)));
	if (test.dials++ && test.now - test.dialled_ms > test.longest_pause_ms)
		test.longest_pause_ms = test.now - test.dialled_ms;
	test.dialled_ms = test.now;
	port = ntohs(to.sin_port);
	silent = test.network == SILENT || (test.silent_from && port >= test.silent_from);
	if ((test.network < ANSWERED && !silent) || port == test.lost_port) {
		errno = test.network == REFUSES ? ECONNREFUSED : EHOSTUNREACH;
		if (port == test.lost_port)
			errno = test.lost_errno ? test.lost_errno : EHOSTUNREACH;
		return -1;
	}
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends),
			 0);
	assert_int_equal(dup2(ends[0], fd), fd);
	close(ends[0]);
	if (silent) {
		while (send(fd, &test, sizeof(test), MSG_DONTWAIT) > 0)
			;
		hang_up();
	}
	assert_int_equal(test.peer, -1);
	test.peer = ends[1];
	return 0;
}

static int setup(void **state)
{
	uint64_t now = test.now; /* the clock never goes back */

	pair_setup_recovery(state);
	local_cfg.recovery_timeout_ms = RECOVERY_MS;
	memset(&test, 0, sizeof(test));
	test.peer = -1;
	test.start = test.now = now;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	pair_close(&test.pair);
	hang_up();
	capture_check();
	return 0;
}

/* This many addresses at either end. */
static void know_paths(unsigned count)
{
	struct comm_paths *paths = &test.comm->session->paths;

	paths->version = ANYNET_WIRE_VERSION;
	paths->own_count = paths->peer_count = (uint8_t)count;
	paths->dev = &local_dev;
	for (unsigned i = 0; i < count; i++) {
		paths->own[i] = &local_dev;
		assert_true(socket_to_wire(&local_dev.addr, 0, 0, &paths->own_addrs[i]));
		assert_true(
			socket_to_wire(&local_dev.addr, (uint16_t)(PORT + i), 0, &paths->peer[i]));
		test.comm->streams[i]->home = test.comm->streams[i]->path.pair =
			(struct anynet_wire_pair){ (uint8_t)i, (uint8_t)i };
	}
}

static struct anynet_request *open_send_over(unsigned paths)
{
	pair_open_send(&test.pair, paths);
	test.comm = test.pair.send;
	know_paths(paths);
	return pair_isend(&test.pair, pair_out, sizeof(pair_out), 0);
}

static struct anynet_request *open_send(void)
{
	return open_send_over(1);
}

static void open_recv_over(unsigned paths)
{
	pair_open_recv(&test.pair, paths);
	test.comm = test.pair.recv;
	know_paths(paths);
}

static void open_recv(void)
{
	open_recv_over(1);
}

static void cut(void)
{
	for (unsigned i = 0; i < test.pair.streams; i++)
		pair_hang_up(&test.pair, i);
	for (int i = 0; i < 5; i++)
		comm_turn(test.comm);
	for (unsigned i = 0; i < test.pair.streams; i++)
		assert_int_equal(test.comm->streams[i]->path.fd, -1);
}

static bool is_over(void)
{
	return comm_error(test.comm) || test.comm->peer_closed;
}

static void step(void)
{
	if (!test.comm->is_send && !is_over() && !test.comm->session->recovery)
		recovery_stream(test.comm, test.comm->streams[0],
				false); /* as the background thread does */
	if (test.comm->session->recovery && !is_over())
		recovery_step(test.comm, os_now_ms());
}

/* Until it fails, or this long at most. Returns the time. */
static uint64_t pass(uint64_t ms)
{
	uint64_t begin = test.now;

	for (step(); !is_over() && test.now - begin < ms; step())
		test.now += STEP_MS;
	return test.now - begin;
}

/* Until a hello has arrived. */
static void hear(enum anynet_hello_kind kind)
{
	uint64_t begin = test.now;

	for (step(); test.peer < 0; step()) {
		assert_true(test.now - begin <= 2000);
		test.now += STEP_MS;
	}
	assert_int_equal(recv(test.peer, &test.hello, sizeof(test.hello), 0), sizeof(test.hello));
	assert_int_equal(test.hello.kind, kind);
}

static void answer_with_reason(enum anynet_hello_status status, const char *reason)
{
	struct anynet_wire_hello welcome;

	hello_fill(&welcome, &local_dev, NULL, 0);
	hello_answer(&welcome, &test.hello);
	welcome.status = status;
	strcpy(welcome.host, "host-c");
	strcpy(welcome.reason, reason);
	assert_int_equal(send(test.peer, &welcome, sizeof(welcome), MSG_NOSIGNAL), sizeof(welcome));
	step();
}

static void answer_with(enum anynet_hello_status status)
{
	answer_with_reason(status, "");
}

static void answer(enum anynet_hello_status status)
{
	answer_with(status);
	hang_up();
}

static void warned_of(const char *text)
{
	char line[CAPTURE_LINE_BYTES];

	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 1);
	assert_true(capture_find(CAPTURE_WARN, text, line));
	capture_forget();
}

/* --- the sender --- */

static void test_a_peer_that_nobody_listens_for_is_gone(void **state)
{
	(void)state;
	open_send();
	cut();
	assert_int_equal(pass(2 * RECOVERY_MS), GONE_MS);
	assert_int_equal(comm_error(test.comm), -ECONNRESET);
	warned_of("the peer process is gone");
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
	warned_of("the peer process is gone");
}

/* Any answer shows that the process is there. */
static void test_it_is_not_with_a_stale_answer_in_between(void **state)
{
	(void)state;
	hear_after_refusals();
	answer(ANYNET_STATUS_STALE);
	test.network = REFUSES;
	assert_true(pass(2 * RECOVERY_MS) >= GONE_MS);
	warned_of("the peer process is gone");
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

/* The receiver closes the old connection before it answers: that is no reason to start again. */
static void test_a_way_home_is_not_lost_with_the_old_connection(void **state)
{
	struct comm_paths *paths;

	(void)state;
	test.network = ANSWERED;
	test.lost_port = PORT;
	open_send();
	paths = &test.comm->session->paths;
	assert_true(socket_to_wire(&local_dev.addr, PORT + 1, 0, &paths->peer[1]));
	paths->peer_count = 2;
	cut();
	hear(ANYNET_KIND_RESUME);
	answer_ok();
	assert_int_equal(test.comm->streams[0]->path.pair.to, 1);
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

/* A path that breaks each time that the stream has returned to it. */
static void test_a_way_home_that_breaks_is_tried_ever_more_rarely(void **state)
{
	static const unsigned seconds[] = { 1, 2, 4, 8, 10, 10 };
	struct comm_paths *paths;

	(void)state;
	local_cfg.recovery_timeout_ms = 600000;
	test.network = ANSWERED;
	open_send();
	paths = &test.comm->session->paths;
	assert_true(socket_to_wire(&local_dev.addr, PORT + 1, 0, &paths->peer[1]));
	paths->peer_count = 2;
	for (size_t i = 0; i < ARRAY_SIZE(seconds); i++) {
		test.lost_port = PORT;
		cut();
		hear(ANYNET_KIND_RESUME);
		answer_ok();
		assert_int_equal(test.comm->streams[0]->path.pair.to, 1);
		assert_in_range(away_ms(), seconds[i] * 1000, seconds[i] * 1000 + 2 * STEP_MS);
		answer_ok();
		assert_int_equal(test.comm->streams[0]->path.pair.to, 0);
	}
	for (int i = 0; i < 120; i++) { /* it has been of use for a minute; a jump of the clock would not count */
		test.now += 500;
		os_now_ms();
	}
	test.lost_port = PORT;
	cut();
	hear(ANYNET_KIND_RESUME);
	answer_ok();
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

/* --- the receiver --- */

static void test_a_receiver_asks_whether_its_sender_lives(void **state)
{
	(void)state;
	test.network = ANSWERED;
	open_recv();
	pair_irecv(&test.pair, pair_in, sizeof(pair_in), 0);
	cut();
	for (int i = 0; i < 2; i++) {
		hear(ANYNET_KIND_PROBE);
		answer(ANYNET_STATUS_OK);
		assert_false(is_over());
	}
	hear(ANYNET_KIND_PROBE);
	answer(ANYNET_STATUS_GONE);
	assert_int_equal(comm_error(test.comm), -ECONNRESET);
	warned_of("the peer has ended this connection");
}

static void test_with_a_receive_it_waits_no_longer_than_the_sender(void **state)
{
	(void)state;
	test.network = ANSWERED;
	open_recv();
	pair_irecv(&test.pair, pair_in, sizeof(pair_in), 0);
	cut();
	hear(ANYNET_KIND_PROBE);
	answer(ANYNET_STATUS_OK);
	test.network = UNREACHABLE;
	pass(2 * RECOVERY_MS);
	assert_int_equal(test.now - test.start, RECOVERY_MS);
	assert_int_equal(comm_error(test.comm), -ETIMEDOUT);
	warned_of("did not come back");
}

/* Its sender knows, and may have nothing to send for long. */
static void test_an_idle_one_waits_once_it_has_been_answered(void **state)
{
	(void)state;
	test.network = ANSWERED;
	open_recv();
	cut();
	hear(ANYNET_KIND_PROBE);
	answer(ANYNET_STATUS_OK);
	test.network = REFUSES;
	pass(10 * RECOVERY_MS);
	assert_false(is_over());
}

/* Its sender may have everything confirmed by then, and close without another word. */
static void test_a_closed_one_asks_until_its_sender_ends(void **state)
{
	(void)state;
	test.network = ANSWERED;
	open_recv();
	cut();
	drain_start(test.comm);
	for (int i = 0; i < 2; i++) {
		hear(ANYNET_KIND_PROBE);
		answer(ANYNET_STATUS_OK);
		assert_false(is_over());
	}
	hear(ANYNET_KIND_PROBE);
	answer(ANYNET_STATUS_GONE);
	assert_true(test.comm->peer_closed);
	assert_int_equal(comm_error(test.comm), 0);
}

static void test_an_idle_one_that_nobody_answers_gives_up_quietly(void **state)
{
	(void)state;
	test.network = UNREACHABLE;
	open_recv();
	cut();
	assert_int_equal(pass(2 * RECOVERY_MS), RECOVERY_MS);
	assert_true(test.comm->peer_closed && test.comm->session->peer_lost);
	assert_int_equal(comm_error(test.comm), 0);
}

/* --- READY has not arrived: accept has not returned, and NCCL calls nothing --- */

static void test_a_sender_without_sends_waits_for_accept(void **state)
{
	(void)state;
	for (int sends = 0; sends < 2; sends++) {
		test.network = UNREACHABLE;
		pair_open_send(&test.pair, 1);
		test.comm = test.pair.send;
		know_paths(1);
		send_ready(test.comm);
		if (sends)
			pair_isend(&test.pair, pair_out, sizeof(pair_out), 0);
		cut();
		assert_int_equal(pass(5 * RECOVERY_MS), sends ? RECOVERY_MS : 5 * RECOVERY_MS);
		assert_int_equal(comm_error(test.comm), sends ? -ETIMEDOUT : 0);
		pair_close(&test.pair);
	}
	warned_of("did not come back");
}

static void open_half_built(void)
{
	open_recv();
	to_recv(test.comm)->ready = false;
}

/* The sender may have been probed just before it could react, and has nothing to send that would show the break. */
static void test_a_half_built_one_asks_until_its_sender_comes_back(void **state)
{
	(void)state;
	test.network = ANSWERED;
	open_half_built();
	cut();
	for (int i = 0; i < 3; i++) {
		hear(ANYNET_KIND_PROBE);
		answer(ANYNET_STATUS_OK);
	}
	assert_false(is_over());
}

/* The failure would not be noticed: accept would wait for a connect that returned long ago. */
static void test_a_half_built_one_waits_as_long_as_its_sender_may_live(void **state)
{
	(void)state;
	test.network = UNREACHABLE;
	open_half_built();
	cut();
	pass(10 * RECOVERY_MS);
	assert_false(is_over());
	test.network = ANSWERED;
	hear(ANYNET_KIND_PROBE);
	answer(ANYNET_STATUS_OK);
	assert_false(is_over());
}

static void test_a_half_built_one_ends_with_its_sender(void **state)
{
	(void)state;
	open_half_built();
	cut();
	assert_int_equal(pass(2 * RECOVERY_MS), GONE_MS);
	assert_true(test.comm->peer_closed);
	pair_close(&test.pair);
	test.network = ANSWERED;
	open_half_built();
	cut();
	hear(ANYNET_KIND_PROBE);
	answer(ANYNET_STATUS_GONE);
	assert_true(test.comm->peer_closed);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Data that it had sent by a remaining stream waits for the message that was lost with another one. */
static void test_a_peer_that_is_gone_leaves_a_receiver_with_half_of_it(void **state)
{
	struct anynet_wire_frame second = frame_data(1, 0, 1, 5);
	struct anynet_request *req;

	(void)state;
	capture_allow_warn();
	pair_open_recv(&test.pair, 2);
	test.comm = test.pair.recv;
	know_paths(2);
	test.network = REFUSES;
	req = pair_irecv(&test.pair, pair_in, 8, 0);
	frame_put(test.pair.fds[1], &second, "after");
	for (int i = 0; i < 5; i++)
		comm_turn(test.comm);
	pair_hang_up(&test.pair, 0);
	pair_hang_up(&test.pair, 1);
	for (int i = 0; i < 5; i++)
		comm_turn(test.comm);
	assert_true(test.comm->streams[1]->path.parked);
	assert_true(pass(RECOVERY_MS) >= GONE_MS);
	pair_fails(req, -ECONNRESET);
}

/* It was sent before its sender was gone, and stays until NCCL posts the receive. */
static void test_received_data_is_kept_when_the_peer_is_gone(void **state)
{
	struct anynet_wire_frame frame = frame_data(0, 0, 1, 5);

	(void)state;
	for (int refused = 0; refused < 2; refused++) {
		struct anynet_request *req;
		int size;

		pair_open_recv(&test.pair, 2);
		test.comm = test.pair.recv;
		know_paths(2);
		test.network = refused ? REFUSES : ANSWERED;
		frame_put(test.pair.fds[1], &frame, "after");
		pair_hang_up(&test.pair, 0);
		for (int i = 0; i < 5; i++)
			comm_turn(test.comm);
		assert_true(test.comm->streams[1]->path.parked);
		comm_stream_change(test.comm, test.comm->streams[1], STREAM_SUSPECT, "no answer");
		if (refused) {
			pass(2 * GONE_MS);
		} else {
			hear(ANYNET_KIND_PROBE);
			answer(ANYNET_STATUS_GONE);
		}
		assert_false(is_over());
		req = pair_irecv(&test.pair, pair_in, 8, 0);
		recovery_stream(test.comm, test.comm->streams[0],
				false); /* attention is served before the streams */
		pair_finish(&req, 1, &size);
		assert_int_equal(size, 5);
		assert_memory_equal(pair_in, "after", 5);
		pair_close(&test.pair);
		hang_up();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_peer_that_nobody_listens_for_is_gone),
		TEST(test_a_refusal_on_one_path_is_not_the_end_while_another_is_silent),
		TEST(test_refusals_elsewhere_are_not_the_end),
		TEST(test_it_is_not_with_an_answer_in_between),
		TEST(test_it_is_not_with_a_stale_answer_in_between),
		TEST(test_a_stream_that_does_not_recover_fails_in_time),
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
		TEST(test_a_way_home_that_breaks_is_tried_ever_more_rarely),
		TEST(test_a_hello_that_is_out_is_waited_for),
		TEST(test_a_dial_ends_with_its_comm),
		TEST(test_a_dial_ends_with_its_stream),
		TEST(test_a_receiver_asks_whether_its_sender_lives),
		TEST(test_with_a_receive_it_waits_no_longer_than_the_sender),
		TEST(test_an_idle_one_waits_once_it_has_been_answered),
		TEST(test_a_closed_one_asks_until_its_sender_ends),
		TEST(test_an_idle_one_that_nobody_answers_gives_up_quietly),
		TEST(test_a_sender_without_sends_waits_for_accept),
		TEST(test_a_half_built_one_asks_until_its_sender_comes_back),
		TEST(test_a_half_built_one_waits_as_long_as_its_sender_may_live),
		TEST(test_a_half_built_one_ends_with_its_sender),
		TEST(test_a_peer_that_is_gone_leaves_a_receiver_with_half_of_it),
		TEST(test_received_data_is_kept_when_the_peer_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

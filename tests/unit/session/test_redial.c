/* SPDX-License-Identifier: Apache-2.0 */
/* Which new connections a sender makes for a stream that broke or whose path is suspect, as far as the check of the
 * comm decides it. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/capture.h"
#include "support/check.h"
#include "transports/base/socket.h"
#include "transports/session/recovery.h"
#include "transports/session/redial.h"
#include "unit/carrier.h"
#include "unit/signs.h"

enum {
	OWN, /* the stream's path */
	OTHER,
	PATHS
};

static int listeners[PATHS];
static uint64_t now;

static int setup(void **state)
{
	signs_setup(state);
	signs_open_send(1);
	resume_listen(&signs.pair, listeners, PATHS);
	/* Ahead of the clock, so that a busy machine does not let the time of a dial pass (60 ms); by less than the other
	 * time-outs. */
	signs.now = now = os_now_ms() + 20000;
	return 0;
}

static int teardown(void **state)
{
	for (int i = 0; i < PATHS; i++)
		close(listeners[i]);
	return signs_teardown(state);
}

/* Deferred work is due now, by the clock. */
static void step(void)
{
	recovery_step(signs.pair.send, anynet_max(now, os_now_ms()));
}

/* The first connection uses this path, and so far none the other. */
static void dialled_first(int path)
{
	struct pollfd fds[PATHS] = { [OWN] = { .fd = listeners[OWN], .events = POLLIN },
				     [OTHER] = { .fd = listeners[OTHER], .events = POLLIN } };

	step();
	assert_int_equal(poll(fds, PATHS, TEST_PATIENCE_MS), 1);
	assert_int_equal(fds[path].revents, POLLIN);
}

static void suspect(void)
{
	signs.streams[0] = signs_dead;
	signs_look_after(0);
	signs_look_after(400);
	assert_int_equal(signs.pair.send->streams[0]->state, STREAM_SUSPECT);
}

static void test_for_a_silent_path_others_are_tried_first(void **state)
{
	(void)state;
	suspect();
	dialled_first(OTHER);
}

/* No further turn: it would dial by the clock. */
static void break_stream(void)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the break");

	pair_hang_up(&signs.pair, 0);
	while (signs.pair.send->streams[0]->path.fd != -1) {
		comm_turn(signs.pair.send);
		deadline_turn(&deadline);
	}
}

static void test_for_a_stream_that_broke_its_own_path_is_tried_first(void **state)
{
	(void)state;
	break_stream();
	recovery_free(signs.pair.send); /* as if there had been no memory: the next check starts again */
	signs_look_after(0);
	dialled_first(OWN);
}

static void test_after_two_connections_in_vain_others_are_tried_first(void **state)
{
	(void)state;
	break_stream();
	recovery_free(signs.pair.send);
	signs.pair.send->streams[0]->progress.vain = 2;
	signs_look_after(0);
	dialled_first(OTHER);
}

/* It is not answered there before accept is called. */
static int fill_backlog(int listener)
{
	const struct sockaddr_in *local = (const struct sockaddr_in *)&local_dev.addr;
	struct sockaddr_in addr = *local;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	addr.sin_port = htons((uint16_t)socket_port(listener));
	assert_int_equal(listen(listener, 0), 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

/* Which connection is being made? Its descriptor is the lowest free one. 0 = none. */
static ino_t being_made(int fd)
{
	struct stat stat;

	return fstat(fd, &stat) ? 0 : stat.st_ino;
}

/* It may wait for a link that was down: its data is retransmitted only much later. */
static void test_what_is_being_made_begins_anew_with_a_link_event_only(void **state)
{
	int filler = fill_backlog(listeners[OTHER]), fd = dup(filler);
	struct anynet_comm *send = signs.pair.send;
	ino_t made;

	(void)state;
	close(fd);
	suspect();
	step();
	made = being_made(fd);
	assert_true(made);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 3; i++) {
			signs_look_after(100);
			step();
			assert_int_equal(being_made(fd), made);
		}
		atomic_store(&send->session->carrier_event, true);
		signs_look_after(100);
		assert_false(atomic_load(&send->session->carrier_event));
		assert_int_equal(being_made(fd), 0);
		step();
		made = being_made(fd);
		assert_true(made);
	}
	close(filler);
}

/* --- hellos on the new connections, and answers --- */

static struct anynet_wire_hello said;

/* The peer's end of the next connection over this path, and its hello. */
static int be_called(int path)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a hello");
	struct sockaddr_storage from;
	size_t got = 0;
	int fd = -1;

	while (fd < 0 || socket_recv_some(fd, &said, sizeof(said), &got)) {
		step();
		if (fd < 0)
			fd = socket_accept(listeners[path], &from);
		now += fd < 0; /* it may be waiting */
		deadline_turn(&deadline);
	}
	assert_int_equal(hello_check(&said, ANYNET_HELLO), 0);
	assert_int_equal(said.kind, ANYNET_KIND_RESUME);
	return fd;
}

static void answer_from(int fd, enum anynet_hello_status status, uint64_t frames)
{
	struct anynet_wire_hello welcome;
	size_t sent = 0;

	hello_fill(&welcome, &local_dev, NULL, 0);
	hello_answer(&welcome, &said);
	welcome.status = status;
	welcome.frames = frames;
	assert_int_equal(socket_send_some(fd, &welcome, sizeof(welcome), &sent), 0);
}

static void answer(int fd, enum anynet_hello_status status)
{
	answer_from(fd, status, 0);
}

static void test_each_try_has_a_newer_epoch(void **state)
{
	uint32_t epoch = signs.pair.send->streams[0]->epoch;

	(void)state;
	break_stream();
	for (int i = 0; i < 4; i++) {
		int fd = be_called(i % PATHS ? OTHER : OWN);

		assert_true(said.epoch > epoch);
		epoch = said.epoch;
		close(fd); /* without an answer */
	}
}

/* It may know a newer epoch from an earlier connection. */
static void test_an_epoch_that_was_too_old_is_left_far_behind(void **state)
{
	uint32_t epoch;
	int fd;

	(void)state;
	break_stream();
	fd = be_called(OWN);
	epoch = said.epoch;
	answer(fd, ANYNET_STATUS_STALE);
	close(fd);
	fd = be_called(OTHER);
	assert_true(said.epoch >= epoch + 10);
	close(fd);
}

/* The address may be another host's on that network, or this host's own, with another process of the plugin. */
static void test_another_process_does_not_end_it(void **state)
{
	int fd;

	(void)state;
	break_stream();
	close(be_called(OWN));
	fd = be_called(OTHER);
	answer(fd, ANYNET_STATUS_GONE);
	close(fd);
	fd = be_called(OWN);
	assert_int_equal(comm_error(signs.pair.send), 0);
	assert_false(signs.pair.send->peer_closed);
	close(fd);
}

static void test_a_receiver_that_has_closed_ends_it_at_once(void **state)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "an error");
	struct sockaddr_storage from;
	int fd;

	(void)state;
	capture_allow_warn();
	break_stream();
	fd = be_called(OWN);
	answer(fd, ANYNET_STATUS_GONE);
	while (!comm_error(signs.pair.send)) {
		/* No further attempt. */
		assert_int_equal(socket_accept(listeners[OWN], &from), -EAGAIN);
		assert_int_equal(socket_accept(listeners[OTHER], &from), -EAGAIN);
		now++;
		step();
		deadline_turn(&deadline);
	}
	assert_int_equal(comm_error(signs.pair.send), -ECONNRESET);
	close(fd);
}

static void test_a_path_that_answers_again_needs_no_other(void **state)
{
	int filler = fill_backlog(listeners[OTHER]), fd = dup(filler);

	(void)state;
	close(fd);
	suspect();
	step();
	assert_true(being_made(fd));
	signs.streams[0] = signs_healthy;
	signs_look_after(100);
	assert_false(signs_suspect(0));
	assert_int_equal(being_made(fd), 0);
	close(filler);
}

/* The receiver may have switched to the new connection, and closed the one that answers. */
static void test_after_a_resume_the_sender_waits_for_the_answer(void **state)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the stream's return");
	struct anynet_stream *stream = signs.pair.send->streams[0];
	char byte;
	int fd;

	(void)state;
	suspect();
	fd = be_called(OTHER);
	signs.streams[0] = signs_healthy;
	signs_look_after(100);
	assert_false(signs_suspect(0));
	assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	answer(fd, ANYNET_STATUS_OK);
	while (stream->epoch != said.epoch) {
		step();
		deadline_turn(&deadline);
	}
	assert_int_equal(stream->path.pair.to, OTHER);
	close(fd);
}

/* The comm fails, and its streams are freed: recovery must not use them. */
static void test_an_impossible_position_ends_the_comm(void **state)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the end");
	struct anynet_comm *comm = signs.pair.send;
	int fd;

	(void)state;
	capture_allow_warn();
	break_stream();
	fd = be_called(OWN);
	answer_from(fd, ANYNET_STATUS_OK, 99);
	while (!comm_error(comm)) {
		step();
		deadline_turn(&deadline);
	}
	assert_int_equal(comm_error(comm), -EPROTO);
	assert_null(comm->streams[0]);
	close(fd);
}

/* A standby that waits for its answer does not delay anything once the stream is silent: its path may be the dead
 * one. */
static void test_a_silent_stream_does_not_wait_for_its_way_home(void **state)
{
	struct anynet_stream *stream = signs.pair.send->streams[0];
	char byte;
	int fd;

	(void)state;
	stream->path.pair = (struct anynet_wire_pair){ OTHER, OTHER }; /* standby */
	stream->home = (struct anynet_wire_pair){ OWN, OWN };
	suspect();
	fd = be_called(OWN);
	signs.pair.send->session->recovery->redials[0].aim = REDIAL_HOME;
	suspect();
	assert_int_equal(recv(fd, &byte, 1, 0), 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_for_a_silent_path_others_are_tried_first),
		TEST(test_for_a_stream_that_broke_its_own_path_is_tried_first),
		TEST(test_after_two_connections_in_vain_others_are_tried_first),
		TEST(test_what_is_being_made_begins_anew_with_a_link_event_only),
		TEST(test_each_try_has_a_newer_epoch),
		TEST(test_an_epoch_that_was_too_old_is_left_far_behind),
		TEST(test_another_process_does_not_end_it),
		TEST(test_a_receiver_that_has_closed_ends_it_at_once),
		TEST(test_a_path_that_answers_again_needs_no_other),
		TEST(test_after_a_resume_the_sender_waits_for_the_answer),
		TEST(test_an_impossible_position_ends_the_comm),
		TEST(test_a_silent_stream_does_not_wait_for_its_way_home),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/session/broken_comm.h"

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/base/socket.h"
#include "transports/session/pairs.h"
#include "transports/session/recovery.h"

struct broken_comm test = { .now = 1000000 };

void hang_up(void)
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
	if (test.peer >= 0 && !silent) { /* the test answers one connection at a time */
		errno = EHOSTUNREACH;
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
	test.peer = ends[1];
	return 0;
}

int broken_setup(void **state)
{
	uint64_t now = test.now; /* the clock never goes back */

	pair_setup_recovery(state);
	local_cfg.recovery_timeout_ms = RECOVERY_MS;
	memset(&test, 0, sizeof(test));
	test.peer = -1;
	test.start = test.now = now;
	return 0;
}

int broken_teardown(void **state)
{
	(void)state;
	pair_close(&test.pair);
	hang_up();
	capture_check();
	return 0;
}

void know_paths(unsigned count)
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
		pairs_note(paths, test.comm->streams[i]->home);
	}
}

struct anynet_request *open_send_over(unsigned paths)
{
	pair_open_send(&test.pair, paths);
	test.comm = test.pair.send;
	know_paths(paths);
	return pair_isend(&test.pair, pair_out, sizeof(pair_out), 0);
}

struct anynet_request *open_send(void)
{
	return open_send_over(1);
}

void open_recv_over(unsigned paths)
{
	pair_open_recv(&test.pair, paths);
	test.comm = test.pair.recv;
	know_paths(paths);
}

void open_recv(void)
{
	open_recv_over(1);
}

void cut(void)
{
	for (unsigned i = 0; i < test.pair.streams; i++)
		pair_hang_up(&test.pair, i);
	for (int i = 0; i < 5; i++)
		comm_turn(test.comm);
	for (unsigned i = 0; i < test.pair.streams; i++)
		assert_int_equal(test.comm->streams[i]->path.fd, -1);
}

bool is_over(void)
{
	return comm_error(test.comm) || test.comm->peer_closed;
}

void step(void)
{
	if (!test.comm->is_send && !is_over() && !test.comm->session->recovery)
		recovery_stream(test.comm, test.comm->streams[0],
				false); /* as the background thread does */
	if (test.comm->session->recovery && !is_over())
		recovery_step(test.comm, os_now_ms());
}

uint64_t pass(uint64_t ms)
{
	uint64_t begin = test.now;

	for (step(); !is_over() && test.now - begin < ms; step())
		test.now += STEP_MS;
	return test.now - begin;
}

void hear(enum anynet_hello_kind kind)
{
	uint64_t begin = test.now;

	for (step(); test.peer < 0; step()) {
		assert_true(test.now - begin <= 2000);
		test.now += STEP_MS;
	}
	assert_int_equal(recv(test.peer, &test.hello, sizeof(test.hello), 0), sizeof(test.hello));
	assert_int_equal(test.hello.kind, kind);
}

void answer_with_reason(enum anynet_hello_status status, const char *reason)
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

void answer_with(enum anynet_hello_status status)
{
	answer_with_reason(status, "");
}

void answer(enum anynet_hello_status status)
{
	answer_with(status);
	hang_up();
}

void warned_of(const char *text)
{
	warned_once(text);
	capture_forget();
}

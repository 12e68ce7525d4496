/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which connections are accepted while a comm is set up (endpoint.c), and the effects of a lost WELCOME. The test is
 * the connector, hello by hello; send() of this program is the test's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include <nccl_net/log.h>

#include "support/capture.h"
#include "support/check.h"
#include "transports/base/socket.h"
#include "transports/session/connect.h"
#include "transports/session/listen_internal.h"
#include "transports/session/pairs.h"
#include "transports/session/registry.h"
#include "transports/wire/secret.h"
#include "unit/environment.h"
#include "unit/local_net.h"

#define COMM_ID  0x1234
#define LINES    8
#define NO_REPLY (-ENODATA) /* closed without an answer */

static struct {
	struct anynet_listener *listener;
	struct anynet_comm *comm; /* accepted */
	union {
		struct anynet_wire_handle wire;
		uint8_t bytes[ANYNET_HANDLE_BYTES];
	} handle;
	int fds[LINES]; /* the connector's ends */
	int lines;
	int lost;                        /* this many more WELCOMEs cannot be sent */
	bool told, changed_meanwhile; /* resume_meanwhile: it was called; the comm was not locked */
	struct anynet_wire_hello answer; /* the last */
} test;

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
	const struct anynet_wire_hello *hello = data;

	if (bytes == sizeof(*hello) && hello->type == ANYNET_WELCOME && test.lost) {
		test.lost--;
		errno = ECONNRESET;
		return -1;
	}
	return syscall(SYS_sendto, fd, data, bytes, flags, NULL, 0);
}

/* In place of registry.c: it is full, and there is no memory. */
static bool registry_is_full;

int __real_registry_add(struct anynet_comm *comm);
int __wrap_registry_add(struct anynet_comm *comm);

int __wrap_registry_add(struct anynet_comm *comm)
{
	return registry_is_full ? -ENOMEM : __real_registry_add(comm);
}

static int setup(void **state)
{
	(void)state;
	log_to_capture();
	local_net_start();
	secret_start("");
	memset(&test, 0, sizeof(test));
	assert_int_equal(anynet_listen(&local_dev, &local_dev, test.handle.bytes, &test.listener), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < test.lines; i++)
		close(test.fds[i]);
	anynet_close_listener(test.listener);
	anynet_close(test.comm);
	anynet_net_trim(&local_dev);
	return 0;
}

static struct anynet_wire_hello hello_of(enum anynet_hello_kind kind, unsigned stream,
					 uint32_t epoch)
{
	struct anynet_wire_hello hello;

	hello_fill(&hello, &local_dev, test.handle.wire.addrs, 1);
	hello.type = ANYNET_HELLO;
	hello.kind = (uint8_t)kind;
	hello.stream = (uint16_t)stream;
	hello.streams = 2;
	hello.epoch = epoch;
	hello.endpoint = test.handle.wire.endpoint;
	hello.comm_id = COMM_ID;
	memcpy(hello.token, test.handle.wire.token, sizeof(hello.token));
	return hello;
}

static void accept_once(void)
{
	if (!test.comm)
		assert_int_equal(anynet_accept(test.listener, &test.comm), 0);
	else
		listen_turn();
}

/* A new connection with this hello. Returns the status of the WELCOME, or NO_REPLY. */
static int say(struct anynet_wire_hello hello)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "an answer");
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(test.handle.wire.addrs[0].port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct anynet_wire_hello answer;
	ssize_t n;

	assert_true(fd >= 0 && test.lines < LINES);
	test.fds[test.lines++] = fd;
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
	while ((n = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT)) < 0 && errno == EAGAIN) {
		accept_once();
		deadline_turn(&deadline);
	}
	if (n <= 0)
		return NO_REPLY;
	assert_int_equal(n, sizeof(answer));
	assert_int_equal(hello_check(&answer, ANYNET_WELCOME), 0);
	assert_int_equal(answer.kind, hello.kind);
	test.answer = answer;
	return (int)answer.status;
}

static int say_comm(uint32_t epoch)
{
	return say(hello_of(ANYNET_KIND_COMM, 0, epoch));
}

static int say_stream(unsigned stream, uint32_t epoch)
{
	return say(hello_of(ANYNET_KIND_STREAM, stream, epoch));
}

/* The acceptor has not closed the connection of that call. */
static void stands(int line)
{
	char byte;

	accept_once();
	assert_int_equal(recv(test.fds[line], &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
}

static void is_closed(int line)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a connection to be closed");
	char byte;

	while (recv(test.fds[line], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN)
		deadline_turn(&deadline);
}

static void say_ready(int line, uint64_t standing)
{
	struct anynet_wire_frame ready = { .type = ANYNET_FRAME_READY, .size = 2, .offset = standing };
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a comm");

	assert_int_equal(send(test.fds[line], &ready, sizeof(ready), 0), sizeof(ready));
	while (!test.comm) {
		accept_once();
		deadline_turn(&deadline);
	}
}

/* All streams are established: now it is a comm. */
static void make_ready_with(int line, uint64_t standing)
{
	say_ready(line, standing);
	assert_int_equal(test.comm->session->paths.comm_id, COMM_ID);
	assert_int_equal(test.comm->session->paths.version, ANYNET_WIRE_VERSION);
	stands(line);
}

/* By a sender that does not send it. */
static void make_ready(int line)
{
	make_ready_with(line, 0);
}

/* --- */

static struct anynet_wire_hello of_one_stream(struct anynet_wire_hello hello)
{
	hello.streams = 1;
	return hello;
}

/* The connector does not know that it is connected: it tries again, and there is no comm meanwhile. */
static void test_without_its_welcome_there_is_no_comm(void **state)
{
	(void)state;
	test.lost = 2;
	for (uint32_t epoch = 0; epoch < 2; epoch++) {
		assert_int_equal(say(of_one_stream(hello_of(ANYNET_KIND_COMM, 0, epoch))),
				 NO_REPLY);
		accept_once();
		assert_null(test.comm);
	}
	assert_int_equal(say(of_one_stream(hello_of(ANYNET_KIND_COMM, 0, 2))), ANYNET_STATUS_OK);
	accept_once();
	assert_null(test.comm); /* of several connects in progress NCCL will use only one */
	make_ready(2);
	assert_int_equal(test.comm->streams[0]->epoch, 2);
}

/* Another communicator of this process is independent. */
static void test_a_half_built_comm_ends_with_its_own_communicator(void **state)
{
	static const int another;

	(void)state;
	assert_int_equal(say_comm(0), ANYNET_STATUS_OK);
	listen_drop_half_built(&another);
	stands(0);
	listen_drop_half_built(&local_dev); /* as passed to listen */
	is_closed(0);
}

/* A peer without the token learns nothing about this process. */
static void test_a_guess_learns_one_bit(void **state)
{
	static const enum anynet_hello_kind kinds[] = { ANYNET_KIND_PROBE, ANYNET_KIND_RESUME };
	static const struct anynet_wire_hello nothing;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct anynet_wire_hello hello = hello_of(kinds[i], 0, 0);

		hello.token[0] ^= 1;
		assert_int_equal(say(hello), ANYNET_STATUS_GONE);
		assert_int_equal(test.answer.pid, 0);
		assert_int_equal(test.answer.nccl_version, 0);
		assert_int_equal(test.answer.plugin_version, 0);
		assert_int_equal(test.answer.speed_mbps, 0);
		assert_memory_equal(test.answer.host, nothing.host, sizeof(nothing.host));
		assert_memory_equal(test.answer.device, nothing.device, sizeof(nothing.device));
		assert_memory_equal(test.answer.addrs, nothing.addrs, sizeof(nothing.addrs));
	}
}

static void test_another_comm_may_come_after_a_lost_welcome(void **state)
{
	struct anynet_wire_hello other = of_one_stream(hello_of(ANYNET_KIND_COMM, 0, 0));

	(void)state;
	test.lost = 1;
	assert_int_equal(say(other), NO_REPLY);
	other.comm_id++;
	assert_int_equal(say(other), ANYNET_STATUS_OK);
}

/* The connector continues without that stream, and its comm is established. */
static void test_without_its_welcome_a_stream_alone_is_given_up(void **state)
{
	(void)state;
	assert_int_equal(say_comm(0), ANYNET_STATUS_OK);
	test.lost = 1;
	assert_int_equal(say_stream(1, 0), NO_REPLY);
	stands(0);
	make_ready_with(0, 1);
	assert_null(test.comm->streams[1]);
	assert_int_equal(test.comm->streams[0]->state, STREAM_UP);
}

static void test_a_hello_heard_before_changes_nothing(void **state)
{
	(void)state;
	assert_int_equal(say_comm(3), ANYNET_STATUS_OK);
	assert_int_equal(say_comm(3), NO_REPLY);
	assert_int_equal(say_comm(2), NO_REPLY);
	stands(0);
	assert_int_equal(say_stream(1, 0), ANYNET_STATUS_OK);
	make_ready(0);
	assert_int_equal(say_comm(3), NO_REPLY);
	assert_int_equal(say_comm(4), NO_REPLY); /* it is established */
	stands(0);
}

static void test_a_later_try_takes_the_place_of_the_first(void **state)
{
	(void)state;
	assert_int_equal(say_comm(0), ANYNET_STATUS_OK);
	assert_int_equal(say_comm(1), ANYNET_STATUS_OK);
	is_closed(0);
	stands(1);
	assert_int_equal(say_stream(1, 0), ANYNET_STATUS_OK);
	make_ready(1);
	for (int i = 0; i < 2; i++)
		assert_true(pairs_equal(test.comm->streams[i]->home, (struct anynet_wire_pair){ 0, 0 }));
}

static void test_another_comm_has_no_place_beside_the_first(void **state)
{
	struct anynet_wire_hello other = hello_of(ANYNET_KIND_COMM, 0, 9);
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the first one's end");

	(void)state;
	other.comm_id++;
	assert_int_equal(say_comm(0), ANYNET_STATUS_OK);
	assert_int_equal(say(other), NO_REPLY);
	stands(0);
	/* … unless that is gone. */
	shutdown(test.fds[0], SHUT_RDWR);
	while (test.listener->comm) {
		accept_once();
		deadline_turn(&deadline);
	}
	assert_int_equal(say(other), ANYNET_STATUS_OK);
}

static void test_only_streams_of_the_plan_join_once_and_in_time(void **state)
{
	struct anynet_wire_hello other = hello_of(ANYNET_KIND_STREAM, 1, 0);

	(void)state;
	other.comm_id++;
	assert_int_equal(say_stream(1, 0), NO_REPLY); /* of an unknown comm */
	assert_int_equal(say_comm(0), ANYNET_STATUS_OK);
	assert_int_equal(say(other), NO_REPLY);
	assert_int_equal(say_stream(2, 0), ANYNET_STATUS_STALE);
	assert_int_equal(say_stream(0, 0), ANYNET_STATUS_STALE);
	assert_int_equal(say_stream(1, 1), ANYNET_STATUS_STALE);
	make_ready(1); /* it continues without stream 1 */
	assert_int_equal(say_stream(1, 0), ANYNET_STATUS_STALE);
	assert_null(test.comm->streams[1]);
}

/* While the log line of accept is written, the sender resumes stream 0, whose path is part of that line. */
__attribute__((format(printf, 5, 6)))
static void resume_meanwhile(int level, unsigned long flags, const char *file, int line,
			     const char *fmt, ...)
{
	uint64_t until = os_now_ms() + 50;
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(test.handle.wire.addrs[0].port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct anynet_wire_hello hello = hello_of(ANYNET_KIND_RESUME, 0, 1);
	char text[CAPTURE_LINE_BYTES], byte;
	va_list args;
	int fd;

	(void)level, (void)flags, (void)file, (void)line;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (!strstr(text, "receive from peer") || test.told)
		return;
	test.told = true;
	test.fds[test.lines++] = fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
	while (os_now_ms() < until)
		listen_turn(); /* as in another thread */
	test.changed_meanwhile = recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) > 0;
}

static void test_a_comm_that_is_told_of_does_not_change(void **state)
{
	(void)state;
	assert_int_equal(say(of_one_stream(hello_of(ANYNET_KIND_COMM, 0, 0))), ANYNET_STATUS_OK);
	anynet_log_start(resume_meanwhile, ANYNET_LOG_INFO);
	say_ready(0, 0);
	log_to_capture();
	assert_true(test.told);
	assert_false(test.changed_meanwhile);
}

static void test_streams_that_the_sender_does_without_are_closed(void **state)
{
	(void)state;
	assert_int_equal(say_comm(0), ANYNET_STATUS_OK);
	assert_int_equal(say_stream(1, 0), ANYNET_STATUS_OK);
	make_ready_with(0, 1); /* the answer came too late */
	is_closed(1);
	assert_null(test.comm->streams[1]);
	assert_int_equal(test.comm->streams[0]->state, STREAM_UP);
}

static void test_streams_that_stand_at_the_sender_stand(void **state)
{
	(void)state;
	assert_int_equal(say_comm(0), ANYNET_STATUS_OK);
	assert_int_equal(say_stream(1, 0), ANYNET_STATUS_OK);
	make_ready_with(0, 3);
	assert_int_equal(test.comm->streams[1]->state, STREAM_UP);
}

static void test_a_stream_does_not_join_twice(void **state)
{
	(void)state;
	assert_int_equal(say_comm(0), ANYNET_STATUS_OK);
	assert_int_equal(say_stream(1, 0), ANYNET_STATUS_OK);
	assert_int_equal(say_stream(1, 0), ANYNET_STATUS_STALE);
	stands(1);
}

/* --- a receiver probes its sender --- */

static void test_a_probe_finds_a_comm_by_number_and_token(void **state)
{
	struct anynet_wire_hello probe = hello_of(ANYNET_KIND_PROBE, 0, 1), other = probe;
	struct anynet_comm *send = send_comm_create(&local_dev, 1);

	(void)state;
	assert_non_null(send);
	send->session->paths.comm_id = COMM_ID;
	memset(send->session->paths.token, 0x5a, sizeof(send->session->paths.token));
	memcpy(probe.token, send->session->paths.token, sizeof(probe.token));
	assert_int_equal(say(probe), ANYNET_STATUS_GONE);
	comm_enter(send); /* the background thread does not interfere */
	assert_int_equal(registry_add(send), 0);
	assert_int_equal(say(other), ANYNET_STATUS_GONE); /* with another token */
	other = probe;
	other.comm_id++;
	assert_int_equal(say(other), ANYNET_STATUS_GONE);
	assert_false(send->session->probed);
	assert_int_equal(say(probe), ANYNET_STATUS_OK);
	assert_true(send->session->probed && send->attention); /* it checks its streams */
	send->peer_closed = true; /* lost while it was idle */
	assert_int_equal(say(probe), ANYNET_STATUS_GONE);
	send->peer_closed = false;
	send->error = -ETIMEDOUT;
	assert_int_equal(say(probe), ANYNET_STATUS_GONE);
	registry_remove(send);
	send_comm_destroy(send);
}

/* Between connect and NCCL's first call for the comm. */
static void test_a_probe_finds_what_connect_has_just_returned(void **state)
{
	struct anynet_wire_hello probe = hello_of(ANYNET_KIND_PROBE, 0, 1);
	struct anynet_connect_options opts = { .traffic_class = -1, .owner = &local_dev };
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a connection");
	struct anynet_wire_handle handle = test.handle.wire;
	struct anynet_comm *comm = NULL;

	(void)state;
	while (!comm) {
		assert_int_equal(connect_step(&local_dev, &opts, &handle, &comm), 0);
		accept_once();
		deadline_turn(&deadline);
	}
	probe.comm_id = comm->session->paths.comm_id;
	assert_int_equal(say(probe), ANYNET_STATUS_OK);
	anynet_close(comm);
}

/* --- READY is lost --- */

/* A sender with this number and token lives: the state after connect, when it may have nothing to send. */
static struct anynet_comm *add_sender(void)
{
	struct anynet_comm *send = send_comm_create(&local_dev, 1);

	assert_non_null(send);
	send->session->paths.comm_id = COMM_ID;
	memcpy(send->session->paths.token, test.handle.wire.token,
	       sizeof(send->session->paths.token));
	comm_enter(send); /* the background thread does not interfere */
	assert_int_equal(registry_add(send), 0);
	return send;
}

static void wait_for_a_probe(struct anynet_comm *send)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a probe");

	atomic_store(&send->session->probed, false);
	while (!atomic_load(&send->session->probed)) {
		accept_once();
		deadline_turn(&deadline);
	}
}

/* Its sender has the comm, and resumes the path like any other. */
static void test_a_half_built_comm_lets_its_sender_resume(void **state)
{
	struct anynet_comm *send;

	(void)state;
	local_cfg.recovery_timeout_ms = 60000;
	assert_int_equal(say_comm(0), ANYNET_STATUS_OK);
	send = add_sender();
	shutdown(test.fds[0], SHUT_RDWR);
	wait_for_a_probe(send);
	wait_for_a_probe(send); /* the first one may have arrived before it could be used */
	assert_non_null(test.listener->comm);
	assert_int_equal(say(hello_of(ANYNET_KIND_RESUME, 0, 1)), ANYNET_STATUS_OK);
	assert_int_equal(test.answer.frames, 0);
	make_ready(1);
	assert_int_equal(test.comm->streams[0]->epoch, 1);
	registry_remove(send);
	send_comm_destroy(send);
}

/* It has broken, and the sender continues without it. */
static void test_a_stream_that_broke_before_ready_and_is_given_up_is_not_missed(void **state)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the end of a path");

	(void)state;
	local_cfg.recovery_timeout_ms = 60000;
	assert_int_equal(say_comm(0), ANYNET_STATUS_OK);
	assert_int_equal(say_stream(1, 0), ANYNET_STATUS_OK);
	shutdown(test.fds[1], SHUT_RDWR);
	while (!test.listener->comm->down) {
		accept_once();
		deadline_turn(&deadline);
	}
	make_ready_with(0, 1);
	assert_null(test.comm->streams[1]);
	assert_int_equal(test.comm->down, 0);
}

/* --- options that either side sets for both --- */

static void test_the_connector_may_want_checksums(void **state)
{
	struct anynet_wire_hello hello = of_one_stream(hello_of(ANYNET_KIND_COMM, 0, 0));

	(void)state;
	hello.features |= ANYNET_FEATURE_CHECKSUM;
	assert_int_equal(say(hello), ANYNET_STATUS_OK);
	assert_true(test.listener->comm->checksum);
}

/* The test as acceptor, with its own listening socket. It may be probed before it is established. */
static void test_the_acceptor_may_want_checksums(void **state)
{
	struct anynet_wire_hello probe = hello_of(ANYNET_KIND_PROBE, 0, 1);
	struct anynet_connect_options opts = { .traffic_class = -1, .owner = &local_dev };
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a connection");
	int listener = socket_listen(&local_dev.addr, &local_cfg), fd = -1;
	struct anynet_wire_handle handle = test.handle.wire;
	struct sockaddr_storage from;
	struct anynet_wire_hello hello, welcome;
	struct anynet_comm *comm = NULL;
	size_t got = 0;

	(void)state;
	handle.addrs[0].port = (uint16_t)socket_port(listener);
	while (fd < 0 || socket_recv_some(fd, &hello, sizeof(hello), &got)) {
		assert_int_equal(anynet_connect(&local_dev, &opts, &handle, &comm), 0);
		fd = fd < 0 ? socket_accept(listener, &from) : fd;
		deadline_turn(&deadline);
	}
	assert_int_equal(say(probe), ANYNET_STATUS_GONE);
	probe.comm_id = hello.comm_id;
	assert_int_equal(say(probe), ANYNET_STATUS_OK);
	hello_fill(&welcome, &local_dev, handle.addrs, 1);
	hello_answer(&welcome, &hello);
	welcome.streams = 1;
	welcome.features |= ANYNET_FEATURE_CHECKSUM;
	assert_int_equal(send(fd, &welcome, sizeof(welcome), 0), sizeof(welcome));
	while (!comm) {
		assert_int_equal(anynet_connect(&local_dev, &opts, &handle, &comm), 0);
		deadline_turn(&deadline);
	}
	assert_true(comm->checksum);
	close(fd);
	close(listener);
	anynet_close(comm);
}

/* Nobody but its caller would know of such a comm. */
static void test_a_comm_that_cannot_be_registered_is_none(void **state)
{
	struct anynet_wire_frame ready = { .type = ANYNET_FRAME_READY, .size = 1 };
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "an error");
	int ret;

	(void)state;
	assert_int_equal(say(of_one_stream(hello_of(ANYNET_KIND_COMM, 0, 0))), ANYNET_STATUS_OK);
	assert_int_equal(send(test.fds[0], &ready, sizeof(ready), 0), sizeof(ready));
	capture_allow_warn();
	registry_is_full = true;
	do {
		ret = anynet_accept(test.listener, &test.comm);
		deadline_turn(&deadline);
	} while (!ret && !test.comm);
	registry_is_full = false;
	assert_int_equal(ret, -ENOMEM);
	assert_null(test.comm);
	is_closed(0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_without_its_welcome_there_is_no_comm),
		TEST(test_a_half_built_comm_ends_with_its_own_communicator),
		TEST(test_a_guess_learns_one_bit),
		TEST(test_another_comm_may_come_after_a_lost_welcome),
		TEST(test_without_its_welcome_a_stream_alone_is_given_up),
		TEST(test_a_hello_heard_before_changes_nothing),
		TEST(test_a_later_try_takes_the_place_of_the_first),
		TEST(test_another_comm_has_no_place_beside_the_first),
		TEST(test_only_streams_of_the_plan_join_once_and_in_time),
		TEST(test_a_comm_that_is_told_of_does_not_change),
		TEST(test_streams_that_the_sender_does_without_are_closed),
		TEST(test_streams_that_stand_at_the_sender_stand),
		TEST(test_a_stream_does_not_join_twice),
		TEST(test_a_probe_finds_a_comm_by_number_and_token),
		TEST(test_a_probe_finds_what_connect_has_just_returned),
		TEST(test_a_half_built_comm_lets_its_sender_resume),
		TEST(test_a_stream_that_broke_before_ready_and_is_given_up_is_not_missed),
		TEST(test_the_connector_may_want_checksums),
		TEST(test_the_acceptor_may_want_checksums),
		TEST(test_a_comm_that_cannot_be_registered_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* READY, which makes a comm of the accepted connections, and the probes of a receiver before and after it. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include <nccl_net/log.h>

#include "support/capture.h"
#include "support/check.h"
#include "transports/session/connect.h"
#include "transports/session/registry.h"
#include "unit/environment.h"
#include "unit/session/connector.h"

/* In place of registry.c: it is full, and there is no memory. */
static bool registry_is_full;

int __real_registry_add(struct anynet_comm *comm);
int __wrap_registry_add(struct anynet_comm *comm);

int __wrap_registry_add(struct anynet_comm *comm)
{
	return registry_is_full ? -ENOMEM : __real_registry_add(comm);
}

/* --- READY --- */

static bool told, changed_meanwhile; /* resume_meanwhile: it was called; the comm was not locked */

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
	if (!strstr(text, "receive from peer") || told)
		return;
	told = true;
	test.fds[test.lines++] = fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
	while (os_now_ms() < until)
		listen_turn(); /* as in another thread */
	changed_meanwhile = recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) > 0;
}

static void test_a_comm_that_is_told_of_does_not_change(void **state)
{
	(void)state;
	assert_int_equal(say(of_one_stream(hello_of(ANYNET_KIND_COMM, 0, 0))), ANYNET_STATUS_OK);
	anynet_log_start(resume_meanwhile, ANYNET_LOG_INFO);
	say_ready(0, 0);
	log_to_capture();
	assert_true(told);
	assert_false(changed_meanwhile);
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
	assert_int_equal(
		capture_count(CAPTURE_WARN,
			      "accept on dev lo: Cannot allocate memory; NCCL gets an error"),
		1);
	assert_null(test.comm);
	is_closed(0);
}

/* --- a receiver probes its sender --- */

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
	comm_destroy(send);
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
	comm_destroy(send);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, connector_setup, connector_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_guess_learns_one_bit),
		TEST(test_a_comm_that_is_told_of_does_not_change),
		TEST(test_streams_that_the_sender_does_without_are_closed),
		TEST(test_streams_that_stand_at_the_sender_stand),
		TEST(test_a_probe_finds_a_comm_by_number_and_token),
		TEST(test_a_probe_finds_what_connect_has_just_returned),
		TEST(test_a_half_built_comm_lets_its_sender_resume),
		TEST(test_a_stream_that_broke_before_ready_and_is_given_up_is_not_missed),
		TEST(test_a_comm_that_cannot_be_registered_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

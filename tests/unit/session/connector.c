/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/session/connector.h"

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

#include "support/check.h"
#include "transports/base/socket.h"
#include "transports/wire/secret.h"
#include "unit/environment.h"

struct connector test;

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

int connector_setup(void **state)
{
	(void)state;
	log_to_capture();
	local_net_start();
	secret_start("");
	memset(&test, 0, sizeof(test));
	assert_int_equal(anynet_listen(&local_dev, &local_dev, test.handle.bytes, &test.listener), 0);
	return 0;
}

int connector_teardown(void **state)
{
	(void)state;
	for (int i = 0; i < test.lines; i++)
		close(test.fds[i]);
	anynet_close_listener(test.listener);
	anynet_close(test.comm);
	anynet_net_trim(&local_dev);
	return 0;
}

struct anynet_wire_hello hello_of(enum anynet_hello_kind kind, unsigned stream, uint32_t epoch)
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

struct anynet_wire_hello of_one_stream(struct anynet_wire_hello hello)
{
	hello.streams = 1;
	return hello;
}

void accept_once(void)
{
	if (!test.comm)
		assert_int_equal(anynet_accept(test.listener, &test.comm), 0);
	else
		listen_turn();
}

int say(struct anynet_wire_hello hello)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "an answer");
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage from, to;
	struct anynet_wire_hello answer;
	ssize_t n;

	assert_true(fd >= 0 && test.lines < LINES);
	test.fds[test.lines++] = fd;
	assert_true(socket_from_wire(&test.handle.wire.addrs[test.nic], 0, &to));
	from = to;
	((struct sockaddr_in *)&from)->sin_port = 0;
	assert_int_equal(bind(fd, (struct sockaddr *)&from, (socklen_t)socket_addr_bytes(&from)),
			 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, (socklen_t)socket_addr_bytes(&to)), 0);
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

int say_comm(uint32_t epoch)
{
	return say(hello_of(ANYNET_KIND_COMM, 0, epoch));
}

int say_stream(unsigned stream, uint32_t epoch)
{
	return say(hello_of(ANYNET_KIND_STREAM, stream, epoch));
}

void stands(int line)
{
	char byte;

	accept_once();
	assert_int_equal(recv(test.fds[line], &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
}

void is_closed(int line)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a connection to be closed");
	char byte;

	while (recv(test.fds[line], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN)
		deadline_turn(&deadline);
}

void say_ready(int line, uint64_t standing)
{
	struct anynet_wire_frame ready = { .type = ANYNET_FRAME_READY, .size = 2, .offset = standing };
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a comm");

	assert_int_equal(send(test.fds[line], &ready, sizeof(ready), 0), sizeof(ready));
	while (!test.comm) {
		accept_once();
		deadline_turn(&deadline);
	}
}

void make_ready_with(int line, uint64_t standing)
{
	say_ready(line, standing);
	assert_int_equal(test.comm->session->paths.comm_id, COMM_ID);
	assert_int_equal(test.comm->session->paths.version, ANYNET_WIRE_VERSION);
	stands(line);
}

void make_ready(int line)
{
	make_ready_with(line, 0);
}

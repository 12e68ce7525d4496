/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/session/door.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/capture.h"
#include "support/check.h"
#include "transports/base/socket.h"
#include "unit/environment.h"

int door_start(void **state)
{
	(void)state;
	log_to_capture();
	capture_allow_warn();
	local_net_start();
	return 0;
}

int door_teardown(void **state)
{
	(void)state;
	anynet_net_trim(&local_dev);
	return 0;
}

void open_door(struct door *door, uint8_t token_byte)
{
	uint8_t token[ANYNET_TOKEN_BYTES];
	struct anynet_wire_addr addr;

	memset(token, token_byte, sizeof(token));
	door->from = &local_dev;
	door->fd = socket_listen(&local_dev.addr, &local_cfg);
	assert_true(door->fd >= 0);
	assert_true(socket_to_wire(&local_dev.addr, (uint16_t)socket_port(door->fd), 0, &addr));
	handle_fill(&door->handle.wire, 1, token, &addr, 1);
}

void shut_door(struct door *door)
{
	struct sockaddr_storage addr;
	socklen_t bytes = sizeof(addr);

	assert_int_equal(getsockname(door->fd, (struct sockaddr *)&addr, &bytes), 0);
	close(door->fd);
	door->fd = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(door->fd, (struct sockaddr *)&addr, bytes), 0);
}

int call_connect(struct door *door, struct anynet_comm **comm)
{
	struct anynet_connect_options opts = { .traffic_class = -1, .owner = &local_dev };

	return anynet_connect(door->from, &opts, door->handle.bytes, comm);
}

int let_in(struct door *door, struct anynet_wire_hello *hello)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a hello");
	struct sockaddr_storage from;
	struct anynet_comm *comm;
	size_t got = 0;
	int fd = -1;

	while (fd < 0 || socket_recv_some(fd, hello, sizeof(*hello), &got)) {
		assert_int_equal(call_connect(door, &comm), 0);
		assert_null(comm);
		if (fd < 0)
			fd = socket_accept(door->fd, &from);
		deadline_turn(&deadline);
	}
	assert_int_equal(hello_check(hello, ANYNET_HELLO), 0);
	return fd;
}

void answer_streams(int fd, const struct anynet_wire_hello *hello, uint16_t streams,
		    const struct anynet_wire_addr *addr, enum anynet_hello_status status)
{
	struct anynet_wire_hello welcome;
	size_t sent = 0;

	hello_fill(&welcome, &local_dev, addr, 1);
	hello_answer(&welcome, hello);
	welcome.streams = streams;
	welcome.status = status;
	if (status == ANYNET_STATUS_BUSY)
		strcpy(welcome.reason, "out of memory");
	assert_int_equal(socket_send_some(fd, &welcome, sizeof(welcome), &sent), 0);
}

void answer(int fd, const struct anynet_wire_hello *hello, enum anynet_hello_status status)
{
	answer_streams(fd, hello, 1, hello->addrs, status);
}

void be_connected(struct door *door, struct anynet_comm **comm)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a comm");

	do {
		assert_int_equal(call_connect(door, comm), 0);
		deadline_turn(&deadline);
	} while (!*comm);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Connects, step by step, to a listening socket of the test, which answers as it wants, or not at all. */
#ifndef TESTS_UNIT_SESSION_DOOR_H
#define TESTS_UNIT_SESSION_DOOR_H

#include "transports/session/listen.h"
#include "transports/wire/hello.h"
#include "unit/local_net.h"

/* Somebody's listening socket, and a handle that leads there. */
struct door {
	int fd;
	const struct anynet_device *from; /* that connects; after open_door: local_dev */
	union {
		struct anynet_wire_handle wire;
		uint8_t bytes[ANYNET_HANDLE_BYTES];
	} handle;
};

/* For cmocka: setup of the group, and teardown of a test. */
int door_start(void **state);
int door_teardown(void **state);

void open_door(struct door *door, uint8_t token_byte);

/* From now on there is no listener. The port stays taken, so that no other test's listener gets the connects. */
void shut_door(struct door *door);

/* Once, as NCCL does until there is a comm. */
int call_connect(struct door *door, struct anynet_comm **comm);

/* The next connection to the listener, and its hello; the connect continues meanwhile. */
int let_in(struct door *door, struct anynet_wire_hello *hello);

void answer_streams(int fd, const struct anynet_wire_hello *hello, uint16_t streams,
		    const struct anynet_wire_addr *addr, enum anynet_hello_status status);

/* One stream, over the connection of the hello. */
void answer(int fd, const struct anynet_wire_hello *hello, enum anynet_hello_status status);

void be_connected(struct door *door, struct anynet_comm **comm);

#endif

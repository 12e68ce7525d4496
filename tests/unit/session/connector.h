/* SPDX-License-Identifier: Apache-2.0 */
/* A listener of the product, and the test as the connector, hello by hello. send() of the program is the test's: a WELCOME
 * can be lost. */
#ifndef TESTS_UNIT_SESSION_CONNECTOR_H
#define TESTS_UNIT_SESSION_CONNECTOR_H

#include "transports/session/listen_internal.h"
#include "unit/local_net.h"

#define COMM_ID  0x1234
#define LINES    8
#define NO_REPLY (-ENODATA) /* closed without an answer */

struct connector {
	struct anynet_listener *listener;
	struct anynet_comm *comm; /* accepted */
	union {
		struct anynet_wire_handle wire;
		uint8_t bytes[ANYNET_HANDLE_BYTES];
	} handle;
	int fds[LINES]; /* the connector's ends */
	int lines;
	int nic; /* of the handle: connections join it and the connector's NIC of the same address */
	int lost;       /* this many more WELCOMEs cannot be sent */
	struct anynet_wire_hello answer; /* the last */
};

extern struct connector test;

/* for cmocka */
int connector_setup(void **state);
int connector_teardown(void **state);

/* Of a comm of two streams with the number COMM_ID. */
struct anynet_wire_hello hello_of(enum anynet_hello_kind kind, unsigned stream, uint32_t epoch);
struct anynet_wire_hello of_one_stream(struct anynet_wire_hello hello);

void accept_once(void);

/* A new connection with this hello. Returns the status of the WELCOME, or NO_REPLY. */
int say(struct anynet_wire_hello hello);
int say_comm(uint32_t epoch);
int say_stream(unsigned stream, uint32_t epoch);

/* The acceptor has not closed the connection of that call; or it does. */
void stands(int line);
void is_closed(int line);

/* All streams are established: now it is a comm. `standing`: those that stand at the sender, or 0 by a sender that does not
 * send it. */
void say_ready(int line, uint64_t standing);

/* The same, and checks the comm. */
void make_ready_with(int line, uint64_t standing);
void make_ready(int line);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* An established comm, the recorded messages of its set-up, and an attacker who knows those. */
#ifndef TESTS_SUPPORT_OVERHEARD_H
#define TESTS_SUPPORT_OVERHEARD_H

#include "relay.h"

#define OVERHEARD_BYTES 1000000 /* bytes of a message that shows that a comm works */

struct overheard {
	struct link link, other; /* the listener of `other` keeps the port in use */
	struct relay *relay;
	struct relay_record records[RELAY_CONNECTIONS_MAX];
	size_t count;
	struct target target; /* address on which `link` listened */
};

/* On an open net. WARNs are allowed from then on. */
void overheard_open(struct test_net *net, struct overheard *comm);

/* Checks that the comm still works. */
void overheard_check(struct test_net *net, struct overheard *comm);

/* … and closes it. */
void overheard_close(struct test_net *net, struct overheard *comm);

/* Sends this. False: the connection is closed without an answer. */
bool overheard_ask(struct test_net *net, struct overheard *comm, int fd,
		   const struct anynet_wire_hello *message, struct anynet_wire_hello *answer);

#endif

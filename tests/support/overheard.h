/* SPDX-License-Identifier: Apache-2.0 */
/* A standing comm, what was said when it was set up, and somebody who has heard that and tries what he
 * can do with it. */
#ifndef TESTS_SUPPORT_OVERHEARD_H
#define TESTS_SUPPORT_OVERHEARD_H

#include "relay.h"

#define OVERHEARD_BYTES 1000000 /* of a message that shows that a comm is well */

struct overheard {
	struct link link, other; /* the listener of `other` keeps the port in use */
	struct relay *relay;
	struct relay_record records[RELAY_CONNECTIONS_MAX];
	size_t count;
	struct target target; /* where `link` was listening */
};

/* On an open net. WARNs are allowed from then on. */
void overheard_open(struct test_net *net, struct overheard *comm);

/* It has come to no harm. */
void overheard_check(struct test_net *net, struct overheard *comm);

/* … and ends. */
void overheard_close(struct test_net *net, struct overheard *comm);

/* He says this and is heard. False: he is shut out without an answer. */
bool overheard_ask(struct test_net *net, struct overheard *comm, int fd,
		   const struct anynet_wire_hello *message, struct anynet_wire_hello *answer);

#endif

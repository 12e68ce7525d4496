/* SPDX-License-Identifier: Apache-2.0 */
/* An eavesdropper between connector and listener: a thread that passes on what both say and keeps the
 * beginning of it. */
#ifndef TESTS_SUPPORT_RELAY_H
#define TESTS_SUPPORT_RELAY_H

#include "unauth.h"

#define RELAY_CONNECTIONS_MAX 16
#define RELAY_HELLOS_MAX      2 /* kept of each direction: a hello and a response, or their answers */

/* What one connection has begun with; complete messages only count. */
struct relay_record {
	struct anynet_wire_hello said[RELAY_HELLOS_MAX], heard[RELAY_HELLOS_MAX];
	size_t said_count, heard_count;
};

struct relay;

/* Make the copy of link's handle that connect will use lead through a new relay. */
struct relay *relay_start(struct link *link);

/* Connections so far, each with all that it is going to have: call it when the comm stands. */
size_t relay_records(struct relay *relay, struct relay_record records[RELAY_CONNECTIONS_MAX]);

/* Ends all that go through it. */
void relay_stop(struct relay *relay);

#endif

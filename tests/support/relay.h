/* SPDX-License-Identifier: Apache-2.0 */
/* An eavesdropper between connector and listener: a thread that forwards both directions and keeps the beginning of
 * each. */
#ifndef TESTS_SUPPORT_RELAY_H
#define TESTS_SUPPORT_RELAY_H

#include "unauth.h"

#define RELAY_CONNECTIONS_MAX 16
#define RELAY_HELLOS_MAX      2 /* kept of each direction: a hello and a response, or their answers */

/* The first messages of a connection; only complete ones count. */
struct relay_record {
	struct anynet_wire_hello said[RELAY_HELLOS_MAX], heard[RELAY_HELLOS_MAX];
	size_t said_count, heard_count;
};

struct relay;

/* Redirects link's copy of the handle, which connect will use, to a new relay. */
struct relay *relay_start(struct link *link);

/* Number of connections so far, each recorded completely: call it when the comm is established. */
size_t relay_records(struct relay *relay, struct relay_record records[RELAY_CONNECTIONS_MAX]);

/* Closes all connections through it. */
void relay_stop(struct relay *relay);

#endif

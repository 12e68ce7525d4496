/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of a client to the server, checked. Values outside these limits reach no other code. */
#ifndef PAIR_REQUEST_H
#define PAIR_REQUEST_H

#include <jansson.h>

#include "dial.h"
#include "traffic.h"

enum request_op {
	REQUEST_FACTS,    /* exchange facts; the client's are in "facts" */
	REQUEST_CLOCK,    /* read the clock twice */
	REQUEST_LISTEN,   /* open data ports */
	REQUEST_UNLISTEN, /* close them */
	REQUEST_DIAL, /* connect to a data port of the client: request.dial; address "" = the one it
		       * connects from */
	REQUEST_PLUGIN, /* measure through the plugin: request.traffic */
	REQUEST_BYE
};

struct request {
	enum request_op op;
	struct dial dial; /* if the address is "", dial.to has family 0 and the port is in dial_port */
	int dial_port;
	struct traffic traffic; /* transport is a string constant; the server sets plugin */
};

/* Returns 0, or -1 if the message is not a valid request. */
int request_parse(const json_t *message, struct request *out);

#endif

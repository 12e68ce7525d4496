/* SPDX-License-Identifier: Apache-2.0 */
/* What a client may ask of the server, checked. Nothing outside these bounds reaches any other code. */
#ifndef PAIR_REQUEST_H
#define PAIR_REQUEST_H

#include <jansson.h>

#include "dial.h"
#include "traffic.h"

enum request_op {
	REQUEST_FACTS,    /* the client's own facts in "facts" */
	REQUEST_CLOCK,    /* the time, twice */
	REQUEST_LISTEN,   /* open data ports */
	REQUEST_UNLISTEN, /* close them */
	REQUEST_DIAL, /* dial one of the client's: request.dial, address "" = where it comes from */
	REQUEST_PLUGIN, /* measure through the plugin: request.traffic */
	REQUEST_BYE
};

struct request {
	enum request_op op;
	struct dial dial; /* dial.to has no family for the address "", only a port in dial_port */
	int dial_port;
	struct traffic traffic; /* transport is a constant; plugin is the server's to fill in */
};

/* 0, or -1 for anything that is not such a request. */
int request_parse(const json_t *message, struct request *out);

#define TOKEN_HEX (2 * DIAL_TOKEN_BYTES + 1)
void token_print(const unsigned char *token, char *hex);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A session of anynet pair, for the files that it is made of. */
#ifndef PAIR_CLIENT_SESSION_H
#define PAIR_CLIENT_SESSION_H

#include "client.h"

#define CLIENT_REPLY_MS 10000

struct client {
	const struct client_options *o;
	struct pair_host *host;
	json_t *result;
	int fd;
};

/* Progress, for a terminal. */
void client_tell(const struct client *c, const char *what);

/* Ends the session: the rest is not measured. Returns -1. */
int client_fail(struct client *c, const char *step, const char *fix, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* What a negative errno of the connection means. */
const char *client_why(int ret);

/* The control connection. 0 or -1. */
int client_connect(struct client *c);
int client_greet(struct client *c);

/* The answer to a request, which is released. NULL: the session is over. */
json_t *client_ask(struct client *c, const char *step, json_t *request, int ms);

/* Dials the data ports of both ends, each from the other. 0, or -1: the session is over. */
int client_measure_ports(struct client *c);

#endif

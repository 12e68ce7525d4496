/* SPDX-License-Identifier: Apache-2.0 */
/* A session of anynet pair; internal to the client's files. */
#ifndef PAIR_CLIENT_SESSION_H
#define PAIR_CLIENT_SESSION_H

#include <stdint.h>

#include "client.h"
#include "tools/shared/proved.h"

#define CLIENT_REPLY_MS 10000
#define CLIENT_FACTS_MS \
	30000 /* the server may wait for two libraries, FACTS_ASK_MS each, and probe devices */

struct client {
	const struct client_options *o;
	struct pair_host *host;
	json_t *result;
	int fd;
	uint64_t end_ms; /* until then the server serves this session, in now_ms */
	struct proved proved;
};

/* Prints progress on a terminal. */
void client_tell(const struct client *c, const char *what);

/* Records the failure that ends the session; later ones are ignored. Returns -1. */
int client_fail(struct client *c, const char *step, const char *fix, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Returns the text for a negative errno of the control connection. */
const char *client_why(int ret);

/* Open the control connection and exchange greetings. Return 0 or -1. */
int client_connect(struct client *c);
int client_greet(struct client *c);

/* Sends `request`, releases it, and returns the reply. NULL: the session has failed. */
json_t *client_ask(struct client *c, const char *step, json_t *request, int ms);

/* Returns the limit of a bandwidth run that is repeated: that of the first one, or a shorter one. */
int client_repeat_ms(const struct client *c);

/* True if the server has time for a repetition of what began at `began_ms` (now_ms) and has just ended. */
bool client_has_time(const struct client *c, uint64_t began_ms);

/* Connects to the data ports of both ends, each from the other. Returns 0, or -1 if the session has
 * failed. */
int client_measure_ports(struct client *c);

#endif

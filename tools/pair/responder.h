/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end that accepts data connections (dial.h): listeners, and a thread that serves them. A
 * connection that presents the token may send. The data is discarded and counted, and the count is
 * the reply. Other connections are closed. The thread ends at responder_stop, or after RESPONDER_MS.
 */
#ifndef PAIR_RESPONDER_H
#define PAIR_RESPONDER_H

#include <sys/socket.h>

#include "dial.h"

#define RESPONDER_LISTENERS 32
#define RESPONDER_STREAMS   64
#define RESPONDER_MS        120000

struct responder;

/* Returns NULL if out of memory. Generates the token: responder_token. */
struct responder *responder_new(void);
const unsigned char *responder_token(const struct responder *r);

/* Listens on this address and port (0 = any). Returns the port, or a negative errno. */
int responder_listen(struct responder *r, const struct sockaddr_storage *addr, int port);

/* Starts the thread. Returns 0 or a negative errno. Listeners cannot be added afterwards. */
int responder_start(struct responder *r);

/* Ends the thread, if started, and releases everything. NULL is allowed. */
void responder_stop(struct responder *r);

#endif

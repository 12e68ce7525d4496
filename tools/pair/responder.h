/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end that is dialled (dial.h): listeners, and a thread that takes connections on them. Who says the
 * token may send; everything is thrown away and counted, and the count is the answer. Others are
 * closed. The thread ends with responder_stop and never outlives RESPONDER_MS.
 */
#ifndef PAIR_RESPONDER_H
#define PAIR_RESPONDER_H

#include <sys/socket.h>

#include "dial.h"

#define RESPONDER_LISTENERS 32
#define RESPONDER_STREAMS   64
#define RESPONDER_MS        120000

struct responder;

/* NULL: out of memory. The token is made here: responder_token. */
struct responder *responder_new(void);
const unsigned char *responder_token(const struct responder *r);

/* Listen on this address and port (0 = any). Returns the port, or a negative errno. */
int responder_listen(struct responder *r, const struct sockaddr_storage *addr, int port);

/* Start the thread; 0 or a negative errno. No listener may be added afterwards. */
int responder_start(struct responder *r);

/* Ends the thread, if it was started, and releases everything. NULL is allowed. */
void responder_stop(struct responder *r);

#endif

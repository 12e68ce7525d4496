/* SPDX-License-Identifier: Apache-2.0 */
/* Data ports of this end, to which the other end connects. */
#ifndef PAIR_PORTS_H
#define PAIR_PORTS_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "facts.h"
#include "request.h"
#include "responder.h"
#include "tools/shared/proved.h"

#define PORTS_MAX 28 /* maximum of an offer; less than RESPONDER_LISTENERS */

/*
 * Listens on the local address of the control connection `fd` (a port of each third of ANYNET_PORT_RANGE, or an
 * ephemeral one) and on each other address that the plugin may use. Sets *list to "token" and "ports", a list of
 * "address" ("" = the one of the control connection), "device", "port", "error" (a text; "" = listening) and "proof"
 * (true = only so that the address can prove itself, nothing to report). Returns NULL if out of memory or threads. The
 * caller stops the responder and releases the list.
 */
struct responder *ports_open(int fd, const struct pair_host *host, json_t **list);

/*
 * True if `peer`, the other end of the control connection, may request a connection to `to`: its own address, or one
 * that it lists in its facts. An address of this host is allowed only if the peer is on this host as well.
 */
bool ports_may_dial(const struct sockaddr_storage *peer, const json_t *facts,
		    const struct sockaddr_storage *to);

/*
 * Carries out a request of REQUEST_DIAL of the other end of `fd`, which has sent these facts. Returns the result of
 * dial_run. An address that has proved itself is added to `proved`.
 */
json_t *ports_dial(int fd, const struct pair_host *host, const json_t *facts,
		   const struct request *request, struct proved *proved);

#endif

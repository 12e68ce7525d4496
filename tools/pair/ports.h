/* SPDX-License-Identifier: Apache-2.0 */
/* Data ports of this end, to which the other end connects. */
#ifndef PAIR_PORTS_H
#define PAIR_PORTS_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/socket.h>

#include <nccl_net/config.h>
#include <nccl_net/device.h>

#include "request.h"
#include "responder.h"

/*
 * Listens on the local address of the control connection `fd` (three ports of ANYNET_PORT_RANGE, or
 * an ephemeral one) and on each other address of a TCP device. Sets *list to "token" and "ports", a
 * list of "address" ("" = the one of the control connection), "device", "port" and "error" (a text;
 * "" = listening). Returns NULL if out of memory or threads. The caller stops the responder and
 * releases the list.
 */
struct responder *ports_open(int fd, const struct anynet_config *cfg,
			     const struct anynet_probe *probe, json_t **list);

/*
 * True if the other end of this control connection may request a connection to `to`: its own
 * address, or one of a device in its facts. Loopback addresses are allowed only if the control
 * connection uses loopback.
 */
bool ports_may_dial(int fd, const json_t *facts, const struct sockaddr_storage *to);

/* Sets what is to be dialled for a request of REQUEST_DIAL. Returns false if that may not be dialled. */
bool ports_find(int fd, const json_t *facts, const struct request *request, struct dial *dial);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The data ports of this end, opened for the other to dial. */
#ifndef PAIR_PORTS_H
#define PAIR_PORTS_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/socket.h>

#include <nccl_net/config.h>
#include <nccl_net/device.h>

#include "responder.h"

/*
 * Listens on the local address of the control connection `fd` (three ports of ANYNET_PORT_RANGE, or an
 * ephemeral one) and on that of each TCP device that has another one. *list is "token" and "ports", a
 * list of "address" ("" = where the control connection leads to), "device", "port" and "error" (a
 * text; "" = it listens). NULL: out of memory, or no thread. The caller releases both.
 */
struct responder *ports_open(int fd, const struct anynet_config *cfg,
			     const struct anynet_probe *probe, json_t **list);

/*
 * May the other end of this control connection have `to` dialled? Its own address, and those of the
 * devices in its facts; a loopback address only over loopback.
 */
bool ports_may_dial(int fd, const json_t *facts, const struct sockaddr_storage *to);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* ANYNET_ALLOW: the networks that may connect to this process. Set once by anynet_net_start, read-only afterwards. */
#ifndef ANYNET_ALLOW_H
#define ANYNET_ALLOW_H

#include <stdbool.h>
#include <sys/socket.h>

/* Set the networks. `list` is "network,…"; "" = all, "none" = no network. An invalid list, which the parser of the
 * setting rejects already, admits no network. */
void allow_start(const char *list);

/* May this address connect? IPv4-mapped IPv6 addresses count as IPv4, in `addr` and in the list. */
bool allow_permits(const struct sockaddr_storage *addr);

#endif

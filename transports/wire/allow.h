/* SPDX-License-Identifier: Apache-2.0 */
/* ANYNET_ALLOW: who may connect to us at all. Set once, by anynet_net_start; read-only afterwards. */
#ifndef ANYNET_ALLOW_H
#define ANYNET_ALLOW_H

#include <stdbool.h>
#include <sys/socket.h>

/* "network,…" as ANYNET_ALLOW holds it; "" = everybody, "none" = nobody. A list that does not parse
 * (the settings let none through) lets nobody in. */
void allow_start(const char *list);

/* May this address connect? An IPv4 address within IPv6 counts as IPv4, on either side. */
bool allow_permits(const struct sockaddr_storage *addr);

#endif

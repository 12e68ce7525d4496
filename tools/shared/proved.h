/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses that belong to the other host: a data port there has proved in this session that it knows the token
 * (tools/pair/proof.h). The plugin's protocol sends a token first, and takes further addresses from its peer. So the process that
 * drives the plugin is confined to these addresses: nothing else receives bytes that an unauthenticated peer has chosen.
 */
#ifndef TOOLS_PROVED_H
#define TOOLS_PROVED_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define PROVED_MAX      48
#define PROVED_PORT_MIN 1024 /* data ports are never privileged ports */

struct proved {
	size_t count;
	struct sockaddr_storage addrs[PROVED_MAX];
};

/* Adds an address, if there is room. Ports are ignored. */
void proved_add(struct proved *proved, const struct sockaddr_storage *addr);

/*
 * From now on the stream sockets of this process, also those of libraries that it loads, connect only to these
 * addresses, and to ports from PROVED_PORT_MIN on. Other connects fail with EACCES. `proved` must stay valid.
 */
void proved_confine(const struct proved *proved);

/* Returns "192.0.2.7 port 22", the first address to which a connect was refused; "" = none was. */
const char *proved_refused(void);

#endif

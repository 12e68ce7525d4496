/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of names, without waiting for a name server for ever. */
#ifndef CHECK_RESOLVER_H
#define CHECK_RESOLVER_H

#include <sys/socket.h>

/* 0, or an error of getaddrinfo: EAI_AGAIN also if it takes too long. */
int resolver_ask(const char *name, struct sockaddr_storage *addr);

#endif

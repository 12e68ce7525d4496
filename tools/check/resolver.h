/* SPDX-License-Identifier: Apache-2.0 */
/* Name resolution with a time limit. */
#ifndef CHECK_RESOLVER_H
#define CHECK_RESOLVER_H

#include <sys/socket.h>

/* Returns 0, or an error of getaddrinfo; EAI_AGAIN also after the time limit. */
int resolver_ask(const char *name, struct sockaddr_storage *addr);

#endif

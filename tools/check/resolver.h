/* SPDX-License-Identifier: Apache-2.0 */
/* Name resolution with a time limit. */
#ifndef CHECK_RESOLVER_H
#define CHECK_RESOLVER_H

#include <stdbool.h>
#include <sys/socket.h>

#define RESOLVER_SECONDS 6 /* time limit: glibc asks the second name server after 5 s */
#define RESOLVER_SLOW    2 /* seconds; a slower answer is a finding of its own */

/* Returns 0, or an error of getaddrinfo; EAI_INPROGRESS after the time limit. *slow: the answer took RESOLVER_SLOW. */
int resolver_ask(const char *name, struct sockaddr_storage *addr, bool *slow);

#endif
